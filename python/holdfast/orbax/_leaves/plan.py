"""Decides, before anything is read, what each stored leaf becomes.

Pure functions on dataclasses; `_leaf_reader` carries plans out.
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

    VALUE = enum.auto()  # known without reading
    NUMPY = enum.auto()
    SCALAR = enum.auto()  # a Python number, or the type that was asked for
    JAX = enum.auto()
    STRING = enum.auto()
    OTHER = enum.auto()  # what a handler of the user's makes of it


@dataclasses.dataclass(slots=True)
class LeafPlan:
    """One leaf of a restore.

    Attributes:
        kind: the kind of value it becomes.
        name: the parameter's.
        stored: where it lies; None: nothing is stored under that name.
        args: the caller's wishes.
        value: the result, when `kind` is VALUE.
        handler: reads it, when `kind` is OTHER.
    """

    kind: Kind
    name: str
    stored: StoredLeaf | None
    args: RestoreArgs
    value: Any = None
    handler: Any = None


# Maps a class or a recorded text to the kind it asks for and, for OTHER, its
# handler; (None, None): no handler takes it.
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
    """The plan for a leaf that has an entry.

    Args:
        name: the parameter's.
        stored: where it lies, or None.
        entry: its recorded metadata.
        args: the caller's wishes.
        keypath: called for the key path's text, for messages.
        kind_of: which types are restored as what.
        options: whether empty namedtuples come back.

    Raises:
        ValueError: a type that no leaf can have; a leaf without a value.
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
    """The error for a leaf of a type that no handler takes."""
    info = ParamInfo(name=name, parent_dir=None)
    return ValueError(
        f"TypeHandler lookup failed for: type={kind}, keypath={keypath},"
        f" ParamInfo={info!r}, RestoreArgs={args}, value={value}"
    )


def complete_args(target: Any, args: Any) -> RestoreArgs:
    """Restore arguments of one leaf of the caller's item.

    Shape and dtype that strict array arguments leave open come from the item.

    Args:
        target: the item's leaf.
        args: the caller's `restore_args` at that place.
    """
    if type(args) is RestoreArgs:  # asking for a base class takes longer
        return args
    if not isinstance(args, ArrayRestoreArgs):
        return args if isinstance(args, RestoreArgs) else RestoreArgs()
    if isinstance(target, type) or not args.strict:
        return args
    shape = getattr(target, "shape", None)
    dtype = getattr(target, "dtype", None)
    if not shape or dtype is None or not isinstance(dtype, np.dtype):
        # Scalars, and typed PRNG keys, whose dtype numpy does not have.
        return args
    updates: dict[str, Any] = {}
    if args.global_shape is None and args.shape is None:
        updates["global_shape"] = shape
    if args.dtype is None:
        updates["dtype"] = dtype
    return dataclasses.replace(args, **updates) if updates else args
