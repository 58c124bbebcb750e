"""`holdfast.orbax.v1.training.pathways`, by its older path."""

from holdfast.orbax.v1.training.pathways import *  # noqa: F403
