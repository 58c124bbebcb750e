"""Paths of checkpoints: `orbax.checkpoint.path`."""

from holdfast.orbax import (
    atomicity,
    atomicity_defaults,
    atomicity_types,
    deleter,
    format_utils,
    step,
)

__all__ = [
    "atomicity",
    "atomicity_defaults",
    "atomicity_types",
    "deleter",
    "format_utils",
    "step",
]
