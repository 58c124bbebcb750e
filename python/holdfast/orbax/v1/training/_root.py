"""The directory of all steps: making it, and what is said of all of them."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from typing import Any

from holdfast import _engine
from holdfast import errors as holdfast_errors
from holdfast.orbax import multihost
from holdfast.orbax._durable import sync_directory, write_text
from holdfast.orbax._paths import TMP_DIR_SUFFIX
from holdfast.orbax._processes import Processes
from holdfast.orbax.metadata.root import (
    ROOT_METADATA_FILENAME,
    read_root_metadata,
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
    os.makedirs(directory, mode=0o777 if mode is None else mode, exist_ok=True)


def clean_up(directory: Any) -> None:
    """Removes what saves that never ended have left; none that goes on."""
    for name in os.listdir(directory):
        final, suffix, _ = name.partition(TMP_DIR_SUFFIX)
        if not suffix or not final:
            continue
        # The engine makes sure that nobody is writing there.
        with contextlib.suppress(holdfast_errors.HoldfastError):
            _engine.PendingSave(
                os.path.join(os.path.abspath(directory), final), overwrite=True
            ).discard()


def write_custom_metadata(
    directory: Any, custom_metadata: Any | None, processes: Processes
) -> dict[str, Any] | None:
    """Keeps metadata of the run, if the run has none yet.

    Args:
        directory: the one of all steps.
        custom_metadata: a JSON object.
        processes: that do so together.

    Returns:
        What is there now; None where it is to be read.

    Raises:
        ValueError: no JSON object.
        OSError: the file cannot be written.
    """
    if custom_metadata is None:
        return None
    custom_metadata = check_json_object(dict(custom_metadata))
    path = os.path.join(directory, _METADATA_DIRECTORY, ROOT_METADATA_FILENAME)
    is_new = not os.path.exists(path)
    if is_new and processes.is_primary:
        content = {"internal_metadata": {}, "custom_metadata": custom_metadata}
        _write_whole(path, json.dumps(content))
    if processes.has_others:
        processes.start("CheckpointManager:save_root_metadata", directory)
    return custom_metadata if is_new else None


def _write_whole(path: str, text: str) -> None:
    """Writes a file that is there whole or not at all."""
    directory = os.path.dirname(path)
    os.makedirs(directory, exist_ok=True)
    sync_directory(os.path.dirname(directory))
    write_text(f"{path}.new", text)
    os.replace(f"{path}.new", path)
    sync_directory(directory)


def read_custom_metadata(directory: Any) -> dict[str, Any]:
    """The metadata of the run; {} without.

    Raises:
        OSError: it cannot be read.
        ValueError: it is of other types than Orbax writes.
    """
    path = os.path.join(directory, _METADATA_DIRECTORY)
    if not os.path.exists(path):
        return {}
    return read_root_metadata(path).custom_metadata or {}


def reached_preemption(step: int) -> bool:
    """Whether jax says that the program is about to be ended.

    Args:
        step: alike on all processes.
    """
    if "jax" not in sys.modules:
        return False
    if not multihost.is_jax_distributed_client_initialized():
        return False
    from jax.experimental import multihost_utils

    try:
        return bool(multihost_utils.reached_preemption_sync_point(step))
    except RuntimeError:
        return False  # jax runs without the service that would know.
