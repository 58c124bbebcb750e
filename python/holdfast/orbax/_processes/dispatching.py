"""The work of an ArrayHandler that a dispatcher sends to other processes.

A dispatcher has `device_to_host(arrays)` and `dispatch(function,
input_arrays=, result_specs=, func_kwargs=)`. `dispatch` runs the function on
the processes that have the arrays or, without arrays, the specs' devices. All
functions here can be pickled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.orbax._devices.optional_jax import is_format, require_jax
from holdfast.orbax._devices.placement import requested_sharding
from holdfast.orbax._leaves.files import await_paths
from holdfast.orbax._leaves.param_info import ParamInfo
from holdfast.orbax._leaves.plan import Kind
from holdfast.orbax._processes.coroutines import run_sync
from holdfast.orbax._type_handlers.parameters import Parameters


def write_on_worker(
    arrays: Sequence[Any],
    handler: Any,
    infos: Sequence[ParamInfo],
    args: Sequence[Any],
) -> None:
    """Writes n arrays, with a handler that has no dispatcher."""
    handler.write_leaves(list(zip(arrays, infos, args, strict=True)))


def read_on_worker(
    metadata_key: str | None, infos: Sequence[ParamInfo], args: Sequence[Any]
) -> Sequence[Any]:
    """Reads n arrays."""
    run_sync(await_paths(infos))
    return Parameters(infos, metadata_key).read(Kind.JAX, args)


def read(
    dispatcher: Any,
    metadata_key: str | None,
    infos: Sequence[ParamInfo],
    args: Sequence[Any],
) -> list[Any]:
    """Reads n arrays through a dispatcher; returns the dispatcher's results.

    Args:
        dispatcher: sends the work.
        metadata_key: name of array metadata files; None means the format's
            default.
        infos: n parameters.
        args: n ArrayRestoreArgs with a sharding, or a mesh and its axes.

    Raises:
        ValueError: an argument has no sharding.
    """
    stored = Parameters(infos, metadata_key).array_metadata([None] * len(infos))
    specs = [
        _spec_of(info, arg, metadata)
        for info, arg, metadata in zip(infos, args, stored, strict=True)
    ]
    arrays = dispatcher.dispatch(
        read_on_worker,
        result_specs=specs,
        func_kwargs={
            "metadata_key": metadata_key,
            "infos": infos,
            "args": args,
        },
    )
    return list(arrays)


def _spec_of(info: ParamInfo, arg: Any, stored: Any) -> Any:
    jax = require_jax("a dispatcher")
    sharding = requested_sharding(arg)
    if is_format(sharding):
        sharding = sharding.sharding
    if sharding is None:
        raise ValueError(
            f"parameter {info.name!r}: a handler with a dispatcher needs"
            " ArrayRestoreArgs with a sharding"
        )
    return jax.ShapeDtypeStruct(
        arg.global_shape or stored.shape,
        arg.dtype or stored.dtype,
        sharding=sharding,
    )
