"""`holdfast.orbax.v1.multihost`, under its older path."""

from holdfast.orbax.v1.multihost import *  # noqa: F403
