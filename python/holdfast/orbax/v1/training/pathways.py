"""Snapshots in the memory of Pathways hosts: `v1.training.pathways`."""

from __future__ import annotations

from typing import Any

__all__ = ["Snapshotter"]


class Snapshotter:
    """Keeps copies of a state in pinned host memory; needs Pathways."""

    def __init__(self, *, replica_axis_index: int = 0) -> None:
        """Always raises: holdfast does not run on Pathways.

        Args:
            replica_axis_index: index of the mesh's replica axis.

        Raises:
            ImportError: always, as Orbax does without pathwaysutils.
        """
        raise ImportError(
            "Snapshotter requires pathwaysutils and a Pathways backend, which"
            " holdfast does not support. Save with training.Checkpointer"
            " instead."
        )

    def save(self, step: int, state: Any) -> None:
        """Copies a state in the background."""

    def load(
        self, abstract_state: Any, *, reset_snapshot_state: bool = True
    ) -> Any:
        """Returns the last copied state."""

    def join(self) -> None:
        """Waits for the background copies."""

    @property
    def latest(self) -> Any:
        """The `training.CheckpointMetadata` of the last copy."""
