"""`holdfast.orbax.v1.arrays`, under its older path."""

from holdfast.orbax.v1.arrays import *  # noqa: F403
