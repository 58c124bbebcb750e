"""`holdfast.orbax.v1.multihost`, by its older path."""

from holdfast.orbax.v1.multihost import *  # noqa: F403
