"""`metadata` and related functions: describe checkpoints without reading
values."""

from __future__ import annotations

from typing import Any

from holdfast import errors
from holdfast._log import log
from holdfast.orbax._processes.coroutines import run_sync
from holdfast.orbax.metadata.step import check_none_is_gone
from holdfast.orbax.v1._layout import (
    AUTO_NAME,
    METRICS_NAME,
    Layout,
    holds_checkpoint,
    open_layout,
)
from holdfast.orbax.v1._load import check_name, handler_for, item_path
from holdfast.orbax.v1._metadata_types import CheckpointMetadata
from holdfast.orbax.v1._safetensors import SafetensorsCheckpoint
from holdfast.orbax.v1.context import Context, get_context
from holdfast.orbax.v1.errors import InvalidLayoutError
from holdfast.orbax.v1.options import path_of


def metadata(
    path: Any, checkpointable_name: str | None = AUTO_NAME
) -> CheckpointMetadata[Any]:
    """Returns the metadata of a tree.

    Args:
        path: a checkpoint of the v1 layout or an older layout.
        checkpointable_name: as for `load`.

    Returns:
        Metadata whose `metadata` is the tree with an abstract leaf for each
        stored leaf. It is None if a named tree could not be read (a warning
        says why).

    Raises:
        InvalidLayoutError: `path` is not a valid checkpoint; `__cause__`
            says why.
        ValueError: the metadata cannot be read.
    """
    check_name(checkpointable_name)
    context = get_context()
    layout = open_layout(path_of(context.file, path), context)
    if isinstance(layout, SafetensorsCheckpoint):
        return layout.metadata()
    name = layout.find_pytree(checkpointable_name)
    if name is None:
        handler = handler_for(layout, None, None, context)
        return _with_facts(layout, run_sync(handler.metadata(layout.path)))
    return _with_facts(layout, _item_metadata(layout, name, context))


def checkpointables_metadata(path: Any) -> CheckpointMetadata[dict[str, Any]]:
    """Returns the metadata of every checkpointable.

    Args:
        path: a checkpoint with named checkpointables.

    Returns:
        Metadata whose `metadata` maps each name to a tree of abstract leaves,
        or to None if nothing is known (for a JSON document).

    Raises:
        InvalidLayoutError: `path` is not a valid checkpoint; `__cause__`
            says why.
        DataLossError: a saved checkpointable is missing.
    """
    context = get_context()
    layout = open_layout(path_of(context.file, path), context)
    if isinstance(layout, SafetensorsCheckpoint):
        raise NotImplementedError(
            "SafetensorsLayout does not support `.checkpointables_metadata`. "
            "Use `.metadata` instead."
        )
    if layout.is_flat():
        raise InvalidLayoutError(
            f"Checkpoint at {layout.path} is a flat (direct) checkpoint with "
            "no named checkpointables. Use `ocp.metadata` / `ocp.load` "
            "instead."
        )
    check_none_is_gone(layout.path, layout.directories())
    items = {
        name: _item_metadata(layout, name, context)
        for name in layout.checkpointables()
        if name != METRICS_NAME
    }
    return _with_facts(layout, items)


def is_orbax_checkpoint(path: Any) -> bool:
    """Returns whether `path` is a checkpoint of the v1 or an older layout."""
    context = get_context()
    return holds_checkpoint(path_of(context.file, path), context)


def _item_metadata(layout: Layout, name: str, context: Context) -> Any:
    handler = handler_for(layout, name, None, context)
    try:
        return run_sync(handler.metadata(item_path(layout, name)))
    except errors.DataLossError:
        raise
    except Exception as error:
        log.warning(
            "Failed to get metadata for checkpointable: %s due to incompatible "
            "handler: %s. Defaulting return value to None. \nError details: %s",
            name,
            handler,
            error,
        )
        return None


def _with_facts(layout: Layout, items: Any) -> CheckpointMetadata[Any]:
    facts = layout.step_metadata()
    return CheckpointMetadata(
        layout.path,
        metadata=items,
        init_timestamp_nsecs=facts.init_timestamp_nsecs,
        commit_timestamp_nsecs=facts.commit_timestamp_nsecs,
        custom_metadata=facts.custom_metadata,
    )
