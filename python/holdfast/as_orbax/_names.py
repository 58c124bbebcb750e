"""Maps Orbax's modules to the holdfast modules with the same contents.

A public module has the same path in both packages. Programs also import modules
below Orbax's `_src`, which are elsewhere in holdfast.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

ORBAX = "orbax.checkpoint"
_OURS = "holdfast.orbax"

_PRIVATE: dict[str, str] = {
    "_src.arrays.sharding": "arrays",
    "_src.arrays.types": "serialization._array_specs",
    "_src.asyncio_utils": "_processes.coroutines",
    "_src.checkpoint_managers.policy_checkpoint_info": "save_decision_policy",
    "_src.checkpoint_managers.preservation_policy": "preservation_policy",
    "_src.checkpoint_managers.save_decision_policy": "save_decision_policy",
    "_src.checkpointers.abstract_checkpointer": "_checkpointer.base",
    "_src.checkpointers.async_checkpointer": "async_checkpointer",
    "_src.checkpointers.checkpointer": "_checkpointer.base",
    "_src.checkpointers.pytree_checkpointer": "_checkpointer.standard",
    "_src.checkpointers.standard_checkpointer": "_checkpointer.standard",
    "_src.composite": "_trees.composite",
    "_src.futures.future": "future",
    "_src.futures.synchronization": "_processes.signals",
    "_src.handlers.array_checkpoint_handler": "array_handler",
    "_src.handlers.async_checkpoint_handler": "_handlers.base",
    "_src.handlers.base_pytree_checkpoint_handler": (
        "base_pytree_checkpoint_handler"
    ),
    "_src.handlers.checkpoint_handler": "_handlers.base",
    "_src.handlers.composite_checkpoint_handler": (
        "composite_checkpoint_handler"
    ),
    "_src.handlers.handler_registration": "handler_registration",
    "_src.handlers.handler_type_registry": "checkpoint_args",
    "_src.handlers.json_checkpoint_handler": "json_handler",
    "_src.handlers.proto_checkpoint_handler": "proto_handler",
    "_src.handlers.pytree_checkpoint_handler": "pytree_checkpoint_handler",
    "_src.handlers.random_key_checkpoint_handler": "random_key_handlers",
    "_src.handlers.standard_checkpoint_handler": "standard_checkpoint_handler",
    "_src.logging.abstract_logger": "logging",
    "_src.logging.composite_logger": "logging",
    "_src.logging.standard_logger": "logging",
    "_src.logging.step_statistics": "logging.step_statistics",
    "_src.metadata.array_metadata": "_type_handlers.array_metadata",
    "_src.metadata.array_metadata_store": "_type_handlers.array_metadata",
    "_src.metadata.checkpoint": "metadata",
    "_src.metadata.empty_values": "_trees.empty_values",
    "_src.metadata.sharding": "metadata.sharding",
    "_src.metadata.tree": "metadata.tree",
    "_src.metadata.value": "metadata.value",
    "_src.multihost.multihost": "multihost",
    "_src.multihost.multislice": "_devices.multislice",
    "_src.path.atomicity": "atomicity",
    "_src.path.atomicity_defaults": "atomicity_defaults",
    "_src.path.atomicity_types": "atomicity_types",
    "_src.path.deleter": "deleter",
    "_src.path.format_utils": "format_utils",
    "_src.path.step": "step",
    "_src.path.temporary_paths": "temporary_paths",
    "_src.serialization.cloud_pathways_array_handler": "_compat.cloud_pathways",
    "_src.serialization.jax_array_handlers": "_type_handlers.arrays",
    "_src.serialization.jax_array_restore_args": "_leaves.args",
    "_src.serialization.limits": "_leaves.limits",
    "_src.serialization.memory_regulator": "_devices.memory_regulator",
    "_src.serialization.tensorstore_utils": "serialization.tensorstore_utils",
    "_src.serialization.type_handler_registry": "_type_handlers.registry",
    "_src.serialization.type_handlers": "type_handlers",
    "_src.serialization.types": "_type_handlers.base",
    "_src.tree.parts_of": "_trees.parts_of",
    "_src.tree.structure_utils": "tree_structure",
    "_src.tree.types": "tree_paths",
    "_src.tree.utils": "tree_paths",
    "experimental.v1._src.arrays.types": "v1.arrays",
    "experimental.v1._src.context.context": "v1.context",
    "experimental.v1._src.context.options": "v1.options",
    "experimental.v1._src.handlers.types": "v1.handlers",
    "experimental.v1._src.path.step": "v1.path.step",
    "experimental.v1._src.training.checkpointer": "v1.training",
    "experimental.v1._src.training.preservation_policies": (
        "v1.training.preservation_policies"
    ),
    "experimental.v1._src.training.save_decision_policies": (
        "v1.training.save_decision_policies"
    ),
    "experimental.v1._src.tree.types": "v1.tree",
}


# Names that libraries import and only Orbax's own machinery calls: module ->
# names.
REFUSED: dict[str, str] = {
    "_src.serialization.async_io_engine": "AsyncIoEngine",
    "_src.serialization.cloud_pathways_helper": (
        "base64_utf8_stringify dtype_to_xla_primitive_type_str"
        " get_bulk_read_request get_bulk_write_request get_hlo_sharding_string"
        " get_read_request get_shape_info get_write_request read_arrays"
        " string_to_base64 write_arrays"
    ),
    "_src.serialization.cloud_pathways_plugin_executable": "PluginExecutable",
    "_src.serialization.ocdbt_process_spec": "OcdbtProcessSpec",
    "_src.serialization.replica_slices": (
        "ReplicaSlice ReplicaSlices SliceArgs"
        " calculate_replica_parallel_axis_and_local_shape get_replica_slices"
        " transfer_arrays_to_host"
    ),
    "_src.serialization.serialization": (
        "DeserializationResult async_deserialize async_serialize"
        " async_serialize_from_host estimate_read_memory_footprint"
        " estimate_write_memory_footprint"
    ),
}
WHY_REFUSED = (
    "holdfast, which takes the place of Orbax in this program, moves arrays by"
    " an engine of its own. A TypeHandler, or type_handlers.ArrayHandler, does"
    " what can be done there; the program runs with Orbax when it is started"
    " without holdfast.as_orbax"
)


def _parents(names: Iterable[str]) -> Iterator[str]:
    for name in names:
        while "." in name:
            name = name.rpartition(".")[0]
            yield f"{ORBAX}.{name}"


# Packages of the modules above, for paths that holdfast does not have.
FOLDERS = frozenset(_parents([*_PRIVATE, *REFUSED]))


def our_names(name: str) -> Iterator[str]:
    """Yields the modules that may replace one of Orbax's, the best first.

    Args:
        name: `orbax.checkpoint` or a module below it.
    """
    path = name.removeprefix(ORBAX).removeprefix(".")
    if path in _PRIVATE:
        yield f"{_OURS}.{_PRIVATE[path]}"
    # A holdfast module whose name begins with `_` is not one of Orbax's.
    elif not any(part.startswith("_") for part in path.split(".")):
        yield f"{_OURS}.{path}".removesuffix(".")
        if f"{path}.".startswith("experimental.v1."):
            yield f"{_OURS}.{path.removeprefix('experimental.')}"
