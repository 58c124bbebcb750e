"""Meshes of several slices: `orbax.checkpoint.multihost.multislice`.

Orbax's module of this path has no names of its own either.
"""

__all__: list[str] = []
