"""Decides what each stored leaf becomes, before anything is read.

The functions here are pure and work on dataclasses; `reader` executes the
plans.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from typing import Any

import numpy as np

from holdfast.orbax._leaves.args import ArrayRestoreArgs, RestoreArgs
from holdfast.orbax._leaves.param_info import ParamInfo
from holdfast.orbax._restore.source import StoredLeaf
from holdfast.orbax._trees.empty_values import (
    get_empty_value_from_typestr,
    is_empty_typestr,
)
from holdfast.orbax.metadata.tree import ValueMetadataEntry
from holdfast.orbax.options import (
    PYTREE_METADATA_OPTIONS,
    PyTreeMetadataOptions,
)


class Kind(enum.Enum):
    """The kind of value that a leaf becomes."""

    VALUE = enum.auto()  # known without a read
    NUMPY = enum.auto()
    SCALAR = enum.auto()  # a Python number, or the requested type
    JAX = enum.auto()
    STRING = enum.auto()
    OTHER = enum.auto()  # built by a user's handler


@dataclasses.dataclass(slots=True)
class LeafPlan:
    """One leaf of a restore.

    Attributes:
        kind: the kind of value that the leaf becomes.
        name: the parameter's name.
        stored: where the leaf is stored; None if the name is not stored.
        args: the caller's arguments.
        value: the result, if `kind` is VALUE.
        handler: the handler that reads the leaf, if `kind` is OTHER.
    """

    kind: Kind
    name: str
    stored: StoredLeaf | None
    args: RestoreArgs
    value: Any = None
    handler: Any = None


# Maps a class or a recorded type string to its kind and, for OTHER, its
# handler; (None, None) if no handler accepts it.
KindOf = Callable[[Any], tuple[Kind | None, Any]]


def plan_leaf(
    name: str,
    stored: StoredLeaf | None,
    entry: ValueMetadataEntry,
    args: RestoreArgs,
    keypath: Any,
    kind_of: KindOf,
    options: PyTreeMetadataOptions = PYTREE_METADATA_OPTIONS,
) -> LeafPlan:
    """Plans the restore of a leaf that has a metadata entry.

    Args:
        name: the parameter's name.
        stored: where the leaf is stored, or None.
        entry: the recorded metadata of the leaf.
        args: the caller's arguments.
        keypath: returns the text of the key path, for messages.
        kind_of: maps types to kinds.
        options: whether empty namedtuples are restored.

    Raises:
        ValueError: no handler accepts the leaf's type, or the leaf has no
            value.
    """
    requested = args.restore_type or entry.value_type
    if entry.skip_deserialize or is_empty_typestr(requested):
        value = get_empty_value_from_typestr(entry.value_type, options)
        return LeafPlan(Kind.VALUE, name, stored, args, value)
    kind, handler = kind_of(requested)
    if kind is None:
        raise lookup_error(requested, keypath(), name, args, entry)
    value = ... if kind is Kind.VALUE else None
    return LeafPlan(kind, name, stored, args, value, handler)


def lookup_error(
    kind: Any, keypath: str, name: str, args: Any, value: Any
) -> ValueError:
    """Returns the error for a leaf of a type that no handler accepts."""
    info = ParamInfo(name=name, parent_dir=None)
    return ValueError(
        f"TypeHandler lookup failed for: type={kind}, keypath={keypath},"
        f" ParamInfo={info!r}, RestoreArgs={args}, value={value}"
    )


def complete_args(target: Any, args: Any) -> RestoreArgs:
    """Completes the restore arguments of one leaf of the caller's item.

    If strict array arguments lack a shape or dtype, the item's leaf supplies
    it.

    Args:
        target: the item's leaf.
        args: the caller's `restore_args` for that leaf.
    """
    if type(args) is RestoreArgs:  # faster than checking base classes
        return args
    if not isinstance(args, ArrayRestoreArgs):
        return args if isinstance(args, RestoreArgs) else RestoreArgs()
    if isinstance(target, type) or not args.strict:
        return args
    shape = getattr(target, "shape", None)
    dtype = getattr(target, "dtype", None)
    if not shape or dtype is None or not isinstance(dtype, np.dtype):
        # Scalars, and typed PRNG keys, whose dtype is not a numpy dtype.
        return args
    updates: dict[str, Any] = {}
    if args.global_shape is None and args.shape is None:
        updates["global_shape"] = shape
    if args.dtype is None:
        updates["dtype"] = dtype
    return dataclasses.replace(args, **updates) if updates else args
