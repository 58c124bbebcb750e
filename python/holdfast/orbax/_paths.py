"""Checkpoint paths: what counts as complete, and what handlers are given."""

from __future__ import annotations

import errno
import os
from typing import Any

from holdfast import _files
from holdfast._remote_path import as_path
from holdfast.orbax._coroutines import run_sync
from holdfast.orbax.options import AtomicityMode, AtomicityOptions

TMP_DIR_SUFFIX = ".orbax-checkpoint-tmp"
COMMIT_SUCCESS_FILE = "commit_success.txt"

PathLike = str | os.PathLike[str]


def handler_path(path: PathLike) -> Any:
    """The path object that a user's handler is given.

    An `etils.epath.Path` in programs that use etils, as with Orbax; else a
    `pathlib.Path`. Of a URL a RemotePath, with the same methods.
    """
    return as_path(path)


def is_gcs_path(path: str | os.PathLike[str]) -> bool:
    """True for `gs://` paths."""
    return os.fspath(path).startswith("gs://")


def check_parents(path: str) -> None:
    """Checks that no parent of an absolute path is a file.

    Raises:
        NotADirectoryError: one is.
    """
    if _files.is_url(path):
        return  # in a bucket both may be there
    parent = _files.dirname(path)
    while not _files.lexists(parent):
        parent = _files.dirname(parent)
    if not _files.isdir(parent):
        raise NotADirectoryError(
            errno.ENOTDIR, os.strerror(errno.ENOTDIR), path
        )


def _is_committed(path: PathLike) -> bool:
    return _files.exists(os.path.join(os.fspath(path), COMMIT_SUCCESS_FILE))


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
    if _wants_commit_file(text, atomicity_options):
        if is_path_finalized(path, atomicity_options=atomicity_options):
            return False
        return _files.isdir(text)
    has_infix = TMP_DIR_SUFFIX in os.path.basename(text)
    return has_infix and _files.isdir(text) and not _files.islink(text)


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
    if _files.is_url(text) and _wants_commit_file(text, atomicity_options):
        # If the marker is there, the directory is.
        if _is_committed(path):
            return True
        if not _allows_legacy(atomicity_options):
            return False
    is_named_so = TMP_DIR_SUFFIX not in os.path.basename(text)
    is_named_so = is_named_so and _files.isdir(text)
    if not _wants_commit_file(text, atomicity_options):
        return is_named_so
    if _files.isdir(text) and _is_committed(path):
        return True
    return _allows_legacy(atomicity_options) and is_named_so


def _is_valid(validate: Any, path: PathLike) -> bool:
    """The answer of a class of temporary paths about a path."""
    try:
        run_sync(validate(handler_path(path)))
    except ValueError:
        return False
    return True


def _wants_commit_file(path: str, options: AtomicityOptions | None) -> bool:
    mode = AtomicityMode.AUTO if options is None else options.mode
    if mode is AtomicityMode.AUTO:
        return _files.is_url(path)
    return mode is AtomicityMode.COMMIT_FILE


def _allows_legacy(options: AtomicityOptions | None) -> bool:
    return options is not None and options.allow_legacy_atomic_rename
