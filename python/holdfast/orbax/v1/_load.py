"""`load` and related functions."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from holdfast import errors
from holdfast.orbax._devices.monitoring import MonitoredOperation
from holdfast.orbax._processes.coroutines import run_sync
from holdfast.orbax.metadata.step import check_none_is_gone
from holdfast.orbax.v1 import _registry
from holdfast.orbax.v1._layout import (
    AUTO_NAME,
    RESERVED_NAMES,
    STATE_NAME,
    Layout,
    check_item_names,
    open_layout,
)
from holdfast.orbax.v1._leaves import (
    check_abstract_state,
    resolve_abstract_meshes,
)
from holdfast.orbax.v1._metadata_types import CheckpointMetadata
from holdfast.orbax.v1._operations import start
from holdfast.orbax.v1._responses import AsyncResponse, BackgroundResponse
from holdfast.orbax.v1._safetensors import SafetensorsCheckpoint
from holdfast.orbax.v1.context import Context, get_context
from holdfast.orbax.v1.errors import InvalidLayoutError, NoEntryError
from holdfast.orbax.v1.options import CheckpointLayout, path_of

PLACEHOLDER = ...


def load(
    path: Any,
    abstract_state: Any | None = None,
    *,
    checkpointable_name: str | None = AUTO_NAME,
) -> Any:
    """Loads a tree.

    Args:
        path: a checkpoint of the v1 layout or an older layout. If the context's
            `checkpoint_layout` is "safetensors" or "auto", also a safetensors
            file or a directory of such files; the result is then a flat dict.
        abstract_state: determines the result's structure, and how each leaf is
            restored. A `jax.ShapeDtypeStruct` requests a jax.Array with its
            sharding. A numpy array requests a numpy array with its dtype. An
            int, float or str, or one of these types, requests that type. A
            `PLACEHOLDER` is not restored. The result of `metadata(path)` is
            accepted too. None restores the tree as it was saved.
        checkpointable_name: the subdirectory that contains the tree. "AUTO"
            means "state", or else the first tree, or else `path` itself. None
            means `path` itself, in older checkpoints.

    Returns:
        The tree. Without `abstract_state`, tuples are restored as lists and
        namedtuples as dicts.

    Raises:
        InvalidLayoutError: `path` is not a valid checkpoint; `__cause__`
            says why.
        ValueError: the structures do not match, a leaf cannot be read as
            requested, or the files are damaged.
        TypeError: a leaf of `abstract_state` is not a valid abstract leaf.
        KeyError: the safetensors files do not have a requested tensor.
    """
    abstract = _standardize(abstract_state)
    check_name(checkpointable_name)
    if abstract is not None:
        check_abstract_state(abstract)
    context = get_context()
    operation = start(context, path, is_save=False)
    with _told(path, context), operation.phase("_load_impl"):
        layout = open_layout(path_of(context.file, path), context)
        if isinstance(layout, SafetensorsCheckpoint):
            return layout.load(abstract, context)()
        name = layout.find_pytree(checkpointable_name)
        return _load_one(layout, name, abstract, context)


def load_checkpointables(
    path: Any, abstract_checkpointables: Any | None = None
) -> dict[str, Any]:
    """Loads several checkpointables.

    Args:
        path: a checkpoint with named checkpointables.
        abstract_checkpointables: maps each name to what `load` accepts as
            `abstract_state`, an object that loads itself, or None to restore
            the value as it was saved. Other checkpointables are not loaded. If
            the argument is None, all are restored as they were saved.

    Returns:
        A dict from name to value.

    Raises:
        InvalidLayoutError: `path` is not a valid checkpoint; `__cause__`
            says why.
        KeyError: a requested checkpointable does not exist.
        NoEntryError: a checkpointable could not be loaded.
        ValueError: the argument is not a dict, or a name is invalid.
    """
    abstracts = _standardize(abstract_checkpointables)
    _check_names(abstracts)
    context = get_context()
    operation = start(context, path, is_save=False)
    with _told(path, context), operation.phase("_load_impl"):
        return _load_several(path, abstracts, context)


@contextlib.contextmanager
def _told(path: Any, context: Context) -> Iterator[None]:
    """Reports the load in the block to jax's listeners."""
    told = MonitoredOperation(
        path,
        is_save=False,
        primary_host=context.multiprocessing.primary_host,
    )
    told.begun()
    told.blocked()
    yield
    told.done()


def _load_several(
    path: Any, abstracts: Any, context: Context
) -> dict[str, Any]:
    """Does the work of `load_checkpointables`."""
    layout = open_layout(path_of(context.file, path), context)
    if isinstance(layout, SafetensorsCheckpoint):
        raise NotImplementedError(
            "SafetensorsLayout does not support `.load_checkpointables`. Use "
            "`.load` instead."
        )
    if layout.is_flat():
        raise InvalidLayoutError(
            f"Checkpoint at {layout.path} is a flat (direct checkpoint with no "
            "named checkpointables. Use `ocp.metadata` / `ocp.load` instead."
        )
    available = layout.checkpointables(*(abstracts or ()))
    if not abstracts:
        check_none_is_gone(layout.path, layout.directories())
        names = [name for name in available if name not in RESERVED_NAMES]
        abstracts = dict.fromkeys(names)
    if any(name not in available for name in abstracts):
        raise KeyError(
            f" Requested checkpointables: {abstracts.keys()} for loading were "
            "not found in the checkpoint. Available checkpointables: "
            f"{available}"
        )
    return _load_named(layout, abstracts, context)


def load_async(
    path: Any,
    abstract_state: Any | None = None,
    *,
    checkpointable_name: str | None = STATE_NAME,
) -> AsyncResponse[Any]:
    """Loads safetensors in the background.

    Other formats are not supported, as in Orbax.

    Args:
        path: a file, or a directory of files.
        abstract_state: as for `load`.
        checkpointable_name: ignored.

    Returns:
        A response whose `result()` returns the flat dict, or raises the errors
        that `load` raises while it reads.

    Raises:
        NotImplementedError: the context has a different `checkpoint_layout`.
        InvalidLayoutError: `path` is not a valid checkpoint; `__cause__`
            says why.
        ValueError: as for `load`, if the error is found before tensors are
            read.
        TypeError: a leaf of `abstract_state` is not a valid abstract leaf.
    """
    context = get_context()
    operation = start(context, path, is_save=False)
    if not path:
        raise ValueError("Path must not be None.")
    layout = context.checkpoint_layout
    if layout is not CheckpointLayout.SAFETENSORS:
        raise NotImplementedError(
            "Asynchronous loading only supported for SAFETENSORS checkpoint "
            f"layout, not {layout}."
        )
    abstract = _standardize(abstract_state)
    check_name(checkpointable_name)
    if abstract is not None:
        check_abstract_state(abstract)
    opened = open_layout(path_of(context.file, path), context)
    assert isinstance(opened, SafetensorsCheckpoint)
    read = opened.load(abstract, context)

    def run(is_cancelled: Callable[[], bool]) -> Any:
        with operation.phase("_load_async:finalize"):
            return read()

    return BackgroundResponse(run, what=f"load of {path}")


def load_checkpointables_async(
    path: Any, abstract_checkpointables: Any | None = None
) -> NoReturn:
    """Always raises, as Orbax does.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError("Asynchronous loading is not yet supported.")


def _standardize(abstract: Any) -> Any:
    if isinstance(abstract, CheckpointMetadata):
        return abstract.metadata
    return resolve_abstract_meshes(abstract)


def check_name(name: str | None) -> None:
    """Checks the name of a tree to load.

    Raises:
        ValueError: the name is empty or reserved.
    """
    if name == "":
        raise ValueError(
            "Empty string is not supported as a checkpointable name in `load`. "
            "Checkpointable name must be a valid non-empty string name or None "
            "if loading a legacy V0 direct pytree checkpoint."
        )
    if name != AUTO_NAME and name in RESERVED_NAMES:
        raise ValueError(f"Provided reserved checkpointable key: {name}.")


def _check_names(abstracts: Any) -> None:
    if abstracts is None:
        return
    if not isinstance(abstracts, dict):
        raise ValueError(
            "`abstract_checkpointables` must be a valid mapping of "
            "checkpointable names to abstract checkpointables to load, but got "
            f"{type(abstracts)}"
        )
    check_item_names(abstracts, "load_checkpointables")


def recorded_handler(layout: Layout, name: str | None) -> str | None:
    """Returns the name of the handler that saved an item; None if unknown.

    If `name` is None, the item is a flat checkpoint's only item.
    """
    handlers = layout.step_metadata().item_handlers
    if name is None:
        return handlers if isinstance(handlers, str) else None
    return handlers.get(name) if isinstance(handlers, dict) else None


def handler_for(
    layout: Layout, name: str | None, abstract: Any, context: Context
) -> Any:
    """Returns the handler that loads an item.

    Raises:
        NoEntryError: no handler is registered.
    """
    return _registry.resolve_for_load(
        context.checkpointables.registry,
        abstract,
        layout.path.name if name is None else name,
        recorded_handler(layout, name),
        STATE_NAME,
    )


def item_path(layout: Layout, name: str | None) -> Any:
    """Returns the directory of an item."""
    return layout.path if name is None else layout.path / name


def _load_one(
    layout: Layout, name: str | None, abstract: Any, context: Context
) -> Any:
    if name is None:
        handlers = layout.step_metadata().item_handlers
        if isinstance(handlers, dict):
            raise InvalidLayoutError(
                f"Checkpoint at {layout.path} is a composite checkpoint with "
                "named checkpointables. Use `ocp.load_checkpointables` or "
                "`ocp.load(..., checkpointable_name='state')` instead of "
                "`ocp.load(..., checkpointable_name=None)`."
            )
    handler = handler_for(layout, name, abstract, context)

    async def run() -> Any:
        return await (await handler.load(item_path(layout, name), abstract))

    return run_sync(run())


def _load_named(
    layout: Layout, abstracts: dict[str, Any], context: Context
) -> dict[str, Any]:
    handlers = {
        name: handler_for(layout, name, abstract, context)
        for name, abstract in abstracts.items()
    }

    async def run() -> dict[str, Any]:
        awaitables = {
            name: await handlers[name].load(layout.path / name, abstract)
            for name, abstract in abstracts.items()
        }
        return await _results(awaitables, handlers, abstracts, context)

    return run_sync(run())


async def _results(
    awaitables: dict[str, Any],
    handlers: dict[str, Any],
    abstracts: dict[str, Any],
    context: Context,
) -> dict[str, Any]:
    loaded = {}
    for name, awaitable in awaitables.items():
        try:
            loaded[name] = await awaitable
        except errors.DataLossError:
            raise  # no other handler would help
        except Exception as error:
            raise NoEntryError(
                f"Failed to load checkpointable: {name} due to incompatible "
                f"handler: {type(handlers[name])} found in registry: "
                f"{context.checkpointables.registry} for abstract "
                f"checkpointable: {abstracts[name]}."
            ) from error
    return loaded
