"""Paths of checkpoints: `orbax.checkpoint.path`."""

from typing import Any

from holdfast.orbax import step
from holdfast.orbax._later import attribute_error

__all__ = ["step"]

_LATER = frozenset(
    {
        "atomicity",
        "atomicity_defaults",
        "atomicity_types",
        "deleter",
        "format_utils",
    }
)


def __getattr__(name: str) -> Any:
    raise attribute_error(__name__, name, _LATER)
