"""`holdfast.orbax.v1.tree`, under its older path."""

from holdfast.orbax.v1.tree import *  # noqa: F403
