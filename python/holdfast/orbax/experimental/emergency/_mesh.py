"""Keeps a mesh the same when a restart gives devices different ids.

The tiers do not need this, because a step can be restored on any mesh. The
functions exist for programs that call Orbax's functions directly.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np

from holdfast.orbax._devices.multislice import replica_devices
from holdfast.orbax._devices.optional_jax import require_jax
from holdfast.orbax._handlers.base import AsyncCheckpointHandler
from holdfast.orbax._processes.coroutines import run_sync
from holdfast.orbax.checkpoint_args import CheckpointArgs, register_with_handler
from holdfast.orbax.experimental.emergency._steps import (
    exchanged,
    slice_count,
)
from holdfast.orbax.multihost import (
    distributed_to_device_ids,
    process_index,
    unique_processes_from_devices,
)
from holdfast.orbax.multihost._flags import define_bool
from holdfast.orbax.options import MultiprocessingOptions

PROCESSES_FILE = "global_process_metadata.json"
MESH_FILE = "mesh_metadata.json"

USES_DISTRIBUTED_IDS = define_bool(
    "experimental_use_distributed_id_for_mesh_consistency",
    "Decides how to Map how device ids changed across restarts. If True, use"
    " remapping distributed id for consistent restore mesh logic. If False,"
    " remaps mesh according to jax.devices() order.",
    default=True,
)


def process_metadata_folder(directory: Any) -> Any:
    """Returns the directory of the metadata: `directory` itself."""
    return directory


def read_process_metadata(directory: Any) -> tuple[Any, Any]:
    """Returns the device ids of each process, and of the mesh.

    Raises:
        FileNotFoundError: the directory does not exist.
        ValueError: the directory was never finalized.
    """
    folder = process_metadata_folder(directory)
    if not folder.exists():
        raise FileNotFoundError(
            f"Process metadata folder does not exist at {folder}. The local"
            " checkpoint cannot be restored."
        )
    if ".orbax-checkpoint-tmp" in folder.name:
        raise ValueError(
            f"Process metadata folder was not finalized at {folder}. The local"
            " checkpoint cannot be restored."
        )
    return (
        json.loads((folder / PROCESSES_FILE).read_text()),
        json.loads((folder / MESH_FILE).read_text()),
    )


async def save_process_metadata(
    directory: Any,
    global_mesh: Any,
    distributed_to_device_ids: list[list[int]],
) -> None:
    """Writes the files that `read_process_metadata` reads."""
    folder = process_metadata_folder(directory)
    mesh_ids = [int(number) for number in global_mesh.device_ids.flatten()]

    def write() -> None:
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(distributed_to_device_ids)
        (folder / PROCESSES_FILE).write_text(text)
        (folder / MESH_FILE).write_text(json.dumps(mesh_ids))

    await asyncio.to_thread(write)


def consistent_restore_mesh(
    devices: list[Any],
    user_mesh: Any,
    previous_flattened_mesh_device_ids: list[int],
    previous_distributed_to_device_ids: list[list[int]],
    current_distributed_to_device_ids: list[list[int]],
) -> Any:
    """Returns a mesh of the same hardware in the same order as before a
    restart.

    Args:
        devices: jax.devices().
        user_mesh: supplies the shape and the names of axes.
        previous_flattened_mesh_device_ids: device ids of the previous mesh.
        previous_distributed_to_device_ids: previous device ids of each process.
        current_distributed_to_device_ids: current device ids of each process.
    """
    jax = require_jax("a mesh")
    now = {device.id: device for device in devices}
    ids = {number: number for number in now}
    if USES_DISTRIBUTED_IDS.value:
        ids = {
            old: new
            for olds, news in zip(
                previous_distributed_to_device_ids,
                current_distributed_to_device_ids,
                strict=False,
            )
            for old, new in zip(olds, news, strict=True)
        }
    ordered = [now[ids[old]] for old in previous_flattened_mesh_device_ids]
    shape = user_mesh.devices.shape
    return jax.sharding.Mesh(
        np.array(ordered).reshape(shape), user_mesh.axis_names
    )


def consistent_restore_mesh_from_metadata(
    global_mesh: Any,
    current_distributed_to_device_ids: list[list[int]],
    previous_distributed_to_device_ids: list[list[int]],
    previous_device_ids: list[int],
) -> Any:
    """Calls `consistent_restore_mesh` with the results of
    `read_process_metadata`."""
    return consistent_restore_mesh(
        require_jax("a mesh").devices(),
        global_mesh,
        previous_device_ids,
        previous_distributed_to_device_ids,
        current_distributed_to_device_ids,
    )


def consistent_restore_mesh_to_global_mesh(state: Any, shardings: Any) -> Any:
    """Returns the state with new shardings; its own arrays are donated."""
    return require_jax("resharding").device_put(state, shardings, donate=True)


def sync_global_data(local_data: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns each process's JSON object, in order; all processes call it."""
    return exchanged(local_data, "sync_global_data", 600.0)


def get_per_replica_local_steps(
    local_directory: Any,
    *,
    step_name_format: Any,
    global_mesh: Any,
    replica_axis_index: int,
) -> dict[int, set[int]]:
    """Returns, by slice, the steps that all processes of the slice have.

    Only steps in Orbax's layout count.
    """
    found = step_name_format.find_all(local_directory)
    own = {
        "process_id": process_index(),
        "steps": sorted({metadata.step for metadata in found}),
    }
    counts: dict[int, Counter[int]] = defaultdict(Counter)
    sizes: Counter[int] = Counter()
    for each in sync_global_data(own):
        for index in range(slice_count(global_mesh, replica_axis_index)):
            devices = replica_devices(global_mesh, index, replica_axis_index)
            if each["process_id"] in unique_processes_from_devices(devices):
                counts[index].update(each["steps"])
                sizes[index] += 1
                break
    return {
        index: {step for step, count in steps.items() if count == sizes[index]}
        for index, steps in counts.items()
    }


class ProcessMetadataCheckpointHandler(AsyncCheckpointHandler):
    """Saves the device ids of the processes and of the mesh."""

    def __init__(
        self,
        multiprocessing_options: MultiprocessingOptions = (
            MultiprocessingOptions()  # noqa: B008
        ),
        distributed_to_device_ids_fn: (
            Callable[[], list[list[int]]] | None
        ) = None,
    ) -> None:
        self._ids = distributed_to_device_ids_fn or distributed_to_device_ids

    async def async_save(self, directory: Any, args: Any) -> list[Any] | None:
        """Writes the files before it returns."""
        await save_process_metadata(directory, args.global_mesh, self._ids())
        return []

    def save(self, directory: Any, args: Any) -> None:
        """Writes the files."""
        run_sync(self.async_save(directory, args))

    def restore(self, directory: Any, args: Any) -> tuple[Any, Any]:
        """Returns the device ids of each process, and of the mesh."""
        return read_process_metadata(directory)


@register_with_handler(ProcessMetadataCheckpointHandler, for_save=True)
@dataclasses.dataclass
class ProcessMetadataSaveArgs(CheckpointArgs):
    """The mesh to save.

    Attributes:
        global_mesh: the mesh of all devices.
    """

    global_mesh: Any


@register_with_handler(ProcessMetadataCheckpointHandler, for_restore=True)
@dataclasses.dataclass
class ProcessMetadataRestoreArgs(CheckpointArgs):
    """The arguments of `restore`, which has no options."""
