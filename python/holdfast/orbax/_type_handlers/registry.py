"""The registry of type handlers, and the shared registry.

Thread-safety: any thread may read while no thread changes it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from holdfast._log import log
from holdfast.orbax._devices.optional_jax import imported_jax, require_jax
from holdfast.orbax._leaves.args import PLACEHOLDER
from holdfast.orbax._trees.empty_values import (
    RESTORE_TYPE_NONE,
    get_empty_value_typestr,
    is_supported_empty_value,
)
from holdfast.orbax._type_handlers.array_metadata import Store
from holdfast.orbax._type_handlers.arrays import ArrayHandler
from holdfast.orbax._type_handlers.base import TypeHandler, TypeHandlerRegistry
from holdfast.orbax._type_handlers.standard import (
    NumpyHandler,
    PlaceholderHandler,
    ScalarHandler,
    StringHandler,
)
from holdfast.orbax.options import (
    PYTREE_METADATA_OPTIONS,
    PyTreeMetadataOptions,
)

Matches = Callable[[Any], bool]


class _TypeHandlerRegistryImpl:
    """A list of (match function, handler); the first match is used."""

    def __init__(self, *handlers: tuple[Any, TypeHandler]) -> None:
        self._type_registry: list[tuple[Matches, TypeHandler]] = []
        self._typestr_registry: dict[str, TypeHandler] = {}
        for ty, handler in handlers:
            self.add(ty, handler, override=True, ignore_warnings=True)

    def add(
        self,
        ty: Any,
        handler: TypeHandler,
        func: Matches | None = None,
        override: bool = False,
        ignore_warnings: bool = False,
    ) -> None:
        """Registers a handler; see `register_type_handler`."""
        row = (func or (lambda t: issubclass(t, ty)), handler)
        index = self._first_match(ty)
        typestr = handler.typestr()
        if index is None:
            if typestr in self._typestr_registry:
                if not override:
                    raise ValueError(
                        f'Type "{ty}" has a `typestr` ("{typestr}") which'
                        " collides with that of an existing TypeHandler."
                    )
                if not ignore_warnings:
                    log.warning(
                        "Type handler registry overriding type"
                        ' "%s" collision on %s',
                        ty,
                        typestr,
                    )
            self._type_registry.append(row)
        elif override:
            if not ignore_warnings:
                log.warning(
                    'Type handler registry type "%s" overriding %s',
                    ty,
                    typestr,
                )
            self._type_registry[index] = row
        else:
            raise ValueError(f'A TypeHandler for "{ty}" is already registered.')
        self._typestr_registry[typestr] = handler

    def _first_match(self, ty: Any) -> int | None:
        rows = enumerate(self._type_registry)
        return next((i for i, (matches, _) in rows if matches(ty)), None)

    def get(self, ty: Any) -> TypeHandler:
        """Returns the handler of a type or type string.

        Raises:
            ValueError: no handler supports the type.
        """
        if isinstance(ty, str):
            if ty in self._typestr_registry:
                return self._typestr_registry[ty]
        else:
            index = self._first_match(ty)
            if index is not None:
                return self._type_registry[index][1]
        raise ValueError(f'Unknown type: "{ty}". Must register a TypeHandler.')

    def has(self, ty: Any) -> bool:
        """Returns whether a type or type string has a handler."""
        try:
            self.get(ty)
        except ValueError:
            return False
        return True


def create_type_handler_registry(
    *handlers: tuple[Any, TypeHandler],
) -> TypeHandlerRegistry:
    """Returns a registry with only these (type, handler) pairs."""
    return _TypeHandlerRegistryImpl(*handlers)


def _is_jax_array_type(ty: Any) -> bool:
    jax = imported_jax()
    array = getattr(jax, "Array", None)
    return array is not None and issubclass(ty, array)


def standard_registry() -> _TypeHandlerRegistryImpl:
    """Returns all standard handlers, without importing jax."""
    registry = _TypeHandlerRegistryImpl()

    def add(ty: Any, handler: TypeHandler, func: Matches | None = None) -> None:
        registry.add(ty, handler, func, override=True, ignore_warnings=True)

    for number in (int, float, bytes, np.number):
        add(number, ScalarHandler())
    add(np.ndarray, NumpyHandler())
    handler = ArrayHandler(array_metadata_store=Store())
    # `add` needs the type jax.Array, but jax may not be imported. No earlier
    # row matches that type.
    registry._type_registry.append((_is_jax_array_type, handler))
    registry._typestr_registry[handler.typestr()] = handler
    add(str, StringHandler())
    add(type(PLACEHOLDER), PlaceholderHandler())
    return registry


GLOBAL_TYPE_HANDLER_REGISTRY: TypeHandlerRegistry = standard_registry()
# The registry without any added handlers.
STANDARD_TYPE_HANDLER_REGISTRY: TypeHandlerRegistry = standard_registry()


def registry_or_standard(
    registry: TypeHandlerRegistry | None,
) -> TypeHandlerRegistry:
    """Returns the registry; for None, the standard handlers' registry."""
    if registry is not None:
        return registry
    return STANDARD_TYPE_HANDLER_REGISTRY


def supported_types() -> list[Any]:
    """Returns the types of leaves that can be saved without additional
    handlers."""
    jax = require_jax("the list of supported types")
    kinds = [int, float, bytes, np.number, np.ndarray, jax.Array, str]
    return [*kinds, type(PLACEHOLDER)]


def register_type_handler(
    ty: Any,
    handler: TypeHandler,
    func: Matches | None = None,
    override: bool = False,
) -> None:
    """Registers a handler in the shared registry.

    Args:
        ty: a type.
        handler: the handler of leaves of this type.
        func: a function that returns whether the handler supports a type; None
            means that it supports subclasses of `ty`.
        override: replace the current handler of `ty`.

    Raises:
        ValueError: without `override`, the type already has a handler, or the
            handler of a different type has the same type string.
    """
    GLOBAL_TYPE_HANDLER_REGISTRY.add(ty, handler, func, override)


def get_type_handler(ty: Any) -> TypeHandler:
    """Returns the shared registry's handler of a type or type string.

    Raises:
        ValueError: no handler supports the type.
    """
    return GLOBAL_TYPE_HANDLER_REGISTRY.get(ty)


def has_type_handler(ty: Any) -> bool:
    """Returns whether the shared registry has a handler for the type."""
    return GLOBAL_TYPE_HANDLER_REGISTRY.has(ty)


def register_standard_handlers_with_options(**kwargs: Any) -> None:
    """Registers the handlers of numbers, numpy arrays and jax.Arrays again.

    Args:
        **kwargs: options that all three handlers have. `use_ocdbt` and
            `ts_context` must be among them, and are ignored.

    Raises:
        KeyError: `use_ocdbt` or `ts_context` is missing.
        TypeError: a handler does not have an option.
    """
    del kwargs["use_ocdbt"], kwargs["ts_context"]
    add = GLOBAL_TYPE_HANDLER_REGISTRY.add
    for number in (int, float, bytes, np.number):
        add(number, ScalarHandler(**kwargs), override=True)
    add(np.ndarray, NumpyHandler(**kwargs), override=True)
    jax = require_jax("registering a handler for jax.Array")
    add(jax.Array, ArrayHandler(**kwargs), override=True)


def get_param_typestr(
    value: Any,
    registry: TypeHandlerRegistry,
    pytree_metadata_options: PyTreeMetadataOptions = PYTREE_METADATA_OPTIONS,
) -> str:
    """Returns a value's type string in `_METADATA`; "None" without a
    handler."""
    if is_supported_empty_value(value, pytree_metadata_options):
        return get_empty_value_typestr(value, pytree_metadata_options)
    try:
        return registry.get(type(value)).typestr()
    except ValueError:
        return RESTORE_TYPE_NONE
