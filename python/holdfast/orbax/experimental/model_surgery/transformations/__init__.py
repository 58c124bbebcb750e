"""Functions that change flat dicts of parameters."""
