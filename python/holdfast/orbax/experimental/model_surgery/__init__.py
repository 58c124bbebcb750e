"""Transforms models: `orbax.checkpoint.experimental.model_surgery`."""
