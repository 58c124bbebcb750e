"""Strategies that write and read the checkpoints of each back end."""
