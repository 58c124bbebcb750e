"""Checkpoint paths: which checkpoints are complete, and path objects for
handlers."""

from __future__ import annotations

import errno
import os
from typing import Any, Protocol, runtime_checkable

from holdfast import _engine, _files
from holdfast._remote_path import as_path
from holdfast.orbax._processes.coroutines import run_sync
from holdfast.orbax.options import AtomicityOptions

TMP_DIR_SUFFIX = ".orbax-checkpoint-tmp"
COMMIT_SUCCESS_FILE = "commit_success.txt"

PathLike = str | os.PathLike[str]


def handler_path(path: PathLike) -> Any:
    """Returns the path object that a user's handler gets.

    The object is an `etils.epath.Path` in programs that use etils, as with
    Orbax, and otherwise a `pathlib.Path`. For a URL it is a RemotePath, which
    has the same methods.
    """
    return as_path(path)


def is_gcs_path(path: str | os.PathLike[str]) -> bool:
    """Returns whether the path begins with `gs://`."""
    return os.fspath(path).startswith("gs://")


def check_parents(path: str) -> None:
    """Checks that no parent of an absolute path is a file.

    Raises:
        NotADirectoryError: a parent is a file.
    """
    if _files.is_url(path):
        return  # in a bucket, a file may have the name of a directory
    parent = _files.dirname(path)
    while not _files.lexists(parent):
        parent = _files.dirname(parent)
    if not _files.isdir(parent):
        raise NotADirectoryError(
            errno.ENOTDIR, os.strerror(errno.ENOTDIR), path
        )


def commit_rule(options: AtomicityOptions | None) -> dict[str, Any]:
    """Returns the engine's arguments for how checkpoints are committed."""
    options = options or AtomicityOptions()
    return {
        "commit_mode": options.mode.value,
        "allow_legacy_atomic_rename": options.allow_legacy_atomic_rename,
    }


def is_path_temporary(
    path: PathLike,
    *,
    temporary_path_cls: Any | None = None,
    atomicity_options: AtomicityOptions | None = None,
) -> bool:
    """Returns whether `path` is a checkpoint that was never committed.

    Args:
        path: a directory.
        temporary_path_cls: a class of temporary paths that decides; None means
            that `atomicity_options` decide.
        atomicity_options: how checkpoints there are committed.
    """
    if temporary_path_cls is not None:
        return _is_valid(temporary_path_cls.validate, path)
    return _engine.is_path_temporary(
        os.fspath(path), **commit_rule(atomicity_options)
    )


def is_path_finalized(
    path: PathLike,
    *,
    temporary_path_cls: Any | None = None,
    atomicity_options: AtomicityOptions | None = None,
) -> bool:
    """Returns whether `path` is a committed checkpoint; see
    `is_path_temporary`."""
    if temporary_path_cls is not None:
        return _is_valid(temporary_path_cls.validate_final, path)
    return _engine.is_path_finalized(
        os.fspath(path), **commit_rule(atomicity_options)
    )


def _is_valid(validate: Any, path: PathLike) -> bool:
    """Returns whether a class of temporary paths accepts a path."""
    try:
        run_sync(validate(handler_path(path)))
    except ValueError:
        return False
    return True


@runtime_checkable
class PathAwaitingCreation(Protocol):
    """A directory that a save creates when it is first needed.

    A handler gets such an object instead of a path. `path` is the future path.
    The handler may write there only after `await_creation`.
    """

    def __truediv__(self, other: str | os.PathLike[str]) -> Any:
        """Returns a path below the directory; the handler must create it."""
        ...

    @property
    def path(self) -> Any:
        """The path that the directory will have."""
        ...

    async def await_creation(self) -> Any:
        """Returns the path once the directory exists."""
        ...
