"""Orbax's `_src.serialization.cloud_pathways_array_handler`.

Libraries for Pathways import it on any platform.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.orbax._compat.refusal import refuse
from holdfast.orbax._leaves.param_info import ParamInfo
from holdfast.orbax._type_handlers.arrays import ArrayHandler


def extract_parent_dir_and_name(
    infos: Sequence[ParamInfo],
) -> tuple[Sequence[str], Sequence[str]]:
    """Returns the directories above the arrays, and the arrays' names."""
    return (
        [str(info.parent_dir) for info in infos],
        [str(info.name) for info in infos],
    )


class CloudPathwaysArrayHandler(ArrayHandler):
    """The handler of a Pathways job; constructing it always raises."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Always raises.

        Raises:
            NotImplementedError: always.
        """
        refuse(
            "CloudPathwaysArrayHandler",
            "it needs Pathways' persistence service. Without a Pathways"
            " backend jax.Arrays are saved by type_handlers.ArrayHandler, which"
            " needs no registration; on one, run the program with Orbax",
        )
