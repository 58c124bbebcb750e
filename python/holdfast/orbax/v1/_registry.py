"""The handlers that save and load checkpointables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

from holdfast._log import log
from holdfast.orbax._handlers.base import recorded_name
from holdfast.orbax.v1._handler_types import StatefulCheckpointable
from holdfast.orbax.v1.errors import AlreadyExistsError, NoEntryError

HandlerType: TypeAlias = type[Any]
Entry: TypeAlias = tuple[HandlerType, str | None]
T = TypeVar("T", bound=HandlerType)


class CheckpointableHandlerRegistry(Protocol):
    """Handlers in the order in which they were added; the last match wins.

    Any object with these methods is a registry.
    """

    def add(
        self,
        handler_type: HandlerType,
        *,
        checkpointable_name: str | None = None,
        secondary_typestrs: Sequence[str] | None = None,
    ) -> CheckpointableHandlerRegistry:
        """Adds an entry and returns the registry.

        Args:
            handler_type: a class that can be constructed without arguments.
            checkpointable_name: use the handler only for this checkpointable.
            secondary_typestrs: recorded names of handlers whose checkpointables
                this handler can load.

        Raises:
            ValueError: `handler_type` is not a class.
            AlreadyExistsError: the entry already exists.
        """
        ...

    def get(self, checkpointable_name: str) -> HandlerType:
        """Returns the handler that is reserved for this name.

        Raises:
            NoEntryError: no entry has this name.
        """
        ...

    def has(self, checkpointable_name: str) -> bool:
        """Returns whether a handler is reserved for this name."""
        ...

    def get_all_entries(self) -> Sequence[Entry]:
        """Returns (handler, name or None) in the order of addition."""
        ...

    def get_secondary_typestrs(
        self, handler_type: HandlerType
    ) -> Sequence[str]:
        """Returns the recorded names of other handlers whose checkpointables
        this handler can load."""
        ...


class _DefaultCheckpointableHandlerRegistry(CheckpointableHandlerRegistry):
    """A registry that stores its entries itself.

    An entry with a name is used only for the checkpointable of that name.
    """

    def __init__(
        self, other: CheckpointableHandlerRegistry | None = None
    ) -> None:
        self._entries: list[Entry] = []
        self._secondary: dict[HandlerType, Sequence[str]] = {}
        if other is not None:
            self._add_all(other)

    def _add_all(self, other: CheckpointableHandlerRegistry) -> None:
        for handler, name in other.get_all_entries():
            secondary = other.get_secondary_typestrs(handler)
            self.add(
                handler, checkpointable_name=name, secondary_typestrs=secondary
            )

    def add(
        self,
        handler_type: HandlerType,
        *,
        checkpointable_name: str | None = None,
        secondary_typestrs: Sequence[str] | None = None,
    ) -> CheckpointableHandlerRegistry:
        if not isinstance(handler_type, type):
            raise ValueError(
                f"The `handler_type` must be a type, but got {handler_type}."
            )
        if checkpointable_name:
            if self.has(checkpointable_name):
                raise AlreadyExistsError(
                    f"Entry for checkpointable_name={checkpointable_name} "
                    "already exists in the registry."
                )
        elif any(handler is handler_type for handler, _ in self._entries):
            raise AlreadyExistsError(
                f"Handler type {handler_type} already exists in the registry."
            )
        self._entries.append((handler_type, checkpointable_name))
        if secondary_typestrs is not None:
            self._secondary[handler_type] = secondary_typestrs
        return self

    def get(self, checkpointable_name: str) -> HandlerType:
        for handler, name in self.get_all_entries():
            if name == checkpointable_name:
                return handler
        raise NoEntryError(
            f"No entry for checkpointable_name={checkpointable_name} in the "
            "registry."
        )

    def has(self, checkpointable_name: str) -> bool:
        names = [name for _, name in self.get_all_entries()]
        return checkpointable_name in names

    def get_all_entries(self) -> Sequence[Entry]:
        return self._entries

    def get_secondary_typestrs(
        self, handler_type: HandlerType
    ) -> Sequence[str]:
        return self._secondary.get(handler_type, [])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.get_all_entries()})"


class ReadOnlyRegistry(_DefaultCheckpointableHandlerRegistry):
    """A read-only view of a registry."""

    def __init__(self, registry: CheckpointableHandlerRegistry) -> None:
        self._registry = registry

    def add(
        self,
        handler_type: HandlerType,
        *,
        checkpointable_name: str | None = None,
        secondary_typestrs: Sequence[str] | None = None,
    ) -> CheckpointableHandlerRegistry:
        """Always raises.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(
            "Adding not implemented for read-only registry."
        )

    def get_all_entries(self) -> Sequence[Entry]:
        return self._registry.get_all_entries()

    def get_secondary_typestrs(
        self, handler_type: HandlerType
    ) -> Sequence[str]:
        return self._registry.get_secondary_typestrs(handler_type)


_GLOBAL_REGISTRY = _DefaultCheckpointableHandlerRegistry()


def global_registry() -> CheckpointableHandlerRegistry:
    """Returns the registry that contexts start from."""
    return _GLOBAL_REGISTRY


def local_registry(
    other_registry: CheckpointableHandlerRegistry | None = None,
    *,
    include_global_registry: bool = True,
) -> CheckpointableHandlerRegistry:
    """Returns a new registry, for `Context().checkpointables.registry`.

    Args:
        other_registry: a registry whose entries are added.
        include_global_registry: start with the global registry's entries.
    """
    registry = _DefaultCheckpointableHandlerRegistry(
        _GLOBAL_REGISTRY if include_global_registry else None
    )
    if other_registry is not None:
        registry._add_all(other_registry)
    return registry


def register_handler(
    cls: T,
    *,
    checkpointable_name: str | None = None,
    secondary_typestrs: Sequence[str] | None = None,
) -> T:
    """Adds a handler to the global registry; may be used as a decorator."""
    _GLOBAL_REGISTRY.add(
        cls,
        checkpointable_name=checkpointable_name,
        secondary_typestrs=secondary_typestrs,
    )
    return cls


def _make(name: str | None, handler_type: HandlerType) -> Any:
    try:
        return handler_type()
    except TypeError as error:
        raise ValueError(
            "The :py:class:`~.v1.handlers.CheckpointableHandler` resolved for "
            f"checkpointable={name} could not be default-constructed. Please "
            "ensure the object is default-constructible or provide a concrete "
            "instance."
        ) from error


def _last_that_fits(
    registry: CheckpointableHandlerRegistry, fits: Callable[[Any], Any]
) -> Any | None:
    """Returns the last handler without a name for which `fits` is true."""
    for handler_type, name in reversed(registry.get_all_entries()):
        if name is None:
            handler = _make(None, handler_type)
            if fits(handler):
                return handler
    return None


def resolve_for_save(
    registry: CheckpointableHandlerRegistry, checkpointable: Any, name: str
) -> Any:
    """Returns the handler that saves a checkpointable.

    Raises:
        ValueError: the checkpointable is None.
        NoEntryError: no handler accepts the checkpointable.
    """
    if checkpointable is None:
        raise ValueError("checkpointable must not be None for saving.")

    def fits(handler: Any) -> bool:
        return bool(handler.is_handleable(checkpointable))

    if isinstance(checkpointable, StatefulCheckpointable):
        handler = _last_that_fits(registry, fits)
        if handler is not None:
            return handler
    if registry.has(name):
        return _make(name, registry.get(name))
    handler = _last_that_fits(registry, fits)
    if handler is not None:
        return handler
    available = [handler_type for handler_type, _ in registry.get_all_entries()]
    raise NoEntryError(
        "Could not identify a valid handler for the checkpointable: "
        f'"{name}" and checkpointable type={type(checkpointable)}. Make sure '
        "to register a `CheckpointableHandler` for the object using "
        "`register_handler`, or by specifying a local registry "
        "(`CheckpointablesOptions`). If a handler is already registered, "
        "ensure that `is_handleable` correctly identifies the object as "
        f"handleable. The available handlers are: {available}"
    )


def _by_typestr(
    registry: CheckpointableHandlerRegistry, recorded: str | None
) -> Any | None:
    """Returns the last handler that can load what the recorded handler saved.

    Only a handler with that name, or one that lists the name among its
    secondary type strings, can do so.
    """
    if not recorded:
        return None
    for handler_type, name in reversed(registry.get_all_entries()):
        secondary = registry.get_secondary_typestrs(handler_type)
        if recorded == recorded_name(handler_type) or recorded in secondary:
            return _make(name, handler_type)
    log.warning(
        "No handler found for typestr %s. The checkpointable may be restored "
        "with different handler logic than was used for saving.",
        recorded,
    )
    return None


def _resolve_for_load(
    registry: CheckpointableHandlerRegistry,
    abstract: Any | None,
    name: str,
    recorded: str | None,
) -> Any | None:
    def fits(handler: Any) -> bool:
        return abstract is None or handler.is_abstract_handleable(abstract)

    named = _make(name, registry.get(name)) if registry.has(name) else None
    by_typestr = _by_typestr(registry, recorded)
    choices = [named, by_typestr]
    if isinstance(abstract, StatefulCheckpointable):
        choices = [by_typestr, named]
    for handler in choices:
        if handler is not None and fits(handler):
            return handler
    if abstract is not None:
        handler = _last_that_fits(registry, fits)
        if handler is not None:
            return handler
    return named


def resolve_for_load(
    registry: CheckpointableHandlerRegistry,
    abstract: Any | None,
    name: str,
    recorded: str | None,
    fallback_name: str,
) -> Any:
    """Returns the handler that loads a checkpointable.

    Args:
        registry: the registry to search.
        abstract: the caller's abstract value, or None.
        name: the checkpointable's name.
        recorded: the name of the handler that saved the checkpointable, if
            known.
        fallback_name: if no handler matches, use the handler reserved for this
            name.

    Raises:
        NoEntryError: no handler matches or is reserved for `fallback_name`.
    """
    handler = _resolve_for_load(registry, abstract, name, recorded)
    if handler is None and registry.has(fallback_name):
        handler = _make(fallback_name, registry.get(fallback_name))
    if handler is None:
        raise NoEntryError(
            f"Could not resolve a handler for '{name}' and no "
            f"'{fallback_name}' handler found in {registry}). Please inspect "
            "the checkpoint contents via `loading.checkpointables_metadata`. "
            "You may need to provide an abstract_checkpointable or register a "
            f"missing handler for this name or for '{fallback_name}' name "
            "which is used as a fallback."
        )
    return handler
