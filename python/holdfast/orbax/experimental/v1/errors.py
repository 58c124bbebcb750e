"""`holdfast.orbax.v1.errors`, by its older path."""

from holdfast.orbax.v1.errors import *  # noqa: F403
