"""Restores with type handlers: finds each leaf's handler, and calls it."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from typing import Any

from holdfast.orbax._handlers.pytree_save import is_served_by_engine
from holdfast.orbax._leaves.args import RestoreArgs
from holdfast.orbax._leaves.limits import ByteLimiter
from holdfast.orbax._leaves.param_info import ParamInfo
from holdfast.orbax._leaves.plan import Kind, LeafPlan
from holdfast.orbax._leaves.reader import ArraysAt, read_leaves
from holdfast.orbax._processes.coroutines import run_sync
from holdfast.orbax._restore.source import AGGREGATE_FILE
from holdfast.orbax._type_handlers.base import TypeHandler, TypeHandlerRegistry
from holdfast.orbax._type_handlers.registry import registry_or_standard
from holdfast.orbax.options import PyTreeMetadataOptions


@dataclasses.dataclass(frozen=True)
class RestoreOptions:
    """How an item is read.

    Attributes:
        registry: handlers of leaf types; None means the standard handlers.
        metadata_options: whether recorded tuples are restored as tuples.
        byte_limiter: limits the bytes in flight.
        aggregate_filename: name of the msgpack file of old items.
        fills_missing: read missing chunks as zeros.
    """

    registry: TypeHandlerRegistry | None = None
    metadata_options: PyTreeMetadataOptions = dataclasses.field(
        default_factory=PyTreeMetadataOptions
    )
    byte_limiter: ByteLimiter | None = None
    aggregate_filename: str = AGGREGATE_FILE
    fills_missing: bool = False


class HandlerKinds:
    """Maps types and recorded type strings to kinds, using a registry.

    Args:
        registry: the handlers; None means the standard handlers.
    """

    def __init__(self, registry: TypeHandlerRegistry | None) -> None:
        self._registry = registry_or_standard(registry)
        self._known: dict[Any, tuple[Kind | None, Any]] = {}

    def __call__(self, requested: Any) -> tuple[Kind | None, Any]:
        """Returns the kind of a class or type string, and the handler if the
        kind is Kind.OTHER.

        Raises:
            TypeError: the argument is neither a class nor a string.
        """
        if requested not in self._known:
            self._known[requested] = self._look_up(requested)
        return self._known[requested]

    def _look_up(self, requested: Any) -> tuple[Kind | None, Any]:
        try:
            handler: Any = self._registry.get(requested)
        except ValueError:
            return None, None
        if is_served_by_engine(handler):
            return handler.KIND, None
        return Kind.OTHER, handler


@dataclasses.dataclass
class _Group:
    handler: TypeHandler
    indices: list[int] = dataclasses.field(default_factory=list)
    infos: list[ParamInfo] = dataclasses.field(default_factory=list)
    args: list[RestoreArgs] = dataclasses.field(default_factory=list)


def read_plans(
    plans: list[LeafPlan],
    info_of: Callable[[int], ParamInfo],
    where: ArraysAt,
) -> list[Any]:
    """Reads the value of each plan, with the engine or the plan's handler.

    Args:
        plans: n plans.
        info_of: returns the ParamInfo of plan i, which has Kind.OTHER.
        where: where the item's arrays are.

    Raises:
        ValueError: a leaf cannot be read as requested.
        FileNotFoundError: files of an array are missing.
        Exception: any error from a handler.
    """
    others = _read_by_handlers(
        plans,
        {i: info_of(i) for i, p in enumerate(plans) if p.kind is Kind.OTHER},
    )
    own = [plan for plan in plans if plan.kind is not Kind.OTHER]
    values = iter(read_leaves(own, where))
    return [
        others[i] if i in others else next(values) for i in range(len(plans))
    ]


def _read_by_handlers(
    plans: list[LeafPlan], infos: dict[int, ParamInfo]
) -> dict[int, Any]:
    groups: dict[int, _Group] = {}
    for i, info in infos.items():
        handler: Any = plans[i].handler
        group = groups.setdefault(id(handler), _Group(handler))
        group.indices.append(i)
        group.args.append(plans[i].args)
        group.infos.append(info)

    async def read() -> list[Any]:
        return list(
            await asyncio.gather(
                *(
                    group.handler.deserialize(group.infos, group.args)
                    for group in groups.values()
                )
            )
        )

    values: dict[int, Any] = {}
    if groups:
        for group, results in zip(
            groups.values(), run_sync(read()), strict=True
        ):
            values.update(zip(group.indices, results, strict=True))
    return values
