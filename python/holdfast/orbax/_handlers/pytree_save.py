"""Saves a pytree item: checks the tree as Orbax does, captures and writes it.

The engine writes leaves with standard handlers. Any other handler is called
once with all its leaves, and the engine records these leaves.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import dataclasses
import os
import time
from collections.abc import (
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Sequence,
)
from typing import Any

import numpy as np

from holdfast import _engine, _files
from holdfast._adapt import adapt, make_adapt
from holdfast._delta import DeltaPolicy
from holdfast._json_values import json_text
from holdfast._progress import cancelling
from holdfast.orbax._devices.monitoring import record_duration, timed
from holdfast.orbax._devices.optional_jax import is_jax_array
from holdfast.orbax._leaves.args import SaveArgs
from holdfast.orbax._leaves.files import (
    EngineSaveArgs,
    as_path,
    budget_options,
    check_absolute,
    data_file_bytes,
    engine_args,
    has_any,
)
from holdfast.orbax._leaves.limits import ByteLimiter
from holdfast.orbax._leaves.param_info import IsPrioritizedKeyFn, ParamInfo
from holdfast.orbax._leaves.plan import lookup_error
from holdfast.orbax._processes.coroutines import run_sync
from holdfast.orbax._processes.operations import Processes, current_save_id
from holdfast.orbax._trees import structure
from holdfast.orbax._type_handlers.arrays import ArrayHandler, refuse_host_local
from holdfast.orbax._type_handlers.base import (
    TypeHandler,
    TypeHandlerRegistry,
    check_has_elements,
)
from holdfast.orbax._type_handlers.registry import registry_or_standard
from holdfast.orbax.tree_paths import flatten_with_path

_ANCHOR_EVERY: contextvars.ContextVar[int | None] = contextvars.ContextVar(
    "holdfast anchor_every", default=None
)
_FINGERPRINTS: contextvars.ContextVar[bool] = contextvars.ContextVar(
    "holdfast fingerprints", default=False
)


@contextlib.contextmanager
def saving_as(
    policy: DeltaPolicy | None, *, fingerprints: bool = False
) -> Iterator[None]:
    """Sets storage options that Orbax lacks, for items prepared in the block.

    Args:
        policy: decides which items are deltas of the previous step, and which
            are full; None means that all are full.
        fingerprints: store fingerprints in full items.
    """
    every = None if policy is None else policy.anchor_every
    token = _ANCHOR_EVERY.set(every)
    fingerprints_token = _FINGERPRINTS.set(fingerprints)
    try:
        yield
    finally:
        _FINGERPRINTS.reset(fingerprints_token)
        _ANCHOR_EVERY.reset(token)


@dataclasses.dataclass(frozen=True)
class SaveOptions:
    """How the item is stored; the members have the names of the handler's
    options.

    Attributes:
        registry: handlers of leaf types; None means the standard handlers.
        byte_limiter: limits the bytes being written.
        device_host_byte_limiter: limits the bytes being copied from devices.
        processes: the processes that save together; None means all.
    """

    use_ocdbt: bool = True
    use_zarr3: bool = False
    use_compression: bool | str = True
    ocdbt_target_data_file_size: int | None = None
    registry: TypeHandlerRegistry | None = None
    support_rich_types: bool = False
    byte_limiter: ByteLimiter | None = None
    device_host_byte_limiter: ByteLimiter | None = None
    enable_pinned_host_transfer: bool = False
    is_prioritized_key_fn: IsPrioritizedKeyFn | None = None
    processes: Processes | None = None


@dataclasses.dataclass
class HandlerLeaves:
    """The arguments that one handler is called with.

    Attributes:
        handler: the handler.
        values: n leaves.
        infos: n parameters, without their directory.
        args: n arguments.
    """

    handler: TypeHandler
    values: list[Any] = dataclasses.field(default_factory=list)
    infos: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    args: list[SaveArgs] = dataclasses.field(default_factory=list)

    async def serialize(self, directory: Any) -> Sequence[Any]:
        """Calls the handler; returns its futures."""
        infos = [ParamInfo(parent_dir=directory, **info) for info in self.infos]
        return await self.handler.serialize(self.values, infos, self.args)


@dataclasses.dataclass(frozen=True)
class PreparedSave:
    """A captured tree, which can be written without the caller's tree.

    Attributes:
        tree: the engine's tree; has only the names of other handlers' leaves.
        options: the engine's options.
        others: the leaves that other handlers write.
        processes: the processes that write the tree together.
        anchor_every: one in this many steps is full, and the others are deltas;
            None means that all are full.
    """

    tree: Any
    options: dict[str, Any]
    others: tuple[HandlerLeaves, ...] = ()
    processes: Processes = dataclasses.field(default_factory=Processes)
    anchor_every: int | None = None

    async def serialize(self, directory: Any) -> list[Any]:
        """Calls the other handlers concurrently.

        Args:
            directory: the item's directory, which exists.

        Returns:
            The handlers' futures.

        Raises:
            Exception: any error from a handler. It is raised after the other
                handlers' futures have ended.
        """
        directory = as_path(directory)
        return await futures_of(
            leaves.serialize(directory) for leaves in self.others
        )

    def options_at(self, path: str) -> dict[str, Any]:
        """Returns the engine's options, including those that depend on the
        storage."""
        name = "ocdbt_target_data_file_bytes"
        if self.options[name] is not None:
            return self.options
        return {**self.options, name: _files.data_file_bytes(path)}

    def write(
        self,
        directory: Any,
        futures: Sequence[Any] | None = None,
        is_cancelled: Callable[[], bool] | None = None,
    ) -> None:
        """Writes the item's files into an existing directory.

        With several processes, each writes its part. Then the primary makes an
        item from the parts with `finish_item`.

        Args:
            directory: the item's directory.
            futures: the result of `serialize`; None calls `serialize` here.
            is_cancelled: called repeatedly; True stops the write.

        Raises:
            CancelledError: `is_cancelled` returned True.
            OSError: the files cannot be written.
            ValueError: the path is relative, or the tree cannot be stored.
            Exception: any error from another handler.
        """
        path = os.fspath(directory)
        check_absolute(path)
        options = self.options_at(path)
        if is_cancelled is not None:
            options = {**options, "progress": cancelling(None, is_cancelled)}
        if self.others:
            if futures is None:
                futures = run_sync(self.serialize(directory))
            wait_for_all(futures)
            for leaves in self.others:
                leaves.handler.finalize(as_path(directory))
            options = {**options, "adopt_existing": True}
        if self.processes.is_single:
            every = self.anchor_every
            _engine.save_item(path, self.tree, anchor_every=every, **options)
            return
        _engine.save_item_part(
            path,
            self.tree,
            rank=self.processes.index,
            is_primary=self.processes.is_primary,
            save_id=current_save_id(),
            **options,
        )


_PART_PREFIX = "_HOLDFAST_PART_"


def has_parts(directory: Any) -> bool:
    """Returns whether a directory has parts of an item that is not finished."""
    names = _files.listdir(os.fspath(directory))
    return any(name.startswith(_PART_PREFIX) for name in names)


def finish_item(
    directory: Any,
    processes: Processes,
    *,
    use_ocdbt: bool,
    adopt_existing: bool = False,
) -> None:
    """Makes one item from the parts that the processes have written.

    Args:
        directory: the item's directory.
        processes: the processes that wrote the parts; this process is the
            primary.
        use_ocdbt: whether arrays are stored in databases.
        adopt_existing: whether other handlers have also written files.

    Raises:
        ValueError: parts are missing or do not match.
        OSError: files cannot be read or written.
    """
    path = os.fspath(directory)
    with timed(
        "/jax/checkpoint/write/async/ocdbt_merge_duration_secs",
        "/jax/orbax/write/background_ocdbt_merge_secs",
        "/jax/orbax/write/merge_ocdbt_per_process_files_secs",
    ):
        _engine.finish_item(
            path,
            ranks=processes.writers,
            save_id=current_save_id(),
            use_ocdbt=use_ocdbt,
            adopt_existing=adopt_existing,
            is_partial=processes.primary is None,
        )


async def futures_of(calls: Iterable[Awaitable[Any]]) -> list[Any]:
    """Runs several calls concurrently and returns their futures.

    Args:
        calls: each returns a list of futures, or None.

    Raises:
        Exception: the error of the first call that failed. It is raised after
            the other calls' futures have ended.
    """
    results = await asyncio.gather(*calls, return_exceptions=True)
    failures = [r for r in results if isinstance(r, BaseException)]
    lists = [r or () for r in results if not isinstance(r, BaseException)]
    futures = [future for some in lists for future in some]
    if failures:
        wait_quietly(futures)
        raise failures[0]
    return futures


def wait_for_all(futures: Iterable[Any]) -> None:
    """Waits for every future, then raises the first failure.

    Raises:
        Exception: any error from a future.
    """
    failure: BaseException | None = None
    for future in futures:
        try:
            future.result()
        except BaseException as error:
            failure = failure or error
    if failure is not None:
        raise failure


def wait_quietly(futures: Iterable[Any]) -> None:
    """Waits for every future and ignores errors."""
    try:
        wait_for_all(futures)
    except Exception:  # noqa: S110 - an earlier failure is what is reported
        pass


def prepare_save(
    item: Any,
    save_args: Any = None,
    custom_metadata: Any = None,
    options: SaveOptions | None = None,
    *,
    snapshot: bool = False,
) -> PreparedSave:
    """Checks a tree and captures its arrays.

    Args:
        item: the tree.
        save_args: a tree like `item`, with SaveArgs as leaves.
        custom_metadata: a JSON value for `_METADATA`.
        options: how to store the tree.
        snapshot: copy everything that the caller may change afterwards.

    Raises:
        ValueError: leaves or the structure cannot be saved.
        TypeError: `custom_metadata` is not a JSON value.
    """
    start = time.time()
    options = options or SaveOptions()
    flat = structure.flatten(item)
    _refuse_empty(item, flat)
    args = _args_of_leaves(flat, save_args)
    processes = options.processes or Processes()
    table = _HandlerTable(options.registry, processes)
    handlers = _check_leaves(flat, table)
    others: tuple[HandlerLeaves, ...] = ()
    tree = item
    if table.has_others:
        tree, others = _split(flat, args, handlers, options)
    engine_options = {
        "zarr_format": 3 if options.use_zarr3 else 2,
        "use_ocdbt": options.use_ocdbt,
        "use_compression": options.use_compression,
        "ocdbt_target_data_file_bytes": data_file_bytes(
            options.ocdbt_target_data_file_size, options.use_ocdbt
        ),
        "item_custom_metadata": _json_text(custom_metadata),
        "support_rich_types": options.support_rich_types,
        "save_args": _engine_args(flat, args, handlers),
        "fingerprints": _FINGERPRINTS.get(),
        **budget_options(options.byte_limiter),
    }
    name = "/jax/orbax/write/blocking_tree_map_duration_secs"
    record_duration(name, time.time() - start)
    with timed("/jax/orbax/write/blocking_d2h_duration_secs"):
        built = _engine.build_tree(tree, adapt=table.adapt(), snapshot=snapshot)
    # A delta cannot store the leaves of other handlers.
    every = None if others else _ANCHOR_EVERY.get()
    return PreparedSave(built, engine_options, others, processes, every)


class _HandlerTable:
    """The handlers of leaves, by the leaf's class."""

    def __init__(
        self, registry: TypeHandlerRegistry | None, processes: Processes
    ) -> None:
        self._registry = registry_or_standard(registry)
        # None if the engine handles the class.
        self._others: dict[type, TypeHandler | None] = {}
        self._jax_options: dict[str, Any] | None = None
        self.processes = processes
        self.has_others = False

    def of(self, leaf: Any) -> TypeHandler | None:
        """Returns the leaf's handler; None if the engine does the work.

        Raises:
            ValueError: no handler supports the type.
        """
        kind = type(leaf)
        if kind not in self._others:
            self._others[kind] = self._look_up(kind, leaf)
        return self._others[kind]

    def _look_up(self, kind: type, leaf: Any) -> TypeHandler | None:
        handler = self._registry.get(kind)
        if not is_served_by_engine(handler) or not _fits(handler, leaf):
            self.has_others = True
            return handler
        if isinstance(handler, ArrayHandler):
            self._jax_options = handler.jax_options()
            if not self.processes.is_single:
                self._jax_options["own_part_only"] = True
        return None

    def adapt(self) -> Any:
        """Returns the `adapt` for `build_tree`, with the options for
        jax.Arrays."""
        if self._jax_options is None:
            return adapt
        return make_adapt(**self._jax_options)


def is_served_by_engine(handler: Any) -> bool:
    """Returns whether the engine can do the handler's work."""
    ask = getattr(handler, "is_served_by_engine", None)
    return ask is not None and bool(ask())


def _fits(handler: Any, leaf: Any) -> bool:
    """Returns whether the engine would store the leaf under the handler's type
    string."""
    typestr = handler.typestr()
    if is_jax_array(leaf):
        return bool(typestr == "jax.Array")
    if isinstance(leaf, np.ndarray):
        return bool(typestr == "np.ndarray")
    if isinstance(leaf, str):
        return bool(typestr == "string")
    if leaf is ...:
        return bool(typestr == "placeholder")
    return bool(typestr == "scalar")


def _split(
    flat: structure.FlatTree,
    args: list[SaveArgs | None],
    handlers: list[TypeHandler | None],
    options: SaveOptions,
) -> tuple[Any, tuple[HandlerLeaves, ...]]:
    """Returns the engine's tree, and the leaves of each other handler."""
    groups: dict[int, HandlerLeaves] = {}
    leaves = list(flat.leaves)
    keypaths = [path for path, _ in flatten_with_path(flat.tree)]
    for i, handler in enumerate(handlers):
        if handler is None:
            continue
        group = groups.setdefault(id(handler), HandlerLeaves(handler))
        typestr = handler.typestr()
        group.values.append(flat.leaves[i])
        group.infos.append(
            {
                "name": ".".join(flat.paths[i]),
                "keypath": keypaths[i],
                "skip_deserialize": False,
                "is_ocdbt_checkpoint": options.use_ocdbt,
                "use_compression": bool(options.use_compression),
                "use_zarr3": options.use_zarr3,
                "enable_pinned_host_transfer": (
                    options.enable_pinned_host_transfer
                ),
                "ocdbt_target_data_file_size": (
                    options.ocdbt_target_data_file_size
                ),
                "byte_limiter": options.byte_limiter,
                "device_host_byte_limiter": options.device_host_byte_limiter,
                "value_typestr": typestr,
                "is_prioritized_key_fn": options.is_prioritized_key_fn,
            }
        )
        group.args.append(args[i] or SaveArgs())
        leaves[i] = _engine.ExternalLeaf(typestr)
    return flat.rebuild(leaves), tuple(groups.values())


def _refuse_empty(item: Any, flat: structure.FlatTree) -> None:
    if flat.leaves:
        return
    # An empty namedtuple or registered node may define its own truth value.
    if not item:
        raise ValueError("Found empty item.")


def _json_text(custom_metadata: Any) -> str:
    if custom_metadata is None:
        return ""
    try:
        return json_text(custom_metadata, "custom_metadata")
    except TypeError as error:
        raise TypeError(
            "Failed to encode `custom_metadata` metadata as JSON object. Please"
            " ensure your `custom_metadata` is JSON-serializable."
        ) from error  # `error` names the key and a remedy


def _args_of_leaves(
    flat: structure.FlatTree, save_args: Any
) -> list[SaveArgs | None]:
    """Returns the arguments of each leaf; None means the defaults.

    Raises:
        ValueError: `save_args` has a different structure.
    """
    if save_args is None:
        return [None] * len(flat.leaves)
    given = structure.match_up_to(flat.tree, save_args)
    return [args if isinstance(args, SaveArgs) else None for args in given]


def _engine_args(
    flat: structure.FlatTree,
    args: list[SaveArgs | None],
    handlers: list[TypeHandler | None],
) -> dict[str, EngineSaveArgs]:
    """Returns the arguments of the leaves that the engine saves, by name.

    Raises:
        AttributeError: a dtype is not a numpy dtype.
    """
    if all(leaf_args is None for leaf_args in args):
        return {}
    return {
        ".".join(names): engine_args(leaf_args)
        for names, leaf_args, handler in zip(
            flat.paths, args, handlers, strict=True
        )
        if leaf_args is not None and handler is None and has_any(leaf_args)
    }


def _check_leaves(
    flat: structure.FlatTree, table: _HandlerTable
) -> list[TypeHandler | None]:
    """Returns the handler of each leaf; refuses leaves with Orbax's messages.

    Raises:
        ValueError: a type cannot be saved, or an array has zero size.
    """
    handlers: list[TypeHandler | None] = []
    for i, leaf in enumerate(flat.leaves):
        try:
            handler = table.of(leaf)
        except ValueError as error:
            names = flat.paths[i]
            keypath = structure.describe_keypath(flat.tree, names)
            raise lookup_error(
                type(leaf), keypath, ".".join(names), SaveArgs(), leaf
            ) from error
        handlers.append(handler)
        if handler is None:
            _check_array(flat, i, table.processes)
    return handlers


def _check_array(
    flat: structure.FlatTree, i: int, processes: Processes
) -> None:
    """Checks that this process can save an array.

    Raises:
        ValueError: the array has zero size, or is only on one process.
    """
    leaf = flat.leaves[i]
    is_numpy = isinstance(leaf, np.ndarray)
    is_jax = not is_numpy and is_jax_array(leaf)
    if (is_jax or is_numpy) and leaf.size == 0:
        typestr = "jax.Array" if is_jax else "np.ndarray"
        check_has_elements(leaf, ".".join(flat.paths[i]), typestr)
    if is_jax and not processes.is_single:
        refuse_host_local(leaf, ".".join(flat.paths[i]), "jax.Array")
