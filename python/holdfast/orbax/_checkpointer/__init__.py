"""Writes one checkpoint, completely or not at all."""
