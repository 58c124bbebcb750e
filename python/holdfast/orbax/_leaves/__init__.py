"""Moves one leaf to the files and back."""
