"""Restores by type handlers: which leaf is whose, and calling them."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

from holdfast._lazy import importing
from holdfast.orbax._coroutines import run_sync
from holdfast.orbax._leaf_args import RestoreArgs
from holdfast.orbax._leaf_plan import Kind, LeafPlan
from holdfast.orbax._limits import ByteLimiter
from holdfast.orbax._param_info import ParamInfo
from holdfast.orbax._pytree_save import is_served_by_engine
from holdfast.orbax._source import AGGREGATE_FILE
from holdfast.orbax._type_handler import TypeHandler, TypeHandlerRegistry
from holdfast.orbax.options import PyTreeMetadataOptions


@dataclasses.dataclass(frozen=True)
class RestoreOptions:
    """How an item is read.

    Attributes:
        registry: handlers of leaf types; None: the standard ones.
        metadata_options: whether recorded tuples come back as such.
        byte_limiter: bounds the bytes read at once.
        aggregate_filename: of the msgpack file of old items.
        fills_missing: chunks that are not stored are zeros.
    """

    registry: TypeHandlerRegistry | None = None
    metadata_options: PyTreeMetadataOptions = dataclasses.field(
        default_factory=PyTreeMetadataOptions
    )
    byte_limiter: ByteLimiter | None = None
    aggregate_filename: str = AGGREGATE_FILE
    fills_missing: bool = False


class HandlerKinds:
    """The kinds as which types and recorded texts are restored, by a registry.

    Args:
        registry: its handlers; None: the standard ones.
    """

    def __init__(self, registry: TypeHandlerRegistry | None) -> None:
        if registry is None:
            with importing:
                from holdfast.orbax._type_handler_registry import (
                    STANDARD_TYPE_HANDLER_REGISTRY,
                )

            registry = STANDARD_TYPE_HANDLER_REGISTRY
        self._registry = registry
        self._known: dict[Any, tuple[Kind | None, Any]] = {}

    def __call__(self, requested: Any) -> tuple[Kind | None, Any]:
        """The kind of a class or text, and the handler of Kind.OTHER.

        Raises:
            TypeError: neither a class nor a text.
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


@dataclasses.dataclass(frozen=True)
class StoredItem:
    """The settings that all parameters of an item share.

    Attributes:
        directory: the item's.
        use_ocdbt: arrays lie in a database.
        use_zarr3: arrays are zarr 3.
        raise_array_data_missing_error: missing chunks are errors.
        byte_limiter: bounds the bytes read at once.
    """

    directory: Any
    use_ocdbt: bool
    use_zarr3: bool
    raise_array_data_missing_error: bool = True
    byte_limiter: ByteLimiter | None = None

    def info(self, name: str, **others: Any) -> ParamInfo:
        """A parameter of the item."""
        return ParamInfo(
            name=name,
            parent_dir=self.directory,
            is_ocdbt_checkpoint=self.use_ocdbt,
            use_zarr3=self.use_zarr3,
            byte_limiter=self.byte_limiter,
            raise_array_data_missing_error=(
                self.raise_array_data_missing_error
            ),
            **others,
        )


@dataclasses.dataclass
class _Group:
    handler: TypeHandler
    indices: list[int] = dataclasses.field(default_factory=list)
    infos: list[ParamInfo] = dataclasses.field(default_factory=list)
    args: list[RestoreArgs] = dataclasses.field(default_factory=list)


def read_other_leaves(
    plans: list[LeafPlan], keypaths: list[Any], item: StoredItem
) -> dict[int, Any]:
    """The values that handlers make of the plans of Kind.OTHER.

    Args:
        plans: n plans of any kind.
        keypaths: n key paths.
        item: where they are stored.

    Returns:
        Values by the plans' indices.

    Raises:
        Exception: what a handler raises.
    """
    infos = {
        i: item.info(
            plan.name,
            keypath=keypaths[i],
            skip_deserialize=False,
            # Orbax asks for the text of the entry's own class, which has no
            # handler.
            value_typestr="None",
        )
        for i, plan in enumerate(plans)
        if plan.kind is Kind.OTHER
    }
    return read_with_infos(plans, infos)


def read_with_infos(
    plans: list[LeafPlan], infos: dict[int, ParamInfo]
) -> dict[int, Any]:
    """As `read_other_leaves`, for infos that are known.

    Args:
        plans: n plans.
        infos: of those of Kind.OTHER, by their indices.

    Raises:
        Exception: what a handler raises.
    """
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
