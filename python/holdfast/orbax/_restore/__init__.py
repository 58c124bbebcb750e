"""Restores items that are trees, including older items and transforms."""
