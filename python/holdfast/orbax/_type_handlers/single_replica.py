"""A handler for jax.Arrays that lets one replica read for all replicas."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from holdfast.orbax._devices import multislice
from holdfast.orbax._devices.optional_jax import is_prng_key_dtype, require_jax
from holdfast.orbax._devices.placement import physical_request
from holdfast.orbax._leaves.args import (
    ArrayRestoreArgs,
    RestoreArgs,
    SingleReplicaArrayRestoreArgs,
)
from holdfast.orbax._leaves.files import await_paths
from holdfast.orbax._leaves.param_info import ParamInfo
from holdfast.orbax._leaves.plan import Kind
from holdfast.orbax._type_handlers.arrays import ArrayHandler, as_keys
from holdfast.orbax._type_handlers.base import check_input_arguments
from holdfast.orbax._type_handlers.parameters import Parameters
from holdfast.orbax.multihost import (
    process_count,
    process_index,
    unique_processes_from_devices,
)


class InvalidShardingError(ValueError):
    """A sharding that SingleReplicaArrayHandler cannot use."""


class SingleReplicaArrayHandler(ArrayHandler):
    """Reads each array on one replica and copies it to all replicas.

    The processes of the primary replica read the data, and send them to the
    other processes with jax's collectives. A single process holds all replicas
    and reads each box once.
    """

    def __init__(
        self,
        replica_axis_index: int | None = 0,
        primary_replica_id: int | None = 0,
        broadcast_memory_limit_bytes: int | None = None,
        broadcast_memory_scaling_factor: float | None = 0.75,
        **kwargs: Any,
    ) -> None:
        """Makes a handler.

        Args:
            replica_axis_index: the mesh axis of the replicas.
            primary_replica_id: the replica that reads.
            broadcast_memory_limit_bytes: maximum number of bytes to broadcast
                at a time.
            broadcast_memory_scaling_factor: the fraction of free memory to use.
            **kwargs: arguments of ArrayHandler.
        """
        super().__init__(**kwargs)
        self.replica_axis_index = replica_axis_index
        self.primary_replica_id = primary_replica_id
        self.broadcast_memory_limit_bytes = broadcast_memory_limit_bytes
        self.broadcast_memory_scaling_factor = broadcast_memory_scaling_factor

    async def deserialize(
        self,
        infos: Sequence[ParamInfo],
        args: Sequence[RestoreArgs] | None = None,
    ) -> Sequence[Any]:
        """Reads arrays.

        Raises:
            ValueError: arguments are not SingleReplicaArrayRestoreArgs, or lack
                a sharding.
            InvalidShardingError: a sharding has no replicas along the axis.
        """
        if args is None:
            raise ValueError(
                "Must provide SingleReplicaArrayRestoreArgs to restore as"
                " jax.Array."
            )
        check_input_arguments(infos, args)
        for arg in args:
            if not isinstance(arg, SingleReplicaArrayRestoreArgs):
                raise ValueError(
                    "Must provide `SingleReplicaArrayRestoreArgs`, but got"
                    f" {type(arg)}."
                )
            if arg.sharding is None:
                raise ValueError(
                    "Must provide `sharding` to restore with"
                    " `SingleReplicaArrayHandler`."
                )
        first = args[0]
        assert isinstance(first, ArrayRestoreArgs)
        primary = self._primary_processes(first.sharding)
        if process_count() == 1:
            return await super().deserialize(infos, args)
        await await_paths(infos)
        arrays = self._read_and_broadcast(infos, args, primary)
        if self._array_metadata_store is None:
            return arrays
        return as_keys(infos, arrays, self._array_metadata_store)

    def _primary_processes(self, sharding: Any) -> set[int]:
        """Returns the processes of the replica that reads.

        Raises:
            InvalidShardingError: the sharding has no replicas along the axis.
        """
        jax = require_jax("a sharding")
        if not isinstance(sharding, jax.sharding.NamedSharding):
            raise InvalidShardingError(
                "The provided sharding is not a NamedSharding. Please use"
                " NamedSharding instead."
            )
        devices = multislice.replica_devices(
            sharding.mesh, self.primary_replica_id or 0, self._axis
        )
        devices = np.asarray(devices)
        if devices.size == len(jax.devices()):
            raise InvalidShardingError(
                "All devices are in the primary replica. There are no"
                " non-primary replicas to broadcast to."
            )
        return unique_processes_from_devices(devices)

    @property
    def _axis(self) -> int:
        return self.replica_axis_index or 0

    def _read_and_broadcast(
        self,
        infos: Sequence[ParamInfo],
        args: Sequence[RestoreArgs],
        primary: set[int],
    ) -> list[Any]:
        """Returns the arrays, with key data in place of typed PRNG keys.

        Raises:
            ValueError: an array cannot be read as requested, or the arguments
                lack the shape or dtype of an array that this process does not
                read.
        """
        own_args = []
        for arg in args:
            assert isinstance(arg, SingleReplicaArrayRestoreArgs)
            own = arg.single_replica_sharding
            if own is None:
                own = multislice.local_replica_sharding(
                    arg.sharding, self._axis, self.primary_replica_id or 0
                )
            own_args.append(dataclasses.replace(arg, sharding=own))
        is_source = process_index() in primary
        if is_source:
            parameters = Parameters(infos, self._metadata_key)
            arrays = parameters.read(Kind.JAX, own_args)
        else:
            arrays = [_abstract(arg) for arg in own_args]
        first = args[0]
        assert isinstance(first, ArrayRestoreArgs)
        assert first.sharding is not None
        results, _ = multislice.broadcast_one_replica_to_all(
            arrays,
            first.sharding.mesh,
            self._axis,
            is_source,
            self.broadcast_memory_limit_bytes,
            self.broadcast_memory_scaling_factor,
        )
        return list(results)


def _abstract(arg: ArrayRestoreArgs) -> Any:
    """Returns a ShapeDtypeStruct for an array that a different replica reads.

    Raises:
        ValueError: the arguments lack the shape or the dtype.
    """
    jax = require_jax("an abstract array")
    shape, sharding = physical_request(
        arg.global_shape, arg.dtype, arg.sharding
    )
    dtype = arg.dtype
    if is_prng_key_dtype(dtype):
        dtype = np.uint32
    if shape is None or dtype is None:
        raise ValueError(
            "Restoring outside the primary replica requires `global_shape` and"
            " `dtype` on every `SingleReplicaArrayRestoreArgs`."
        )
    return jax.ShapeDtypeStruct(shape, dtype, sharding=sharding)
