"""`holdfast.orbax.v1.training.preservation_policies`, under its older path."""

from holdfast.orbax.v1.training.preservation_policies import *  # noqa: F403
