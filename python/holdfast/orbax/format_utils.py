"""Detects what a directory contains: Orbax's `format_utils`."""

from __future__ import annotations

import os

from holdfast import _files
from holdfast.orbax._checkpointer.paths import PathLike
from holdfast.orbax.metadata.step import read_step_metadata

__all__ = [
    "OCDBT_MANIFEST_FILE",
    "PYTREE_METADATA_FILE",
    "is_ocdbt_checkpoint",
    "is_orbax_checkpoint",
    "is_pytree_checkpoint",
]

OCDBT_MANIFEST_FILE = "manifest.ocdbt"
PYTREE_METADATA_FILE = "_METADATA"
_MSGPACK_FILE = "checkpoint"


def _has(path: str, name: str) -> bool:
    return _files.exists(os.path.join(path, name))


def is_ocdbt_checkpoint(path: PathLike) -> bool:
    """Returns whether an item's arrays are stored in an OCDBT database."""
    return _has(os.fspath(path), OCDBT_MANIFEST_FILE)


def is_pytree_checkpoint(path: PathLike) -> bool:
    """Returns whether a directory looks like a pytree item."""
    directory = os.fspath(path)
    with _files.scandir(directory) as entries:
        arrays = [
            _has(entry.path, ".zarray") for entry in entries if entry.is_dir()
        ]
    has_msgpack = _has(directory, _MSGPACK_FILE)
    has_metadata = _has(directory, PYTREE_METADATA_FILE) or has_msgpack
    has_data = is_ocdbt_checkpoint(directory) or any(arrays)
    return (has_metadata and has_data) or (has_msgpack and not any(arrays))


def is_orbax_checkpoint(path: PathLike) -> bool:
    """Returns whether a directory looks like a checkpoint or an item of one.

    Raises:
        FileNotFoundError: the directory does not exist.
        NotADirectoryError: the path is not a directory.
    """
    directory = os.fspath(path)
    if not _files.exists(directory):
        raise FileNotFoundError(f"Checkpoint path {path} does not exist.")
    if not _files.isdir(directory):
        raise NotADirectoryError(f"Checkpoint path {path} is not a directory.")
    if read_step_metadata(directory) is not None:
        return True
    if is_pytree_checkpoint(directory):
        return True
    with _files.scandir(directory) as entries:
        return any(
            is_pytree_checkpoint(entry.path)
            for entry in entries
            if entry.is_dir()
        )
