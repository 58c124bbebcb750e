"""Handlers of leaves by their types, and the registry of them."""
