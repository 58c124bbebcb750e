"""`holdfast.orbax.v1.options`, by its older path."""

from holdfast.orbax.v1.options import *  # noqa: F403
