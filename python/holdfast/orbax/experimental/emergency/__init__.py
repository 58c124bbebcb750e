"""Checkpoints in local storage: names that refuse."""
