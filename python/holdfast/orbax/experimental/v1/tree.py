"""`holdfast.orbax.v1.tree`, by its older path."""

from holdfast.orbax.v1.tree import *  # noqa: F403
