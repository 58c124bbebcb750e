"""`holdfast.orbax.v1.path.step`, by its older path."""

from holdfast.orbax.v1.path.step import *  # noqa: F403
