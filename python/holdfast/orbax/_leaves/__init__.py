"""Writes single leaves to files and reads them."""
