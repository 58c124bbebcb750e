"""`holdfast.orbax.v1.handlers`, under its older path."""

from holdfast.orbax.v1.handlers import *  # noqa: F403
