"""`holdfast.orbax.v1.path.step`, under its older path."""

from holdfast.orbax.v1.path.step import *  # noqa: F403
