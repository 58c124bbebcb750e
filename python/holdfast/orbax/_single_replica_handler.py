"""A handler of jax.Arrays of which one replica reads for all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.orbax._array_type_handler import ArrayHandler
from holdfast.orbax._jax import require_jax
from holdfast.orbax._leaf_args import (
    ArrayRestoreArgs,
    RestoreArgs,
    SingleReplicaArrayRestoreArgs,
)
from holdfast.orbax._param_info import ParamInfo
from holdfast.orbax._type_handler import check_input_arguments


class InvalidShardingError(ValueError):
    """A sharding that SingleReplicaArrayHandler cannot use."""


class SingleReplicaArrayHandler(ArrayHandler):
    """Reads what one replica needs, for all replicas.

    With one process, which holds all replicas, that is to read each box once.
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
            replica_axis_index: the mesh's axis along which replicas lie.
            primary_replica_id: the replica that reads.
            broadcast_memory_limit_bytes: bytes to broadcast at once.
            broadcast_memory_scaling_factor: of the free memory.
            **kwargs: of ArrayHandler.
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
            ValueError: arguments that are no SingleReplicaArrayRestoreArgs, or
                lack a sharding.
            InvalidShardingError: a sharding without replicas along the axis.
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
        self._check_replicas(first.sharding)
        return await super().deserialize(infos, args)

    def _check_replicas(self, sharding: Any) -> None:
        jax = require_jax("a sharding")
        if not isinstance(sharding, jax.sharding.NamedSharding):
            raise InvalidShardingError(
                "The provided sharding is not a NamedSharding. Please use"
                " NamedSharding instead."
            )
        devices = sharding.mesh.devices.take(
            self.primary_replica_id, axis=self.replica_axis_index
        )
        if devices.size == len(jax.devices()):
            raise InvalidShardingError(
                "All devices are in the primary replica. There are no"
                " non-primary replicas to broadcast to."
            )
