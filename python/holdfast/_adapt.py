"""The `adapt` hook of the engine's `build_tree`, for objects that the engine
does not know.

It converts jax.Arrays, typed PRNG keys, torch tensors, lazily opened arrays and
containers of any kind to ArrayLeaf, Node or plain objects.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from holdfast import _dtensor, _engine, _torch_arrays, errors
from holdfast._lazy import importing
from holdfast._process_group import ProcessGroup
from holdfast._pytree import jax_if_imported, joined, one_level

__all__ = ["adapt", "make_adapt"]

Adapt = Callable[[Any, tuple[Any, ...]], Any]


def make_adapt(
    group: ProcessGroup | None = None,
    *,
    all_write: bool = False,
    **jax_options: Any,
) -> Adapt:
    """Returns an `adapt` for trees that the processes of `group` save together
    (None means only this process). `adapt` passes `jax_options` to
    `_jax_arrays.array_leaf`.

    With `all_write`, each process writes a share of the arrays that all of them
    hold; otherwise rank 0 writes these arrays.
    """
    return functools.partial(_adapt, jax_options, group, all_write)


def adapt(value: Any, path: tuple[Any, ...]) -> Any:
    """Converts `value` to an object that the engine can save.

    Raises InvalidArgumentError, naming the leaf at `path`, if that is
    impossible.
    """
    return _adapt({}, None, False, value, path)


def _adapt(
    jax_options: dict[str, Any],
    group: ProcessGroup | None,
    all_write: bool,
    value: Any,
    path: tuple[Any, ...],
) -> Any:
    jax = jax_if_imported()
    if jax is not None and isinstance(value, jax.Array):
        return _of_jax(value, path, group, jax_options)
    if _dtensor.is_dtensor(value):
        return _of_dtensor(value, path, group)
    if _torch_arrays.is_tensor(value):
        array = _torch_arrays.as_numpy(value, joined(path))
        return _engine.ArrayLeaf(
            array.shape,
            [((0,) * array.ndim, array)],
            kind="numpy",
            # A tensor from another device is already a copy. If only rank 0
            # writes these leaves, other ranks need no copy.
            immutable=value.device.type != "cpu"
            or (group is not None and group.rank != 0 and not all_write),
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


def _of_dtensor(
    value: Any, path: tuple[Any, ...], group: ProcessGroup | None
) -> Any:
    ranks = _dtensor.mesh_ranks(value)
    members = None if group is None else group.torch_ranks
    is_whole_here = len(ranks) == 1 and group is None
    if not is_whole_here and (members is None or not members >= set(ranks)):
        who = "only this process" if group is None else str(group)
        raise errors.InvalidArgumentError(
            f"leaf {joined(path)!r}: the DTensor is spread over ranks {ranks}"
            f" of torch.distributed, and {who} saves; call save in all of them,"
            ' with group="auto" or "torch"'
        )
    return _dtensor.array_leaf(value, joined(path))


def _of_jax(
    value: Any,
    path: tuple[Any, ...],
    group: ProcessGroup | None,
    options: dict[str, Any],
) -> Any:
    with importing:
        from holdfast import _jax_arrays

    if not _jax_arrays.is_array(value):
        raise errors.InvalidArgumentError(
            f"leaf {joined(path)!r}: a traced value has no elements yet; save"
            " outside of jit, grad and vmap"
        )
    if group is not None:
        if value.is_fully_addressable:
            # Only this process holds the array, so rank 0 writes its own copy.
            return _jax_arrays.whole_leaf(value, path)
        options = {**options, "own_part_only": True}
    return _jax_arrays.array_leaf(value, path, **options)


def _of_level(value: Any, level: Any) -> Any:
    if not level.children:
        # Orbax records an empty container as the closest plain type.
        if level.kind == "dict":
            return {}
        if level.kind == "sequence":
            return [] if isinstance(value, list) else ()
    if level.kind == "sequence":
        return _engine.Node("sequence", [], level.children)
    return _engine.Node("attributes", level.keys, level.children)


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
