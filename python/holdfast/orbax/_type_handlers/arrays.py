"""Handlers of jax.Arrays."""

from __future__ import annotations

import copy
import dataclasses
import functools
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from holdfast import _engine
from holdfast._adapt import make_adapt
from holdfast._lazy import importing
from holdfast.orbax._devices.monitoring import record_event
from holdfast.orbax._devices.optional_jax import is_prng_key_dtype, require_jax
from holdfast.orbax._devices.sharding_file import ShardingFile
from holdfast.orbax._leaves.args import (
    JAX_ARRAY_TYPE_STR,
    RestoreArgs,
    SaveArgs,
)
from holdfast.orbax._leaves.files import (
    args_or_defaults,
    await_paths,
    commit,
)
from holdfast.orbax._leaves.limits import LimitInFlightBytes
from holdfast.orbax._leaves.param_info import ParamInfo, TransferPriority
from holdfast.orbax._leaves.plan import Kind
from holdfast.orbax._leaves.writer import (
    HostArrays,
    LeafWriter,
    SerializedArrayMetadata,
)
from holdfast.orbax._processes.coroutines import run_sync
from holdfast.orbax._processes.dispatching import read as dispatched_read
from holdfast.orbax._processes.dispatching import write_on_worker
from holdfast.orbax._type_handlers.array_metadata import Store
from holdfast.orbax._type_handlers.base import (
    CommitFuture,
    SerializationStatusCallback,
    TypeHandler,
    check_array_values,
    check_input_arguments,
)
from holdfast.orbax._type_handlers.parameters import Parameters
from holdfast.orbax.metadata import sharding as sharding_metadata
from holdfast.orbax.metadata.value import ArrayMetadata
from holdfast.orbax.multihost import (
    is_primary_host,
    process_count,
    process_index,
)

# An array, its parameter and the caller's arguments.
_Leaf = tuple[Any, ParamInfo, SaveArgs]


class ArrayHandler(TypeHandler):
    """Stores jax.Arrays; the chunks of a sharded array follow its shards."""

    KIND = Kind.JAX

    def __init__(
        self,
        metadata_key: str | None = None,
        primary_host: int | None = 0,
        replica_id: int | None = 0,
        use_replica_parallel: bool | None = None,
        min_slice_bytes_for_replica_parallel: int | None = None,
        max_replicas_for_replica_parallel: int | None = None,
        enable_write_sharding_file: bool = True,
        array_metadata_store: Any | None = None,
        enable_replica_parallel_separate_folder: bool = False,
        dispatcher: Any | None = None,
        callback: SerializationStatusCallback | None = None,
    ) -> None:
        """Makes a handler.

        Args:
            metadata_key: name of array metadata files; None means the format's
                default.
            primary_host: the process that writes shared files; None means every
                process.
            replica_id: the replica to write; None means any local replica.
            use_replica_parallel: each replica of a shard writes a part of the
                shard, which is divided along its first divisible axis. None
                means True, unless JAX_PLATFORMS names a GPU.
            min_slice_bytes_for_replica_parallel: minimum size of a replica's
                part in bytes.
            max_replicas_for_replica_parallel: maximum number of replicas that
                write parts of a shard.
            enable_write_sharding_file: write `_sharding`.
            array_metadata_store: writes `array_metadatas`. If None, that file
                is not written, and `_METADATA` has no `write_shape`.
            enable_replica_parallel_separate_folder: store replicated arrays in
                a separate database.
            dispatcher: copies, writes and reads arrays in other processes; see
                `_processes.dispatching`.
            callback: notified about each array; its priorities apply if copies
                from devices are limited.
        """
        self._dispatcher = dispatcher
        self._metadata_key = metadata_key
        self._primary_host = primary_host
        self._replica_id = replica_id
        self._use_replica_parallel = use_replica_parallel
        self._min_slice_bytes = min_slice_bytes_for_replica_parallel
        self._max_replicas = max_replicas_for_replica_parallel
        self._enable_write_sharding_file = enable_write_sharding_file
        self._array_metadata_store = array_metadata_store
        self._separate_folder = enable_replica_parallel_separate_folder
        self._callback = callback
        record_event("/jax/orbax/array_handler/init")

    def typestr(self) -> str:
        return JAX_ARRAY_TYPE_STR

    def has_dispatcher(self) -> bool:
        """Returns whether a dispatcher sends work to other processes."""
        return self._dispatcher is not None

    def is_served_by_engine(self) -> bool:
        """Returns whether the engine can do this handler's work for a complete
        tree."""
        return (
            type(self) is ArrayHandler
            and self._metadata_key is None
            and type(self._array_metadata_store) is Store
            and not self._separate_folder
            and self._callback is None
            and self._dispatcher is None
        )

    def jax_options(self) -> dict[str, Any]:
        """Returns the arguments for `make_adapt`.

        Raises:
            ValueError: replicas should write parts of a shard, but `replica_id`
                is None.
        """
        if self._replica_id is None and self._shares_replicas():
            raise ValueError(
                "`use_replica_parallel` is incompatible with local"
                " checkpointing"
            )
        return {
            "use_replica_parallel": self._use_replica_parallel,
            "min_slice_bytes": self._min_slice_bytes,
            "max_replicas": self._max_replicas,
            "write_sharding": self._enable_write_sharding_file,
            "replica_id": self._replica_id,
        }

    def _shares_replicas(self) -> bool:
        with importing:
            from holdfast import _jax_arrays

        if self._use_replica_parallel is not None:
            return self._use_replica_parallel
        return _jax_arrays.shares_replicas_by_default()

    async def metadata(
        self, infos: Sequence[ParamInfo]
    ) -> Sequence[ArrayMetadata]:
        await await_paths(infos)
        shardings = _recorded_shardings(infos)
        return Parameters(infos, self._metadata_key).array_metadata(shardings)

    async def serialize(
        self,
        values: Sequence[Any],
        infos: Sequence[ParamInfo],
        args: Sequence[SaveArgs] | None = None,
    ) -> Sequence[CommitFuture]:
        """Copies arrays to the host and begins to write them.

        If `device_host_byte_limiter` has a limit, the future copies the arrays
        that are not SYNCHRONOUS, as many at a time as the limit permits.

        Raises:
            ValueError: an array has no elements, or its priority is unknown.
        """
        args = args_or_defaults(args, SaveArgs, len(values))
        check_input_arguments(values, infos, args)
        check_array_values(values, infos)
        leaves = list(zip(values, infos, args, strict=True))
        limit_bytes = _transfer_limit_bytes(infos[0])
        now, later = self._by_priority(leaves, limit_bytes)
        if process_count() > 1:
            for value, info in zip(values, infos, strict=True):
                refuse_host_local(value, info.name, str(info.value_typestr))
        write_now: Callable[[], None]
        if self._dispatcher is not None:
            write_now = functools.partial(self._dispatch, self._sent(now))
            write = self._dispatch
        else:
            arrays = self._on_host(now)
            write_now = functools.partial(self._write, now, arrays)
            write = self.write_leaves

        def work() -> None:
            is_primary = is_primary_host(self._primary_host)
            if self._enable_write_sharding_file and is_primary:
                _write_shardings(leaves)
            write_now()
            for batch in _batches(later, limit_bytes or 0):
                write(batch)

        return [commit(work, infos, "array_type_handler")]

    def _sent(self, leaves: list[_Leaf]) -> list[_Leaf]:
        """Returns the leaves, which the dispatcher has copied to the host."""
        if not leaves:
            return []
        dispatcher: Any = self._dispatcher
        arrays, infos, args = zip(*leaves, strict=True)
        on_host = dispatcher.device_to_host(list(arrays))
        return list(zip(on_host, infos, args, strict=True))

    def _dispatch(self, leaves: list[_Leaf]) -> None:
        """Sends arrays to other processes to be written."""
        if not leaves:
            return
        dispatcher: Any = self._dispatcher
        arrays, infos, args = zip(*leaves, strict=True)
        done = dispatcher.dispatch(
            write_on_worker,
            input_arrays=list(arrays),
            func_kwargs={
                "handler": self._worker(),
                "infos": infos,
                "args": args,
            },
        )
        self._tell("on_transfer_end", infos)
        require_jax("a dispatcher").block_until_ready(done)
        self._tell("on_write_end", infos)

    def _worker(self) -> ArrayHandler:
        """Returns the handler for use in other processes."""
        worker = copy.copy(self)
        worker._dispatcher = None
        worker._callback = None
        return worker

    def _tell(self, name: str, infos: Sequence[ParamInfo]) -> None:
        for info in infos if self._callback is not None else ():
            getattr(self._callback, name)(info.keypath)

    def write_leaves(self, leaves: list[_Leaf]) -> None:
        """Copies arrays to the host and writes them."""
        self._write(leaves, self._on_host(leaves))

    def _by_priority(
        self, leaves: list[_Leaf], limit_bytes: int | None
    ) -> tuple[list[_Leaf], list[_Leaf]]:
        if limit_bytes is None:
            return leaves, []
        of: dict[TransferPriority, list[_Leaf]] = {
            priority: [] for priority in TransferPriority
        }
        for leaf in leaves:
            of[self._priority(leaf[1])].append(leaf)
        for _, info, _ in of[TransferPriority.UNKNOWN]:
            raise ValueError(
                f"Prioritization is unknown for key {info.keypath}."
            )
        later = of[TransferPriority.ASYNCHRONOUS_PRIORITIZED]
        later = later + of[TransferPriority.ASYNCHRONOUS_DEPRIORITIZED]
        return of[TransferPriority.SYNCHRONOUS], later

    def _priority(self, info: ParamInfo) -> TransferPriority:
        asked: Callable[[Any], Any] | None = info.is_prioritized_key_fn
        if self._callback is not None:
            asked = self._callback.key_priority
        if asked is None:
            return TransferPriority.SYNCHRONOUS
        answer = asked(info.keypath)
        if isinstance(answer, TransferPriority):
            return answer
        if answer:
            return TransferPriority.SYNCHRONOUS
        return TransferPriority.ASYNCHRONOUS_DEPRIORITIZED

    def _on_host(self, leaves: Sequence[_Leaf]) -> list[HostArrays]:
        """Returns the arrays, copied to host memory."""
        if not leaves:
            return []
        adapt = make_adapt(
            **self.jax_options(), own_part_only=process_count() > 1
        )
        shares_apart = self._separate_folder and self._shares_replicas()
        groups: dict[bool, dict[str, Any]] = {}
        for value, info, _ in leaves:
            is_apart = shares_apart and _is_replicated(value.sharding)
            groups.setdefault(is_apart, {})[info.name] = value
        arrays = [
            HostArrays.of(group, adapt, is_replica=is_apart)
            for is_apart, group in groups.items()
        ]
        self._tell("on_transfer_end", [info for _, info, _ in leaves])
        return arrays

    def _write(
        self, leaves: Sequence[_Leaf], arrays: Sequence[HostArrays]
    ) -> None:
        if not leaves:
            return
        _, infos, args = zip(*leaves, strict=True)
        writer = LeafWriter(
            self._metadata_key,
            primary_host=self._primary_host,
            is_partial=process_count() > 1,
        )
        written = writer.write(arrays, infos, args)
        if self._array_metadata_store is not None:
            records = _with_key_impls(leaves, written)
            writing = self._array_metadata_store.write(
                infos[0].parent_dir, records, process_index()
            )
            run_sync(writing)
        self._tell("on_write_end", infos)

    async def deserialize(
        self,
        infos: Sequence[ParamInfo],
        args: Sequence[RestoreArgs] | None = None,
    ) -> Sequence[Any]:
        """Reads arrays.

        Raises:
            ValueError: there are no arguments, or an array has no sharding or
                cannot be read as requested.
        """
        if args is None:
            raise ValueError(
                "Must provide ArrayRestoreArgs to restore as jax.Array."
            )
        check_input_arguments(infos, args)
        await await_paths(infos)
        if self._dispatcher is not None:
            arrays = dispatched_read(
                self._dispatcher, self._metadata_key, infos, args
            )
        else:
            arrays = Parameters(infos, self._metadata_key).read(Kind.JAX, args)
        if self._array_metadata_store is None:
            return arrays
        return as_keys(infos, arrays, self._array_metadata_store)

    def memory_size(self, values: Sequence[Any]) -> Sequence[tuple[int, int]]:
        return [(value.nbytes, value.nbytes) for value in values]


def refuse_host_local(array: Any, name: str, typestr: str) -> None:
    """Refuses an array that only this process has, if there are other
    processes.

    Args:
        array: a jax.Array.
        name: the parameter's name.
        typestr: the type string of its handler.

    Raises:
        ValueError: no other process has a part of the array.
    """
    if not array.is_fully_addressable:
        return
    raise ValueError(
        "Cannot serialize host local jax.Array"
        f" (ParamInfo=[name={name},value_typestr={typestr}],"
        f" jax.Array=[value={array},shape={array.shape},dtype={array.dtype},"
        f"sharding={array.sharding},device={array.device}]) in multi-host"
        " setting. Arrays like this are typically obtained using pmap."
        " Consider using fully_replicated_host_local_array_to_global_array in"
        " orbax/checkpoint/utils.py to convert your arrays into serializable"
        f" objects. Array.sharding: {array.sharding}"
    )


def _is_replicated(sharding: Any) -> bool:
    """Returns whether several devices may hold the same values."""
    jax = require_jax("a sharding")
    if isinstance(sharding, jax.sharding.NamedSharding):
        spec = sharding.spec
        axes = sharding.mesh.axis_names
        return not spec or len(axes) > len(spec) or None in tuple(spec)
    return isinstance(sharding, jax.sharding.SingleDeviceSharding)


def _transfer_limit_bytes(info: ParamInfo) -> int | None:
    limiter = info.device_host_byte_limiter
    if isinstance(limiter, LimitInFlightBytes):
        return limiter.max_bytes
    return None


def _batches(
    leaves: Sequence[_Leaf], limit_bytes: int
) -> Iterator[list[_Leaf]]:
    """Splits leaves into runs; each run is below the limit or a single leaf."""
    batch: list[_Leaf] = []
    batch_bytes = 0
    for leaf in leaves:
        if batch and batch_bytes + leaf[0].nbytes >= limit_bytes:
            yield batch
            batch, batch_bytes = [], 0
        batch.append(leaf)
        batch_bytes += leaf[0].nbytes
    if batch:
        yield batch


def _write_shardings(leaves: Sequence[_Leaf]) -> None:
    with importing:
        from holdfast import _jax_arrays

    entries = {}
    for value, info, _ in leaves:
        data, _ = _jax_arrays.data_of(value)
        text = _jax_arrays.sharding_json(data.sharding)
        if text is not None:
            entries[info.name] = text
    if entries:
        directory = os.fspath(leaves[0][1].parent_dir)
        _engine.record_shardings(directory, entries)


def _with_key_impls(
    leaves: Sequence[_Leaf], written: Sequence[SerializedArrayMetadata]
) -> list[SerializedArrayMetadata]:
    jax = require_jax("a jax.Array")
    impls = {
        info.name: {"random_key_impl": str(jax.random.key_impl(value))}
        for value, info, _ in leaves
        if is_prng_key_dtype(value.dtype)
    }
    return [
        dataclasses.replace(array, ext_metadata=impls.get(array.param_name))
        for array in written
    ]


def as_keys(
    infos: Sequence[ParamInfo], arrays: list[Any], store: Any
) -> list[Any]:
    """Wraps arrays as typed PRNG keys if the store says that they are key
    data."""
    found = store.read_now(infos[0].parent_dir)
    if not found:
        return arrays
    impls = {
        array.param_name: (array.ext_metadata or {}).get("random_key_impl")
        for array in next(iter(found.values()))
    }
    jax = require_jax("a typed PRNG key")
    return [
        jax.random.wrap_key_data(array, impl=impls[info.name])
        if impls.get(info.name)
        else array
        for info, array in zip(infos, arrays, strict=True)
    ]


def _recorded_shardings(infos: Sequence[ParamInfo]) -> list[Any]:
    """Returns ShardingMetadata or None for each parameter.

    Raises:
        ValueError: `_sharding` lacks a parameter.
    """
    entries = ShardingFile(os.fspath(infos[0].parent_dir))
    if not entries.exists:
        return [None] * len(infos)
    texts = [entries[info.name] for info in infos]
    return [
        sharding_metadata.from_serialized_string(text) if text else None
        for text in texts
    ]
