"""The interface of temporary paths: Orbax's `atomicity_types`."""

from __future__ import annotations

import abc
from typing import Any

from holdfast.orbax._checkpointer.paths import (
    COMMIT_SUCCESS_FILE,
    TMP_DIR_SUFFIX,
)

__all__ = [
    "COMMIT_SUCCESS_FILE",
    "TMP_DIR_SUFFIX",
    "TemporaryPath",
    "ValidationError",
]


class ValidationError(ValueError):
    """A path is not of the kind that a temporary path class expects."""


class TemporaryPath(abc.ABC):
    """A directory that atomically becomes a checkpoint.

    All processes construct the object; the primary process creates and
    finalizes the directory.
    """

    @classmethod
    @abc.abstractmethod
    async def validate(cls, temporary_path: Any) -> None:
        """Checks that a path is temporary.

        Raises:
            ValidationError: the path is not temporary.
        """

    @classmethod
    @abc.abstractmethod
    async def validate_final(cls, final_path: Any) -> None:
        """Checks that a path is finalized.

        Raises:
            ValidationError: the path is not finalized.
        """

    @classmethod
    @abc.abstractmethod
    def from_temporary(
        cls,
        temporary_path: Any,
        *,
        file_options: Any | None = None,
        snapshot_type: Any | None = None,
    ) -> TemporaryPath:
        """Makes the object for a given temporary path."""

    @classmethod
    @abc.abstractmethod
    def from_final(
        cls,
        final_path: Any,
        *,
        checkpoint_metadata_store: Any | None = None,
        file_options: Any | None = None,
        snapshot_type: Any | None = None,
    ) -> TemporaryPath:
        """Makes the object for the final path of a future checkpoint."""

    @abc.abstractmethod
    def get(self) -> Any:
        """Returns the temporary path, whether or not it exists."""

    @abc.abstractmethod
    def get_final(self) -> Any:
        """Returns the final path."""

    @abc.abstractmethod
    async def create(self) -> Any:
        """Creates the temporary directory and returns its path."""

    @abc.abstractmethod
    async def finalize(self) -> None:
        """Commits the directory to the final path."""
