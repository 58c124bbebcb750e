"""The modules of `orbax.checkpoint.experimental.emergency`, and their names."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from typing import Any

from holdfast.orbax._compat.refusal import refused
from holdfast.orbax._handlers.base import CheckpointHandler
from holdfast.orbax.checkpoint_args import CheckpointArgs, register_with_handler
from holdfast.orbax.experimental.emergency import (
    _manager,
    _mesh,
    _options,
    _p2p,
    _replicator,
)
from holdfast.orbax.handler_registration import DefaultCheckpointHandlerRegistry
from holdfast.orbax.metadata import RootMetadata, StepMetadata
from holdfast.orbax.multihost import runtime_to_distributed_ids
from holdfast.orbax.pytree_checkpoint_handler import PyTreeCheckpointHandler

_TIERS = "multi_tier_checkpointing"
_PACKAGES = (_TIERS, "p2p", "test_utils")

# Maps modules to their classes and functions that work.
_WORKING: dict[str, dict[str, Any]] = {
    "checkpoint_manager": {
        "CheckpointManager": _manager.CheckpointManager,
        "CheckpointManagerOptions": _options.CheckpointManagerOptions,
        "LocalCheckpointOptions": _options.LocalCheckpointOptions,
        "MultiprocessingOptions": _options.MultiprocessingOptions,
        "PersistentCheckpointOptions": _options.PersistentCheckpointOptions,
    },
    "mesh_consistency": {
        "consistent_restore_mesh_from_metadata": (
            _mesh.consistent_restore_mesh_from_metadata
        ),
        "consistent_restore_mesh_to_global_mesh": (
            _mesh.consistent_restore_mesh_to_global_mesh
        ),
        "process_metadata_folder": _mesh.process_metadata_folder,
        "read_process_metadata": _mesh.read_process_metadata,
        "save_process_metadata": _mesh.save_process_metadata,
    },
    f"{_TIERS}.process_metadata_checkpoint_handler": {
        "ProcessMetadataCheckpointHandler": (
            _mesh.ProcessMetadataCheckpointHandler
        ),
        "ProcessMetadataRestoreArgs": _mesh.ProcessMetadataRestoreArgs,
        "ProcessMetadataSaveArgs": _mesh.ProcessMetadataSaveArgs,
    },
    f"{_TIERS}.replicator_checkpoint_manager": {
        "ReplicatorCheckpointManager": _replicator.ReplicatorCheckpointManager,
        "ReplicatorCheckpointManagerOptions": (
            _replicator.ReplicatorCheckpointManagerOptions
        ),
    },
    "multihost": {"consistent_restore_mesh": _mesh.consistent_restore_mesh},
    "p2p.args": {"Composite": _p2p.Composite},
    "p2p.checkpoint_manager": {"CheckpointManager": _p2p.CheckpointManager},
    "p2p.options": {
        "CheckpointManagerOptions": _p2p.CheckpointManagerOptions,
        "LocalCheckpointOptions": _p2p.LocalCheckpointOptions,
        "PersistentCheckpointOptions": _p2p.PersistentCheckpointOptions,
    },
    "p2p.policies": {
        "OffsetFixedIntervalPolicy": _p2p.OffsetFixedIntervalPolicy
    },
    "p2p.utils": {"pygrain": _p2p.pygrain},
    "path": {
        "get_per_replica_local_steps": _mesh.get_per_replica_local_steps,
        "sync_global_data": _mesh.sync_global_data,
    },
}

_WHY = (
    "it needs Pathways, a service of Google's or the files of Orbax's own local"
    " checkpoints. Use emergency.checkpoint_manager.CheckpointManager or"
    " holdfast.TieredManager, or call Orbax for these."
)

# Maps modules to their classes and functions that only raise.
_REFUSED = {
    "local_checkpoint_data_debugging": (
        "chunk_id_to_index get_chunk_ids_from_tensorstore"
        " get_present_and_missing_chunks index_to_chunk_id open_tensorstore"
        " print_chunk_debug_info print_devices_indices_debug_info"
    ),
    f"{_TIERS}.colocated_controller": "ColocatedController",
    f"{_TIERS}.colocated_utils": (
        "addressable_array_bytes array_result_values"
        " assert_arrays_on_allowed_cpu_ids assert_arrays_on_platform"
        " assert_specs_on_allowed_cpu_ids compute_distributed_to_device_ids"
        " device_list_signature make_scalar_on_like nested_id_sample"
        " replicated_sharding_like require_unanimous_scalar_result"
        " scalar_result_values value_sample"
    ),
    f"{_TIERS}.initialization": "initialize_multi_tier_checkpointing",
    f"{_TIERS}.pathways_topology": (
        "Topology Worker remap_nested_device_ids worker_key_sort_key"
        " worker_rank_array worker_rank_from_array"
    ),
    f"{_TIERS}.sidecar_worker_checkpoint_manager": (
        "WorkerCheckpointManager WorkerCheckpointManagerRaw"
    ),
    f"{_TIERS}.time_block": "TimeBlock",
    "multihost": "process_index_from_device_id",
    "p2p.constants": "",
    "p2p.local": "LocalCheckpointManager",
    "p2p.peer_selector": "PeerSelector",
    "p2p.persistent": "PersistentCheckpointManager",
    "p2p.protocol": "PeerDiscoveryInfo TCPClient TCPMessage optimize_socket",
    "p2p.registry": "PeerRegistry",
    "p2p.service": "NodeHandler P2PNode",
    "p2p.utils": "detect_process_index",
    "process_metadata_checkpoint_handler": "",
    "replicator_checkpoint_manager": "",
    "test_utils.dataset_iterator_checkpoint_handler": (
        "DatasetIteratorCheckpointHandler DatasetIteratorCheckpointRestore"
        " DatasetIteratorCheckpointSave"
    ),
}

# Maps modules to their constants, types, and names from other parts of Orbax.
_VALUES: dict[str, dict[str, Any]] = {
    "checkpoint_manager": {
        "CheckpointHandler": CheckpointHandler,
        "CheckpointHandlersDict": dict[str, CheckpointHandler],
        "ChunkId": tuple[int, ...],
        "PyTree": Any,
        "PyTreeCheckpointHandler": PyTreeCheckpointHandler,
        "RootMetadata": RootMetadata,
        "StepMetadata": StepMetadata,
    },
    "local_checkpoint_data_debugging": {
        "ChunkId": tuple[int, ...],
        "Index": tuple[slice, ...],
        "PyTree": Any,
        "Shape": tuple[int, ...],
    },
    "mesh_consistency": {"PyTree": Any},
    f"{_TIERS}.colocated_controller": {"PyTree": Any},
    f"{_TIERS}.colocated_utils": {
        "MAX_TRACKED_STEPS": 128,
        "NO_STEP_SENTINEL": 0,
        "PyTree": Any,
    },
    f"{_TIERS}.process_metadata_checkpoint_handler": {
        "CheckpointArgs": CheckpointArgs,
        "PreviousDeviceIds": list[int],
        "PreviousDistributedToDeviceIds": list[list[int]],
        "register_with_handler": register_with_handler,
    },
    f"{_TIERS}.replicator_checkpoint_manager": {
        "DefaultCheckpointHandlerRegistry": DefaultCheckpointHandlerRegistry,
        "PyTree": Any,
        "PyTreeCheckpointHandler": PyTreeCheckpointHandler,
        "RootMetadata": RootMetadata,
        "StepMetadata": StepMetadata,
    },
    f"{_TIERS}.sidecar_worker_checkpoint_manager": {"PyTree": Any},
    "multihost": {
        "EXPERIMENTAL_USE_DISTRIBUTED_ID_FOR_MESH_CONSISTENCY": (
            _mesh.USES_DISTRIBUTED_IDS
        ),
        "runtime_to_distributed_ids": runtime_to_distributed_ids,
    },
    "p2p.checkpoint_manager": {"PyTree": Any},
    "p2p.constants": {
        "CHUNK_SIZE": 4194304,
        "CONNECT_TIMEOUT_SECONDS": 5,
        "DATA_ITER_KEY": "data_iter",
        "P2P_RESTORE_DIR_NAME": "p2p_restore",
        "PROCESS_SUBDIR_PREFIX": "ocdbt.process_",
        "PYGRAIN_STATES_FILENAME": "pygrain_states.json",
        "SOCKET_BUFFER_SIZE": 16777216,
        "STATE_SUBDIR": "state",
        "TRANSFER_TIMEOUT_SECONDS": 60,
    },
    "p2p.persistent": {"PyTree": Any},
    "p2p.protocol": {
        "Manifest": list[dict[str, Any]],
        "ManifestEntry": dict[str, Any],
        "OP_DOWNLOAD_FILE": 2,
        "OP_ERROR": 0,
        "OP_FILE_STREAM": 4,
        "OP_GET_MANIFEST": 1,
        "OP_RESPONSE_JSON": 3,
    },
    "p2p.registry": {"ProcessIndex": int, "Step": int},
}

# Names of other modules that a module also exports.
_PROCESS_METADATA = (
    "ProcessMetadataCheckpointHandler ProcessMetadataRestoreArgs"
    " ProcessMetadataSaveArgs"
)
_REPLICATOR = "ReplicatorCheckpointManager ReplicatorCheckpointManagerOptions"
_SHOWN = {
    "checkpoint_manager": (
        "ProcessMetadataCheckpointHandler get_present_and_missing_chunks"
    ),
    f"{_TIERS}.colocated_controller": "TimeBlock",
    f"{_TIERS}.initialization": "TimeBlock",
    f"{_TIERS}.replicator_checkpoint_manager": (
        "ProcessMetadataCheckpointHandler"
    ),
    f"{_TIERS}.sidecar_worker_checkpoint_manager": "TimeBlock",
    "process_metadata_checkpoint_handler": _PROCESS_METADATA,
    "replicator_checkpoint_manager": _REPLICATOR,
}


def make_modules(package: str) -> None:
    """Makes the modules below a package, and registers them for import.

    Args:
        package: the full name of this package.
    """
    own = {path: dict(objects) for path, objects in _WORKING.items()}
    for path, names in _REFUSED.items():
        module = f"{package}.{path}"
        own.setdefault(path, {}).update(
            {name: refused(module, name, _WHY) for name in names.split()}
        )
    made = {k: v for objects in own.values() for k, v in objects.items()}
    for path in (*_PACKAGES, *own):
        shown = {name: made[name] for name in _SHOWN.get(path, "").split()}
        objects = own.get(path, {}) | _VALUES.get(path, {}) | shown
        _make_module(package, path, objects)


def _make_module(package: str, path: str, objects: dict[str, Any]) -> None:
    full_name = f"{package}.{path}"
    spec = importlib.machinery.ModuleSpec(
        full_name, None, is_package=path in _PACKAGES
    )
    module = importlib.util.module_from_spec(spec)
    module.__doc__ = f"`orbax.checkpoint.experimental.emergency.{path}`."
    vars(module).update(objects, __all__=sorted(objects))
    sys.modules[full_name] = module
    parent, _, name = full_name.rpartition(".")
    setattr(sys.modules[parent], name, module)
