"""`holdfast.orbax.v1.training.errors`, under its older path."""

from holdfast.orbax.v1.training.errors import *  # noqa: F403
