"""The work of a manager in its directory before the first step."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from holdfast import _files
from holdfast._future import Future
from holdfast.orbax._manager_options import CheckpointManagerOptions
from holdfast.orbax._manager_reading import METADATA_ITEM_NAME
from holdfast.orbax._pending import make_directories
from holdfast.orbax._processes import Processes
from holdfast.orbax._trash import Remover, leftovers
from holdfast.orbax.metadata.root import (
    ROOT_METADATA_FILENAME,
    RootMetadata,
    write_root_metadata,
)
from holdfast.orbax.multihost import is_primary_host
from holdfast.orbax.options import MultiprocessingOptions
from holdfast.orbax.temporary_paths import remove_temporary_paths


def meet(options: MultiprocessingOptions, place: str, directory: Any) -> None:
    """Waits for the other processes.

    Args:
        options: which.
        place: the name of Orbax's barrier.
        directory: of the steps, for messages.

    Raises:
        DeadlineExceededError: one did not come.
    """
    processes = Processes(options)
    if processes.has_others:
        processes.start(place, directory)


def _is_primary(options: CheckpointManagerOptions) -> bool:
    return is_primary_host(options.multiprocessing_options.primary_host)


def create_root(directory: Any, options: CheckpointManagerOptions) -> None:
    """Makes the directory of the steps, if it is missing.

    Raises:
        NotImplementedError: only some of the processes take part.
        OSError: it cannot be made.
    """
    processes = options.multiprocessing_options
    if processes.active_processes is not None:
        raise NotImplementedError(
            "Option `create=True` with `active_processes` set is not"
            " supported. Please create the root directory yourself."
        )
    is_made = _files.is_url(directory) or _files.exists(directory)
    if _is_primary(options) and not is_made:
        make_directories(
            os.fspath(directory), options.file_options.path_permission_mode
        )
    meet(processes, "CheckpointManager:create_directory", directory)


def start_cleanup(
    directory: Any, options: CheckpointManagerOptions
) -> Future[None] | None:
    """Removes in the background what earlier programs have left.

    Returns:
        What removes directories that were never committed; None if nobody
        does.
    """
    if options.read_only or not _is_primary(options):
        return None
    Remover().add(leftovers(os.fspath(directory)))
    if not options.cleanup_tmp_directories:
        return None
    return Future(
        lambda _: remove_temporary_paths(
            directory,
            multiprocessing_options=options.multiprocessing_options,
            temporary_path_cls=options.temporary_path_class,
            atomicity_options=options.atomicity_options,
        ),
        what="removing temporary directories",
    )


def save_root_metadata(
    root: Any,
    options: CheckpointManagerOptions,
    metadata: Mapping[str, Any] | None,
) -> RootMetadata:
    """Saves the run's metadata, unless there is some.

    Args:
        root: the directory of the steps.
        options: the manager's.
        metadata: a JSON object, or None.

    Returns:
        The metadata known before the file is read.

    Raises:
        ValueError: metadata that is not a JSON object.
        OSError: the file cannot be written.
    """
    directory = os.path.join(root, METADATA_ITEM_NAME)
    custom: dict[str, Any] | None = None
    if options.read_only and not _files.exists(directory):
        custom = dict(metadata or {})
    if not options.save_root_metadata:
        return RootMetadata(custom_metadata=custom)
    if metadata is not None and not options.read_only and _is_primary(options):
        _files.makedirs(directory, exist_ok=True)
        if not _files.exists(os.path.join(directory, ROOT_METADATA_FILENAME)):
            custom = dict(metadata)
            write_root_metadata(directory, custom)
    meet(
        options.multiprocessing_options,
        "CheckpointManager:save_root_metadata",
        root,
    )
    return RootMetadata(custom_metadata=custom)
