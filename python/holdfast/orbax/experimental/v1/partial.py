"""`holdfast.orbax.v1.partial`, by its older path."""

from holdfast.orbax.v1.partial import *  # noqa: F403
