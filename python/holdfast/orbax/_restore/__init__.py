"""Restores of items that are trees, older items and transforms included."""
