"""`holdfast.orbax.v1.path`, by its older path."""

from holdfast.orbax.v1.path import *  # noqa: F403
