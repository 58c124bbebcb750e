"""Meshes of several slices: `orbax.checkpoint.multihost.multislice`.

Orbax's module at this path defines no names either.
"""

__all__: list[str] = []
