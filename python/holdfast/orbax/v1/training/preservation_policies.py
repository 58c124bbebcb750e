"""Policies that keep steps: `v1.training.preservation_policies`."""

from holdfast.orbax.preservation_policy import *  # noqa: F403
