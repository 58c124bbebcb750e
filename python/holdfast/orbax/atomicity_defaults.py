"""Chooses a checkpoint's temporary path class: Orbax's `atomicity_defaults`."""

from __future__ import annotations

from typing import Any

from holdfast import _files
from holdfast.orbax._checkpointer.paths import PathLike
from holdfast.orbax.atomicity import (
    AtomicRenameTemporaryPath,
    CommitFileTemporaryPath,
)
from holdfast.orbax.atomicity_types import TemporaryPath
from holdfast.orbax.options import AtomicityMode, AtomicityOptions

__all__ = [
    "get_default_temporary_path_class",
    "get_item_default_temporary_path_class",
]


def get_default_temporary_path_class(
    path: PathLike, *, atomicity_options: AtomicityOptions | None = None
) -> type[TemporaryPath]:
    """Returns the class of a checkpoint's temporary path.

    Args:
        path: the checkpoint's path.
        atomicity_options: the mode; AUTO uses a marker in buckets and a rename
            elsewhere.

    Raises:
        ValueError: the mode is unknown.
    """
    mode: Any = AtomicityMode.AUTO
    if atomicity_options is not None:
        mode = atomicity_options.mode
    if mode is AtomicityMode.COMMIT_FILE:
        return CommitFileTemporaryPath
    if mode is AtomicityMode.ATOMIC_RENAME:
        return AtomicRenameTemporaryPath
    if mode is not AtomicityMode.AUTO:
        raise ValueError(f"Unsupported atomicity_mode: {mode}.")
    if _files.is_url(path):
        return CommitFileTemporaryPath
    return AtomicRenameTemporaryPath


get_item_default_temporary_path_class = get_default_temporary_path_class
