"""`holdfast.orbax.v1.training.save_decision_policies`, under its older path."""

from holdfast.orbax.v1.training.save_decision_policies import *  # noqa: F403
