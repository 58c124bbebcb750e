"""Finds and removes uncommitted checkpoints: Orbax's `temporary_paths`."""

from __future__ import annotations

import functools
import os
from collections.abc import Awaitable, Callable, Iterable
from typing import ParamSpec, TypeVar

from holdfast import _engine, _files
from holdfast._log import log
from holdfast.orbax._checkpointer import paths
from holdfast.orbax._checkpointer.paths import (
    TMP_DIR_SUFFIX,
    PathLike,
    handler_path,
)
from holdfast.orbax.atomicity_defaults import get_default_temporary_path_class
from holdfast.orbax.atomicity_types import TemporaryPath, ValidationError
from holdfast.orbax.metadata.step import STEP_METADATA_FILENAME
from holdfast.orbax.multihost import is_primary_host
from holdfast.orbax.options import AtomicityOptions, MultiprocessingOptions

__all__ = [
    "TMP_DIR_SUFFIX",
    "ValidationError",
    "all_temporary_paths",
    "cleanup_temporary_paths",
    "is_path_finalized",
    "is_path_temporary",
    "remove_temporary_paths",
    "temporary_path_names",
]

_P = ParamSpec("_P")
_T = TypeVar("_T")


def _as_coroutine(function: Callable[_P, _T]) -> Callable[_P, Awaitable[_T]]:
    """Wraps a function in a coroutine function, as Orbax's function is."""

    @functools.wraps(function)
    async def call(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        return function(*args, **kwargs)

    return call


is_path_temporary = _as_coroutine(paths.is_path_temporary)
is_path_finalized = _as_coroutine(paths.is_path_finalized)


def temporary_path_names(
    root_directory: PathLike,
    *,
    temporary_path_cls: type[TemporaryPath] | None = None,
    atomicity_options: AtomicityOptions | None = None,
) -> list[str]:
    """Returns the names of the uncommitted checkpoints in a directory.

    Args:
        root_directory: the directory.
        temporary_path_cls: see `is_path_temporary`.
        atomicity_options: see `is_path_temporary`.
    """
    directory = os.fspath(root_directory)
    if temporary_path_cls is None:
        rule = paths.commit_rule(atomicity_options)
        return _engine.temporary_names(directory, **rule)
    if not _files.exists(directory):
        return []
    return [
        name
        for name in _files.listdir(directory)
        if paths.is_path_temporary(
            os.path.join(directory, name), temporary_path_cls=temporary_path_cls
        )
    ]


async def all_temporary_paths(
    root_directory: PathLike,
    *,
    temporary_path_cls: type[TemporaryPath] | None = None,
    atomicity_options: AtomicityOptions | None = None,
) -> Iterable[TemporaryPath]:
    """Returns the uncommitted checkpoints in a directory.

    Args:
        root_directory: the directory.
        temporary_path_cls: the class of the results; None means that
            `atomicity_options` determine the class.
        atomicity_options: how checkpoints in the directory are committed.
    """
    root = handler_path(root_directory)
    names = temporary_path_names(
        root,
        temporary_path_cls=temporary_path_cls,
        atomicity_options=atomicity_options,
    )
    found = []
    for name in names:
        kind = temporary_path_cls or get_default_temporary_path_class(
            root / name, atomicity_options=atomicity_options
        )
        found.append(kind.from_temporary(root / name))
    return found


def remove_temporary_paths(
    directory: PathLike,
    *,
    multiprocessing_options: MultiprocessingOptions | None = None,
    temporary_path_cls: type[TemporaryPath] | None = None,
    atomicity_options: AtomicityOptions | None = None,
) -> None:
    """Removes uncommitted checkpoints on the primary process.

    A checkpoint that a running holdfast save is writing is not removed.

    Args:
        directory: the directory of the steps.
        multiprocessing_options: which process is the primary.
        temporary_path_cls: see `is_path_temporary`.
        atomicity_options: see `is_path_temporary`.

    Raises:
        OSError: a checkpoint cannot be removed.
    """
    options = multiprocessing_options or MultiprocessingOptions()
    if not is_primary_host(options.primary_host):
        return
    names = temporary_path_names(
        directory,
        temporary_path_cls=temporary_path_cls,
        atomicity_options=atomicity_options,
    )
    for name in names:
        path = os.path.join(os.fspath(directory), name)
        if not _was_made_by_a_save(path):
            continue
        log.info("Removing %s, which was never committed", path)
        if not _engine.remove_unused(path):
            log.info("Leaving %s alone: a save is writing there", path)


# _HOLDFAST_SAVE is a save's lease in an object store; it is written first.
_MADE_BY_A_SAVE = frozenset({STEP_METADATA_FILENAME, "_HOLDFAST_SAVE"})


def _was_made_by_a_save(path: str) -> bool:
    """Returns whether a save made this directory, which contains no marker."""
    if TMP_DIR_SUFFIX in os.path.basename(path):
        return True
    names = [entry.name for entry in _files.own_entries(path)]
    return not names or not _MADE_BY_A_SAVE.isdisjoint(names)


cleanup_temporary_paths = _as_coroutine(remove_temporary_paths)
