"""Deletes steps: Orbax's `deleter`.

A rename makes a step disappear immediately; its files are then removed in the
background. See `_manager.trash`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any, Protocol

from holdfast import _files
from holdfast._log import log
from holdfast.orbax._checkpointer.paths import PathLike, handler_path
from holdfast.orbax._devices.monitoring import record_duration, record_event
from holdfast.orbax._manager.trash import Remover
from holdfast.orbax.multihost import is_primary_host
from holdfast.orbax.step import (
    Metadata,
    NameFormat,
    find_step_path,
)

__all__ = [
    "CheckpointDeleter",
    "PathDeleter",
    "StandardCheckpointDeleter",
    "ThreadedCheckpointDeleter",
    "create_checkpoint_deleter",
]

_METRICS = "/jax/orbax/checkpoint_manager"
_STANDARD_DURATION = f"{_METRICS}/standard_checkpoint_deleter/duration"


class CheckpointDeleter(Protocol):
    """Deletes steps."""

    def delete(self, step: int) -> None:
        """Deletes a step."""

    def delete_steps(self, steps: Sequence[int]) -> None:
        """Deletes steps."""

    def wait_until_finished(self) -> None:
        """Waits for deletions, unless `delete` returns before they end."""

    def close(self) -> None:
        """Releases this object's resources."""


class PathDeleter:
    """Removes or moves a directory."""

    def __init__(
        self, directory: PathLike, *, num_threads: int | None = None
    ) -> None:
        """Makes a deleter.

        Args:
            directory: ignored; accepted because Orbax has it.
            num_threads: ignored; accepted because Orbax has it.
        """

    def delete(
        self,
        path: PathLike,
        *,
        destination: PathLike | None = None,
        overwrite: bool = False,
    ) -> None:
        """Removes or moves a directory.

        Args:
            path: the directory.
            destination: the new path; None removes the directory.
            overwrite: replaces an empty directory at `destination`.

        Raises:
            OSError: the directory cannot be removed or moved.
        """
        if destination is None:
            _files.rmtree(path)
            return
        _files.makedirs(_files.dirname(os.fspath(destination)), exist_ok=True)
        if overwrite:
            _files.replace(path, destination)
        else:
            _files.rename(path, destination)


class StandardCheckpointDeleter:
    """Deletes the steps of a directory, on the primary process.

    Thread-safety: one call at a time.
    """

    # Whether `delete` returns before the files are removed.
    _returns_early = False

    def __init__(
        self,
        directory: PathLike,
        *,
        name_format: NameFormat[Metadata],
        primary_host: int | None = 0,
        todelete_subdir: str | None = None,
        todelete_full_path: str | None = None,
        duration_metric: str | None = _STANDARD_DURATION,
        num_threads: int | None = None,
    ) -> None:
        """Makes a deleter.

        Args:
            directory: the directory of the steps.
            name_format: the format of the steps' names.
            primary_host: the process that deletes; None means every process.
            todelete_subdir: a subdirectory of `directory` to which steps are
                moved instead of being removed.
            todelete_full_path: the same for steps in a bucket; a path in the
                bucket.
            duration_metric: the name under which the time to delete a step is
                reported to jax.
            num_threads: maximum number of steps removed concurrently.
        """
        self._directory = handler_path(directory)
        self._name_format = name_format
        self._primary_host = primary_host
        self._todelete_subdir = todelete_subdir
        self._todelete_full_path = todelete_full_path
        self._duration_metric = duration_metric
        self._remover = Remover(num_threads or 1)

    def delete(self, step: int) -> None:
        """Deletes or moves a step; does nothing if the step does not exist.

        Raises:
            NotImplementedError: `todelete_full_path` is set, and the steps are
                not in a bucket.
            OSError: the step cannot be renamed.
        """
        self.delete_steps([step])
        self.wait_until_finished()

    def delete_steps(self, steps: Sequence[int]) -> None:
        """Makes steps disappear; their files are removed later.

        Raises:
            NotImplementedError: `todelete_full_path` is set, and the steps are
                not in a bucket.
            OSError: a step cannot be renamed.
        """
        if not steps or not is_primary_host(self._primary_host):
            return
        start = time.time()
        try:
            self._delete_steps(steps)
        finally:
            duration = (time.time() - start) / len(steps)
            for _ in steps if self._duration_metric else ():
                record_duration(str(self._duration_metric), duration)

    def _delete_steps(self, steps: Sequence[int]) -> None:
        paths = [path for step in steps if (path := self._find(step))]
        self._remover.dispose(
            os.fspath(self._directory),
            [path.name for path in paths],
            todelete_subdir=self._todelete_subdir,
            todelete_full_path=self._todelete_full_path,
        )

    def _find(self, step: int) -> Any | None:
        try:
            return find_step_path(
                self._directory,
                self._name_format,
                step=step,
                include_uncommitted=True,
            )
        except ValueError as error:
            log.warning(
                "Unable to find the step %d for deletion or renaming, err=%s",
                step,
                error,
            )
            return None

    def wait_until_finished(self) -> None:
        """Waits until the files of deleted steps are removed.

        Does not wait if `delete` returns early.
        """
        if not self._returns_early:
            self._remover.wait()

    def close(self) -> None:
        """Waits until the files of deleted steps are removed."""
        self._remover.wait()


class ThreadedCheckpointDeleter(StandardCheckpointDeleter):
    """A deleter whose `delete` returns before the files are removed."""

    _returns_early = True

    def __init__(
        self,
        directory: PathLike,
        *,
        name_format: NameFormat[Metadata],
        primary_host: int | None = 0,
        todelete_subdir: str | None = None,
        todelete_full_path: str | None = None,
        num_threads: int | None = None,
    ) -> None:
        """Makes a deleter; see StandardCheckpointDeleter."""
        super().__init__(
            directory,
            name_format=name_format,
            primary_host=primary_host,
            todelete_subdir=todelete_subdir,
            todelete_full_path=todelete_full_path,
            duration_metric=f"{_METRICS}/threaded_checkpoint_deleter/duration",
            num_threads=num_threads,
        )
        record_event(f"{_METRICS}/threaded_checkpoint_deleter/init")


def create_checkpoint_deleter(
    directory: PathLike,
    *,
    name_format: NameFormat[Metadata],
    primary_host: int | None = 0,
    todelete_subdir: str | None = None,
    todelete_full_path: str | None = None,
    enable_background_delete: bool = False,
    num_threads: int | None = None,
) -> CheckpointDeleter:
    """Makes a deleter; see StandardCheckpointDeleter for the other arguments.

    Args:
        enable_background_delete: `delete` returns before the files are removed.
    """
    kind: type[StandardCheckpointDeleter] = StandardCheckpointDeleter
    if enable_background_delete:
        kind = ThreadedCheckpointDeleter
    return kind(
        directory,
        name_format=name_format,
        primary_host=primary_host,
        todelete_subdir=todelete_subdir,
        todelete_full_path=todelete_full_path,
        num_threads=num_threads,
    )
