"""Handlers' argument classes, and the registry that maps them to handlers."""

from __future__ import annotations

import abc
import dataclasses
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from holdfast.orbax._compat.orbax_classes import (
    derives_from,
    orbax_args_registry,
    stands_for_orbaxs,
)
from holdfast.orbax._handlers.base import CheckpointHandler


@stands_for_orbaxs
@dataclasses.dataclass
class CheckpointArgs(metaclass=abc.ABCMeta):  # noqa: B024
    """Base of all argument classes; subclasses are dataclasses.

    Subclasses of Orbax's class of the same name count as subclasses.
    """


def given_args(kind: type, args: Any | None, item: Any, *rest: Any) -> Any:
    """Returns a call's arguments, given either as `args=` or one by one.

    Raises:
        ValueError: `item` is an arguments object.
    """
    if isinstance(item, CheckpointArgs):
        raise ValueError(
            "Make sure to specify kwarg name `args=` when providing"
            f" `{kind.__name__}`."
        )
    return args or kind(item, *rest)


_HandlerType = type[Any]
_ArgsT = TypeVar("_ArgsT", bound=CheckpointArgs)

_handler_of_save_args: dict[type[CheckpointArgs], _HandlerType] = {}
_handler_of_restore_args: dict[type[CheckpointArgs], _HandlerType] = {}
_handler_of_typestr: dict[str, _HandlerType] = {}
_fillers: list[Callable[[], object]] = []


def register_with_handler(
    handler_cls: _HandlerType,
    for_save: bool = False,
    for_restore: bool = False,
) -> Callable[[type[_ArgsT]], type[_ArgsT]]:
    """Class decorator that registers an argument class with its handler.

    Args:
        handler_cls: the handler's class.
        for_save: the class holds arguments of `save`.
        for_restore: the class holds arguments of `restore`.

    Raises:
        ValueError: neither flag is set, or another handler has the same type
            string.
        TypeError: the class does not derive from CheckpointArgs.
    """
    if not for_save and not for_restore:
        raise ValueError("`for_save` and `for_restore` cannot both be False.")

    def register(cls: type[_ArgsT]) -> type[_ArgsT]:
        if not issubclass(cls, CheckpointArgs):
            raise TypeError(
                f"{cls} must subclass `CheckpointArgs` in order to be"
                " registered."
            )
        if for_save:
            _handler_of_save_args[cls] = handler_cls
        if for_restore:
            _handler_of_restore_args[cls] = handler_cls
        _register_handler_type(handler_cls)
        return cls

    return register


def typestr_of(handler: CheckpointHandler | _HandlerType) -> str:
    """Returns the type string of a handler in `_CHECKPOINT_METADATA`."""
    cls: Any = handler if inspect.isclass(handler) else type(handler)
    try:
        return str(cls.typestr())
    except (AttributeError, NotImplementedError):
        return f"{cls.__module__}.{cls.__qualname__}"


def _register_handler_type(handler_cls: _HandlerType) -> None:
    typestr = typestr_of(handler_cls)
    known = _handler_of_typestr.get(typestr)
    # Reloading a module creates the same class again.
    same_name = known is None or (
        known.__module__ == handler_cls.__module__
        and known.__qualname__ == handler_cls.__qualname__
    )
    if not same_name:
        raise ValueError(
            f'Handler type string "{typestr}" already exists in the registry'
            f" with type {known}. Cannot add type {handler_cls}."
        )
    _handler_of_typestr[typestr] = handler_cls


def fill_registry_with(fill: Callable[[], object]) -> None:
    """Registers a function that is called before a lookup fails."""
    _fillers.append(fill)


def _register_all() -> None:
    """Adds the standard handlers whose modules are not imported yet, and those
    that libraries have registered with the real Orbax."""
    # Orbax's own handlers have the same type strings as ours; ours win.
    for fill in _fillers:
        fill()
    theirs = orbax_args_registry()
    if theirs is None:
        return
    for registered, ours in (
        (theirs._SAVE_ARG_TO_HANDLER, _handler_of_save_args),
        (theirs._RESTORE_ARG_TO_HANDLER, _handler_of_restore_args),
    ):
        for args_cls, handler_cls in registered.items():
            ours.setdefault(args_cls, handler_cls)
            typestr = typestr_of(handler_cls)
            _handler_of_typestr.setdefault(typestr, handler_cls)


def get_handler_type(typestr: str) -> _HandlerType:
    """Returns the handler class for a type string in `_CHECKPOINT_METADATA`.

    Raises:
        KeyError: no handler is registered for the type string.
    """
    if typestr not in _handler_of_typestr:
        _register_all()
    if typestr not in _handler_of_typestr:
        raise KeyError(
            f'Handler type string "{typestr}" not found in the registry.'
        )
    return _handler_of_typestr[typestr]


def get_registered_handler_cls(
    arg: CheckpointArgs | type[CheckpointArgs],
) -> _HandlerType:
    """Returns the handler class that arguments belong to.

    Raises:
        TypeError: `arg` is not a CheckpointArgs.
        ValueError: the argument class was never registered.
    """
    cls = arg if inspect.isclass(arg) else type(arg)
    if not issubclass(cls, CheckpointArgs):
        raise TypeError(f"{cls} must be a subclass of `CheckpointArgs`.")
    if derives_from(cls, CheckpointArgs.__name__) is True:
        _register_all()
    for registry in (_handler_of_save_args, _handler_of_restore_args):
        if cls in registry:
            return registry[cls]
    raise ValueError(
        f"Unable to find registered `CheckpointHandler` for {cls}. Use"
        " `register_with_handler`."
    )


def get_registered_args_cls(
    handler: CheckpointHandler | _HandlerType,
) -> tuple[type[CheckpointArgs], type[CheckpointArgs]]:
    """Returns a handler's argument classes for save and for restore.

    Raises:
        ValueError: one of the two classes was never registered.
    """
    cls = handler if inspect.isclass(handler) else type(handler)
    if derives_from(cls, CheckpointHandler.__name__) is True:
        _register_all()

    def find(
        registry: dict[type[CheckpointArgs], _HandlerType], purpose: str
    ) -> type[CheckpointArgs]:
        for args_cls, handler_cls in registry.items():
            if handler_cls == cls:
                return args_cls
        raise ValueError(
            "Unable to find registered `CheckpointArgs` for"
            f" {purpose} for {cls}."
        )

    return (
        find(_handler_of_save_args, "save"),
        find(_handler_of_restore_args, "restore"),
    )


def has_registered_args(handler: CheckpointHandler | _HandlerType) -> bool:
    """Returns whether both argument classes of a handler were registered."""
    try:
        get_registered_args_cls(handler)
    except ValueError:
        return False
    return True
