"""The `adapt` hook of the engine's `build_tree`: objects that it does not know.

jax.Array, typed PRNG keys, torch tensors, lazily opened arrays, and containers
of any kind become ArrayLeaf, Node or plain objects.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from holdfast import _engine, _torch_arrays, errors
from holdfast._pytree import jax_if_imported, joined, one_level

__all__ = ["adapt", "make_adapt"]

Adapt = Callable[[Any, tuple[Any, ...]], Any]


def make_adapt(**jax_options: Any) -> Adapt:
    """An `adapt` that passes these options to `_jax_arrays.array_leaf`."""
    return functools.partial(_adapt, jax_options)


def adapt(value: Any, path: tuple[Any, ...]) -> Any:
    """`value` as something that the engine can save.

    Raises InvalidArgumentError, naming the leaf at `path`, for what it cannot.
    """
    return _adapt({}, value, path)


def _adapt(
    jax_options: dict[str, Any], value: Any, path: tuple[Any, ...]
) -> Any:
    jax = jax_if_imported()
    if jax is not None and isinstance(value, jax.Array):
        return _of_jax(value, path, jax_options)
    if _torch_arrays.is_tensor(value):
        array = _torch_arrays.as_numpy(value, joined(path))
        return _engine.ArrayLeaf(
            array.shape,
            [((0,) * array.ndim, array)],
            kind="numpy",
            immutable=False,
        )
    try:
        level = one_level(value)
    except errors.InvalidArgumentError as error:
        raise _named(error, path) from error
    if level is not None:
        return _of_level(value, level)
    if getattr(type(value), "_is_holdfast_stored_array", False):
        return value[...]
    raise errors.InvalidArgumentError(_refusal(value, path))


def _of_jax(value: Any, path: tuple[Any, ...], options: dict[str, Any]) -> Any:
    from holdfast import _jax_arrays

    if not _jax_arrays.is_array(value):
        raise errors.InvalidArgumentError(
            f"leaf {joined(path)!r}: a traced value has no elements yet; save"
            " outside of jit, grad and vmap"
        )
    return _jax_arrays.array_leaf(value, joined(path), **options)


def _of_level(value: Any, level: Any) -> Any:
    if not level.children:
        # As Orbax records empties: by what they resemble.
        if level.kind == "dict":
            return {}
        if level.kind == "sequence":
            return [] if isinstance(value, list) else ()
    if level.kind == "sequence":
        return _engine.Node("sequence", [], level.children)
    cls = type(value)
    return _engine.Node(
        "attributes",
        level.keys,
        level.children,
        cls.__module__,
        cls.__qualname__,
    )


def _named(
    error: errors.InvalidArgumentError, path: tuple[Any, ...]
) -> errors.InvalidArgumentError:
    return errors.InvalidArgumentError(f'{error} (leaf "{joined(path)}")')


def _refusal(value: Any, path: tuple[Any, ...]) -> str:
    cls = type(value)
    what = f"{cls.__module__}.{cls.__qualname__}"
    hint = ""
    if isinstance(value, (set, frozenset)):
        hint = "; a set has no order, save a sorted list"
    elif hasattr(value, "shape") and hasattr(value, "dtype"):
        hint = "; it has a shape and a dtype but no elements that are known"
    elif isinstance(value, type):
        what = f"the class {value.__qualname__} itself"
    return (
        f"leaf {joined(path)!r}: cannot save {what}; want numpy, jax or torch"
        " arrays, numbers, strings, None, or containers of them" + hint
    )
