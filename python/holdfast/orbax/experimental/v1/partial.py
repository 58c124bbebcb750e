"""`holdfast.orbax.v1.partial`, under its older path."""

from holdfast.orbax.v1.partial import *  # noqa: F403
