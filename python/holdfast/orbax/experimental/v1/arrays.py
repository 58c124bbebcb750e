"""`holdfast.orbax.v1.arrays`, by its older path."""

from holdfast.orbax.v1.arrays import *  # noqa: F403
