"""Converts between empty containers and their names in `_METADATA`."""

from __future__ import annotations

import collections
from collections.abc import Callable, Mapping
from typing import Any

from holdfast.orbax.options import (
    PYTREE_METADATA_OPTIONS,
    PyTreeMetadataOptions,
)
from holdfast.orbax.tree_paths import isinstance_of_namedtuple

RESTORE_TYPE_NONE = "None"
RESTORE_TYPE_DICT = "Dict"
RESTORE_TYPE_LIST = "List"
RESTORE_TYPE_TUPLE = "Tuple"
RESTORE_TYPE_NAMED_TUPLE = "NamedTuple"
RESTORE_TYPE_UNKNOWN = "Unknown"

_MAKERS: dict[str, Callable[[], Any]] = {
    RESTORE_TYPE_NONE: lambda: None,
    RESTORE_TYPE_DICT: dict,
    RESTORE_TYPE_LIST: list,
    RESTORE_TYPE_TUPLE: tuple,
}
_EMPTY_TYPES = frozenset({*_MAKERS, RESTORE_TYPE_NAMED_TUPLE})


class OrbaxEmptyNamedTuple(
    collections.namedtuple("OrbaxEmptyNamedTuple", ())  # noqa: PYI024
):
    """Represents an empty namedtuple whose class is not known."""


def is_empty_container(value: Any) -> bool:
    """Returns whether a value is an empty mapping, list or (named) tuple."""
    return isinstance(value, dict | list | tuple | Mapping) and not value


def is_supported_empty_value(
    value: Any,
    pytree_metadata_options: PyTreeMetadataOptions = PYTREE_METADATA_OPTIONS,
) -> bool:
    """Returns whether the value is None or an empty mapping, list or tuple.

    Empty namedtuples count if rich types are supported.
    """
    if isinstance_of_namedtuple(value):
        return pytree_metadata_options.support_rich_types and not value
    return is_empty_container(value) or value is None


def get_empty_value_typestr(
    value: Any,
    pytree_metadata_options: PyTreeMetadataOptions = PYTREE_METADATA_OPTIONS,
) -> str:
    """Returns the type string in `_METADATA` for an empty value.

    Raises:
        ValueError: the value is not a supported empty value.
    """
    if not is_supported_empty_value(value, pytree_metadata_options):
        raise ValueError(
            f"{value} is not a supported empty type with"
            f" pytree_metadata_options: {pytree_metadata_options}."
        )
    if value is None:
        return RESTORE_TYPE_NONE
    if isinstance(value, list):
        return RESTORE_TYPE_LIST
    if isinstance_of_namedtuple(value):
        return RESTORE_TYPE_NAMED_TUPLE
    if isinstance(value, tuple):
        return RESTORE_TYPE_TUPLE
    return RESTORE_TYPE_DICT


def override_empty_value_typestr(
    typestr: str, pytree_metadata_options: PyTreeMetadataOptions
) -> str:
    """Returns the type string to restore. Without rich types, an empty
    namedtuple gets the type string of None."""
    is_lost = not pytree_metadata_options.support_rich_types
    if is_lost and typestr == RESTORE_TYPE_NAMED_TUPLE:
        return RESTORE_TYPE_NONE
    return typestr


def is_empty_typestr(typestr: Any) -> bool:
    """Returns whether a string is the type string of an empty value."""
    return isinstance(typestr, str) and typestr in _EMPTY_TYPES


def get_empty_value_from_typestr(
    typestr: str,
    pytree_metadata_options: PyTreeMetadataOptions = PYTREE_METADATA_OPTIONS,
) -> Any:
    """Returns the empty value for a type string.

    A namedtuple becomes None unless rich types are supported, because its class
    is not recorded.

    Raises:
        ValueError: the string is not the type string of an empty value.
    """
    if typestr in _MAKERS:
        return _MAKERS[typestr]()
    if typestr == RESTORE_TYPE_NAMED_TUPLE:
        if pytree_metadata_options.support_rich_types:
            return OrbaxEmptyNamedTuple()
        return None
    raise ValueError(
        f"Unrecognized typestr: {typestr} with pytree_metadata_options:"
        f" {pytree_metadata_options}."
    )
