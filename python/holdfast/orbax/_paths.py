"""Checkpoint paths: what counts as complete, and what handlers are given."""

from __future__ import annotations

import errno
import os
import pathlib
import sys
from typing import Any

from holdfast.orbax._coroutines import run_sync
from holdfast.orbax.options import AtomicityMode, AtomicityOptions

TMP_DIR_SUFFIX = ".orbax-checkpoint-tmp"
COMMIT_SUCCESS_FILE = "commit_success.txt"

PathLike = str | os.PathLike[str]


def handler_path(path: PathLike) -> Any:
    """The path object that a user's handler is given.

    An `etils.epath.Path` in programs that use etils, as with Orbax; else a
    `pathlib.Path`.
    """
    epath = sys.modules.get("etils.epath")
    return pathlib.Path(path) if epath is None else epath.Path(path)


def check_parents(path: str) -> None:
    """Checks that no parent of an absolute path is a file.

    Raises:
        NotADirectoryError: one is.
    """
    parent = os.path.dirname(path)
    while not os.path.lexists(parent):
        parent = os.path.dirname(parent)
    if not os.path.isdir(parent):
        raise NotADirectoryError(
            errno.ENOTDIR, os.strerror(errno.ENOTDIR), path
        )


def _is_committed(path: PathLike) -> bool:
    return os.path.exists(os.path.join(os.fspath(path), COMMIT_SUCCESS_FILE))


def is_path_temporary(
    path: PathLike,
    *,
    temporary_path_cls: Any | None = None,
    atomicity_options: AtomicityOptions | None = None,
) -> bool:
    """Whether `path` is a checkpoint that was never committed.

    Args:
        path: a directory.
        temporary_path_cls: a class of temporary paths that knows; None: the
            options do.
        atomicity_options: how checkpoints there are committed.
    """
    text = os.fspath(path)
    if temporary_path_cls is not None:
        return _is_valid(temporary_path_cls.validate, path)
    if _wants_commit_file(atomicity_options):
        if is_path_finalized(path, atomicity_options=atomicity_options):
            return False
        return os.path.isdir(text)
    has_infix = TMP_DIR_SUFFIX in os.path.basename(text)
    return has_infix and os.path.isdir(text) and not os.path.islink(text)


def is_path_finalized(
    path: PathLike,
    *,
    temporary_path_cls: Any | None = None,
    atomicity_options: AtomicityOptions | None = None,
) -> bool:
    """Whether `path` is a committed checkpoint.

    Args:
        path: a directory.
        temporary_path_cls: a class of temporary paths that knows; None: the
            options do.
        atomicity_options: how checkpoints there are committed.
    """
    text = os.fspath(path)
    if temporary_path_cls is not None:
        return _is_valid(temporary_path_cls.validate_final, path)
    is_named_so = TMP_DIR_SUFFIX not in os.path.basename(text)
    is_named_so = is_named_so and os.path.isdir(text)
    if not _wants_commit_file(atomicity_options):
        return is_named_so
    if os.path.isdir(text) and _is_committed(path):
        return True
    assert atomicity_options is not None
    return atomicity_options.allow_legacy_atomic_rename and is_named_so


def _is_valid(validate: Any, path: PathLike) -> bool:
    """What a class of temporary paths says of a path."""
    try:
        run_sync(validate(handler_path(path)))
    except ValueError:
        return False
    return True


def _wants_commit_file(options: AtomicityOptions | None) -> bool:
    return options is not None and options.mode is AtomicityMode.COMMIT_FILE
