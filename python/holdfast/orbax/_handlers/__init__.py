"""Handlers of items: their interface, and items that are trees."""
