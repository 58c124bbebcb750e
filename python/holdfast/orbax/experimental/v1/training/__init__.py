"""`holdfast.orbax.v1.training`, under its older path."""

from holdfast.orbax.v1.training import *  # noqa: F403
