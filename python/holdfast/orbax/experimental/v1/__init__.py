"""`holdfast.orbax.v1`, under its older path.

The objects here are those of `holdfast.orbax.v1`.
"""

from holdfast.orbax.v1 import *  # noqa: F403
