"""Deleting steps: Orbax's `deleter`.

A step disappears at once, by a rename, and is removed in the background; see
`_trash`.
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
        """Waits for what `delete` would have waited for."""

    def close(self) -> None:
        """Ends the use of this object."""


class PathDeleter:
    """Removes or moves a directory."""

    def __init__(
        self, directory: PathLike, *, num_threads: int | None = None
    ) -> None:
        """Makes one.

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
        """Removes a directory, or moves it.

        Args:
            path: the directory.
            destination: where it goes; None: it is removed.
            overwrite: replace an empty directory there.

        Raises:
            OSError: it cannot be removed or moved.
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

    # Whether `delete` returns before the files are gone.
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
            directory: of the steps.
            name_format: of their names.
            primary_host: the process that deletes; None: each.
            todelete_subdir: move steps there, in `directory`, instead.
            todelete_full_path: the same, in a bucket.
            duration_metric: under which jax is told how long a step's
                deletion took.
            num_threads: at most so many steps are removed at once.
        """
        self._directory = handler_path(directory)
        self._name_format = name_format
        self._primary_host = primary_host
        self._todelete_subdir = todelete_subdir
        self._todelete_full_path = todelete_full_path
        self._duration_metric = duration_metric
        self._remover = Remover(num_threads or 1)

    def delete(self, step: int) -> None:
        """Deletes a step, or moves it; nothing if it does not exist.

        Raises:
            NotImplementedError: with `todelete_full_path`, outside of buckets.
            OSError: it cannot be renamed.
        """
        self.delete_steps([step])
        self.wait_until_finished()

    def delete_steps(self, steps: Sequence[int]) -> None:
        """Lets steps disappear; the files go later.

        Raises:
            NotImplementedError: with `todelete_full_path`, outside of buckets.
            OSError: one cannot be renamed.
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
        """Waits until the files of deleted steps are gone.

        A deleter whose `delete` returns early does not wait here either.
        """
        if not self._returns_early:
            self._remover.wait()

    def close(self) -> None:
        """Waits until the files of deleted steps are gone."""
        self._remover.wait()


class ThreadedCheckpointDeleter(StandardCheckpointDeleter):
    """The same, whose `delete` returns before the files are gone."""

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
    """A deleter; see StandardCheckpointDeleter for the other arguments.

    Args:
        enable_background_delete: `delete` returns before the files are gone.
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
