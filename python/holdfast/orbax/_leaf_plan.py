"""What to make of each stored leaf: decided before anything is read.

Pure functions on dataclasses; `_leaf_reader` carries plans out.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import Any

import numpy as np

from holdfast.orbax._jax import imported_jax
from holdfast.orbax._source import EMPTY_OF_TYPE, StoredLeaf
from holdfast.orbax.metadata.tree import ValueMetadataEntry
from holdfast.orbax.options import PYTREE_METADATA_OPTIONS
from holdfast.orbax.type_handlers import (
    ArrayRestoreArgs,
    ParamInfo,
    RestoreArgs,
)


class Kind(enum.Enum):
    """What a leaf becomes."""

    VALUE = enum.auto()  # known without reading
    NUMPY = enum.auto()
    SCALAR = enum.auto()  # a Python number, or the type that was asked for
    JAX = enum.auto()
    STRING = enum.auto()


@dataclasses.dataclass(slots=True)
class LeafPlan:
    """One leaf of a restore.

    Attributes:
        kind: what it becomes.
        name: the parameter's.
        stored: where it lies; None: nothing is stored under that name.
        args: the caller's wishes.
        value: the result, when `kind` is VALUE.
    """

    kind: Kind
    name: str
    stored: StoredLeaf | None
    args: RestoreArgs
    value: Any = None


_KIND_OF_TYPESTR = {
    "np.ndarray": Kind.NUMPY,
    "scalar": Kind.SCALAR,
    "jax.Array": Kind.JAX,
    "string": Kind.STRING,
    "placeholder": Kind.VALUE,
}


def kind_of_type(requested: Any) -> Kind | None:
    """What a `restore_type` or a recorded `value_type` asks for.

    Args:
        requested: a class, or the recorded text.

    Returns:
        None when no leaf can be restored as that.

    Raises:
        TypeError: neither a class nor a text.
    """
    if isinstance(requested, str):
        return _KIND_OF_TYPESTR.get(requested)
    if issubclass(requested, (int, float, bytes, np.number)):
        return Kind.SCALAR
    if issubclass(requested, np.ndarray):
        return Kind.NUMPY
    jax = imported_jax()
    if jax is not None and issubclass(requested, jax.Array):
        return Kind.JAX
    if issubclass(requested, str):
        return Kind.STRING
    if issubclass(requested, type(...)):
        return Kind.VALUE
    return None


def empty_value(value_type: str) -> Any:
    """The empty container of that recorded type.

    Raises:
        ValueError: the type is none of an empty container.
    """
    if value_type not in EMPTY_OF_TYPE:
        raise ValueError(
            f"Unrecognized typestr: {value_type} with pytree_metadata_options:"
            f" {PYTREE_METADATA_OPTIONS}."
        )
    value = EMPTY_OF_TYPE[value_type]
    return type(value)() if isinstance(value, dict | list) else value


def plan_leaf(
    name: str,
    stored: StoredLeaf | None,
    entry: ValueMetadataEntry,
    args: RestoreArgs,
    keypath: Any,
) -> LeafPlan:
    """What to do with a leaf that has an entry.

    Args:
        name: the parameter's.
        stored: where it lies, or None.
        entry: what is recorded of it.
        args: the caller's wishes.
        keypath: called for the key path's text, for messages.

    Raises:
        ValueError: a type that no leaf can have; a leaf without a value.
    """
    if entry.skip_deserialize:
        value = empty_value(entry.value_type)
        return LeafPlan(Kind.VALUE, name, stored, args, value)
    requested = args.restore_type or entry.value_type
    if isinstance(requested, str) and requested in EMPTY_OF_TYPE:
        value = empty_value(entry.value_type)
        return LeafPlan(Kind.VALUE, name, stored, args, value)
    kind = kind_of_type(requested)
    if kind is None:
        raise ValueError(
            f"TypeHandler lookup failed for: type={requested},"
            f" keypath={keypath()}, ParamInfo={ParamInfo(name)!r},"
            f" RestoreArgs={args}, value={entry}"
        )
    value = ... if kind is Kind.VALUE else None
    return LeafPlan(kind, name, stored, args, value)


def complete_args(target: Any, args: Any) -> RestoreArgs:
    """Restore arguments of one leaf of the caller's item.

    Shape and dtype that strict array arguments leave open come from the item.

    Args:
        target: the item's leaf.
        args: what the caller's `restore_args` have there.
    """
    if not isinstance(args, ArrayRestoreArgs):
        return args if isinstance(args, RestoreArgs) else RestoreArgs()
    if isinstance(target, type) or not args.strict:
        return args
    shape = getattr(target, "shape", None)
    dtype = getattr(target, "dtype", None)
    if not shape or dtype is None or not isinstance(dtype, np.dtype):
        # Scalars, and typed PRNG keys, whose dtype is none of numpy's.
        return args
    updates: dict[str, Any] = {}
    if args.global_shape is None and args.shape is None:
        updates["global_shape"] = shape
    if args.dtype is None:
        updates["dtype"] = dtype
    return dataclasses.replace(args, **updates) if updates else args
