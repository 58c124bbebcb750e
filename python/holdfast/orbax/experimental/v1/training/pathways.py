"""`holdfast.orbax.v1.training.pathways`, under its older path."""

from holdfast.orbax.v1.training.pathways import *  # noqa: F403
