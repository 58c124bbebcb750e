"""Snapshots in the memory of Pathways hosts: `v1.training.pathways`."""

from __future__ import annotations

from typing import Any

__all__ = ["Snapshotter"]


class Snapshotter:
    """Keeps copies of a state in pinned host memory; needs Pathways."""

    def __init__(self, *, replica_axis_index: int = 0) -> None:
        """Refuses: holdfast does not run on Pathways.

        Args:
            replica_axis_index: the axis of the mesh that counts replicas.

        Raises:
            ImportError: always; Orbax raises it without pathwaysutils.
        """
        raise ImportError(
            "Snapshotter requires pathwaysutils and a Pathways backend, which"
            " holdfast does not support. Save with training.Checkpointer"
            " instead."
        )

    def save(self, step: int, state: Any) -> None:
        """Copies a state, in the background."""

    def load(
        self, abstract_state: Any, *, reset_snapshot_state: bool = True
    ) -> Any:
        """The last state that was copied."""

    def join(self) -> None:
        """Waits for the copies in the background."""

    @property
    def latest(self) -> Any:
        """The answer of `training.CheckpointMetadata` about the last copy."""
