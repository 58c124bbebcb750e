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
    """A path is not what a class of temporary paths expects."""


class TemporaryPath(abc.ABC):
    """A directory that becomes a checkpoint at once.

    All processes make the object; the primary one makes the directory and
    finalizes it.
    """

    @classmethod
    @abc.abstractmethod
    async def validate(cls, temporary_path: Any) -> None:
        """Checks that a path is a temporary one.

        Raises:
            ValidationError: it is not.
        """

    @classmethod
    @abc.abstractmethod
    async def validate_final(cls, final_path: Any) -> None:
        """Checks that a path is a finalized one.

        Raises:
            ValidationError: it is not.
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
        """The object of a temporary directory."""

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
        """The object of a checkpoint that is to be."""

    @abc.abstractmethod
    def get(self) -> Any:
        """The temporary path, made or not."""

    @abc.abstractmethod
    def get_final(self) -> Any:
        """The final path."""

    @abc.abstractmethod
    async def create(self) -> Any:
        """Makes the temporary directory; returns its path."""

    @abc.abstractmethod
    async def finalize(self) -> None:
        """Makes the final path exist."""
