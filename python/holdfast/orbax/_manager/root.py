"""Creates the directory of all steps, and reads and writes the run's
metadata."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast import _engine, _files
from holdfast.orbax._checkpointer.pending import make_directories
from holdfast.orbax._processes.operations import Processes
from holdfast.orbax.metadata.root import (
    ROOT_METADATA_FILENAME,
    RootMetadata,
    read_root_metadata,
    write_root_metadata,
)
from holdfast.orbax.metadata.step import check_json_object
from holdfast.orbax.multihost import is_primary_host
from holdfast.orbax.options import MultiprocessingOptions

METADATA_ITEM_NAME = "metadata"


def meet(options: MultiprocessingOptions, place: str, directory: Any) -> None:
    """Waits for the other processes at Orbax's barrier `place`.

    Raises:
        DeadlineExceededError: a process did not arrive in time.
    """
    processes = Processes(options)
    if processes.has_others:
        processes.start(place, directory)


def make_root(
    directory: Any, options: MultiprocessingOptions, mode: int | None
) -> None:
    """Creates the directory of all steps, with permissions `mode`.

    Raises:
        NotImplementedError: only some processes take part, so the program must
            create the directory.
        OSError: the directory cannot be created.
    """
    if options.active_processes is not None:
        raise NotImplementedError(
            "Option `create=True` with `active_processes` set is not"
            " supported. Please create the root directory yourself."
        )
    if is_primary_host(options.primary_host):
        make_directories(os.fspath(directory), mode)
    meet(options, "CheckpointManager:create_directory", directory)


def check_root(directory: Any, steps: Sequence[Any]) -> None:
    """Refuses a directory that is a step, or an item of a step.

    Args:
        directory: the directory in which a manager looked for steps.
        steps: the steps that the manager found there.

    Raises:
        ValueError: the directory is itself a checkpoint.
    """
    if not steps:
        _engine.check_may_hold_steps(os.fspath(directory))


def write_run_metadata(
    directory: Any,
    custom_metadata: Mapping[str, Any] | None,
    options: MultiprocessingOptions,
) -> RootMetadata | None:
    """Stores the run's metadata on the primary, unless the run already has any.

    Returns:
        The stored metadata; None if nothing was written here.

    Raises:
        ValueError: the metadata is not a JSON object.
        OSError: the file cannot be written.
    """
    if custom_metadata is None:
        return None
    custom = check_json_object(dict(custom_metadata))
    if not is_primary_host(options.primary_host):
        return None
    metadata = os.path.join(directory, METADATA_ITEM_NAME)
    if _files.exists(os.path.join(metadata, ROOT_METADATA_FILENAME)):
        return None
    make_directories(metadata, None)
    write_root_metadata(metadata, custom)
    return RootMetadata(custom_metadata=custom)


def read_run_metadata(directory: Any) -> RootMetadata:
    """Reads the run's metadata; returns empty metadata if none is stored.

    Raises:
        OSError: the metadata cannot be read.
        ValueError: the metadata contains types that Orbax does not write.
    """
    path = os.path.join(directory, METADATA_ITEM_NAME)
    return read_root_metadata(path) if _files.exists(path) else RootMetadata()
