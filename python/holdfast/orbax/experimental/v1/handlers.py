"""`holdfast.orbax.v1.handlers`, by its older path."""

from holdfast.orbax.v1.handlers import *  # noqa: F403
