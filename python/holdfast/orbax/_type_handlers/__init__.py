"""Handlers of leaves by type, and their registry."""
