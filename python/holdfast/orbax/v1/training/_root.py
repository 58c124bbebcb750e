"""The directory of all steps: making it, and the metadata of the run."""

from __future__ import annotations

import os
from typing import Any

from holdfast import _files
from holdfast.orbax._pending import make_directories
from holdfast.orbax._processes import Processes
from holdfast.orbax.metadata.root import (
    ROOT_METADATA_FILENAME,
    read_root_metadata,
    write_root_metadata,
)
from holdfast.orbax.metadata.step import check_json_object
from holdfast.orbax.v1.context import Context

_METADATA_DIRECTORY = "metadata"


def make_root(directory: Any, context: Context) -> None:
    """Makes the directory of all steps.

    Raises:
        NotImplementedError: only some processes take part, so that it is the
            program's to make.
        OSError: it cannot be made.
    """
    if context.multiprocessing.active_processes is not None:
        raise NotImplementedError(
            "Option `create=True` with `active_processes` set is not"
            " supported. Please create the root directory yourself."
        )
    mode = context.file.path_permission_mode
    make_directories(os.fspath(directory), mode)


def write_custom_metadata(
    directory: Any, custom_metadata: Any | None, processes: Processes
) -> dict[str, Any] | None:
    """Keeps metadata of the run, if the run has none yet.

    Args:
        directory: the one of all steps.
        custom_metadata: a JSON object.
        processes: that do so together.

    Returns:
        The metadata there now; None if it must be read.

    Raises:
        ValueError: not a JSON object.
        OSError: the file cannot be written.
    """
    if custom_metadata is None:
        return None
    custom_metadata = check_json_object(dict(custom_metadata))
    metadata = os.path.join(directory, _METADATA_DIRECTORY)
    is_new = not _files.exists(os.path.join(metadata, ROOT_METADATA_FILENAME))
    if is_new and processes.is_primary:
        make_directories(metadata, None)
        write_root_metadata(metadata, custom_metadata)
    if processes.has_others:
        processes.start("CheckpointManager:save_root_metadata", directory)
    return custom_metadata if is_new else None


def read_custom_metadata(directory: Any) -> dict[str, Any]:
    """The metadata of the run; {} without.

    Raises:
        OSError: it cannot be read.
        ValueError: it is of other types than Orbax writes.
    """
    path = os.path.join(directory, _METADATA_DIRECTORY)
    if not _files.exists(path):
        return {}
    return read_root_metadata(path).custom_metadata or {}
