"""`holdfast.orbax.v1.options`, under its older path."""

from holdfast.orbax.v1.options import *  # noqa: F403
