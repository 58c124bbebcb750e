"""`holdfast.orbax.v1.training`, by its older path."""

from holdfast.orbax.v1.training import *  # noqa: F403
