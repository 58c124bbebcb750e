"""`holdfast.orbax.v1.path`, under its older path."""

from holdfast.orbax.v1.path import *  # noqa: F403
