"""Policies that save steps: `v1.training.save_decision_policies`."""

from holdfast.orbax.save_decision_policy import *  # noqa: F403
