"""Transformations of flat dicts of parameters."""
