"""`holdfast.orbax.v1.errors`, under its older path."""

from holdfast.orbax.v1.errors import *  # noqa: F403
