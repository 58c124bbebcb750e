"""The `adapt` hook of the engine's `build_tree`, for objects that the engine
does not know.

It converts jax.Arrays, typed PRNG keys, torch tensors, lazily opened arrays and
containers of any kind to ArrayLeaf, Node or plain objects.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from holdfast import (
    _device_arrays,
    _dtensor,
    _engine,
    _torch_arrays,
    errors,
)
from holdfast._lazy import importing
from holdfast._process_group import ProcessGroup
from holdfast._pytree import jax_if_imported, joined, one_level
from holdfast._snapshots import Snapshots

__all__ = ["adapt", "host_adapt", "make_adapt"]

Adapt = Callable[[Any, tuple[Any, ...]], Any]


def make_adapt(
    group: ProcessGroup | None = None,
    *,
    all_write: bool = False,
    snapshots: Snapshots | None = None,
    **jax_options: Any,
) -> Adapt:
    """Returns an `adapt` for trees that the processes of `group` save together
    (None means only this process). `adapt` passes `jax_options` to
    `_jax_arrays.array_leaf`.

    With `all_write`, each process writes a share of the arrays that all of them
    hold; otherwise rank 0 writes these arrays. A save in the background needs
    `snapshots`.
    """
    return _Adapter(group, all_write, snapshots, jax_options)


@dataclasses.dataclass(frozen=True)
class _Adapter:
    group: ProcessGroup | None = None
    all_write: bool = False
    snapshots: Snapshots | None = None
    jax_options: dict[str, Any] = dataclasses.field(default_factory=dict)
    # If False, elements on devices are copied to the host at once.
    takes_devices: bool = True

    def __call__(self, value: Any, path: tuple[Any, ...]) -> Any:
        """Converts `value` to an object that the engine can save.

        Raises InvalidArgumentError, naming the leaf at `path`, if that is
        impossible.
        """
        jax = jax_if_imported()
        if jax is not None and isinstance(value, jax.Array):
            return self._of_jax(value, path)
        if _dtensor.is_dtensor(value):
            return self._of_dtensor(value, path)
        if _torch_arrays.is_tensor(value):
            return self._of_tensor(value, path)
        if _device_arrays.has_interface(value):
            return self._of_interface(value, path)
        try:
            level = one_level(value)
        except errors.InvalidArgumentError as error:
            raise _named(error, path) from error
        if level is not None:
            return _of_level(value, level)
        if getattr(type(value), "_is_holdfast_stored_array", False):
            return value[...]
        raise errors.InvalidArgumentError(_refusal(value, path))

    def _of_tensor(self, value: Any, path: tuple[Any, ...]) -> Any:
        name = joined(path)
        # If only rank 0 writes these leaves, other ranks need no copy.
        if self.group is not None and self.group.rank != 0:
            is_read = self.all_write
        else:
            is_read = True
        elements, is_constant = self._elements_of(value, name, is_read)
        shape = tuple(value.shape)
        return _engine.ArrayLeaf(
            shape,
            [((0,) * len(shape), elements)],
            kind="numpy",
            immutable=is_constant or not is_read,
        )

    def _of_dtensor(self, value: Any, path: tuple[Any, ...]) -> Any:
        ranks = _dtensor.mesh_ranks(value)
        group = self.group
        members = None if group is None else group.torch_ranks
        is_whole_here = len(ranks) == 1 and group is None
        if not is_whole_here and (members is None or not members >= set(ranks)):
            who = "only this process" if group is None else str(group)
            raise errors.InvalidArgumentError(
                f"leaf {joined(path)!r}: the DTensor is spread over ranks"
                f" {ranks} of torch.distributed, and {who} saves; call save in"
                ' all of them, with group="auto" or "torch"'
            )
        return _dtensor.array_leaf(
            value, joined(path), elements_of=self._elements_of
        )

    def _elements_of(
        self, tensor: Any, name: str, is_read: bool = True
    ) -> tuple[Any, bool]:
        """Returns a tensor's elements, on the host or on a device, and whether
        the program cannot change them."""
        if self.takes_devices and _device_arrays.can_describe(tensor):
            tensor = _torch_arrays.dense(tensor, name)
            is_constant = False
            if is_read and self.snapshots is not None:
                tensor, is_constant = self.snapshots.of_tensor(tensor, name)
            return _device_arrays.of_tensor(tensor, name), is_constant
        return _torch_arrays.on_host(tensor, name)

    def _of_jax(self, value: Any, path: tuple[Any, ...]) -> Any:
        with importing:
            from holdfast import _jax_arrays

        if not _jax_arrays.is_array(value):
            raise errors.InvalidArgumentError(
                f"leaf {joined(path)!r}: a traced value has no elements yet;"
                " save outside of jit, grad and vmap"
            )
        options = {"takes_devices": self.takes_devices}
        if self.snapshots is not None:
            value, options["immutable"] = self.snapshots.of_jax(value)
        if self.group is None:
            return _jax_arrays.array_leaf(
                value, path, **options, **self.jax_options
            )
        if value.is_fully_addressable:
            # Only this process holds the array, so rank 0 writes its own copy.
            return _jax_arrays.whole_leaf(value, path, **options)
        options = {**options, **self.jax_options, "own_part_only": True}
        return _jax_arrays.array_leaf(value, path, **options)

    def _of_interface(self, value: Any, path: tuple[Any, ...]) -> Any:
        array = _device_arrays.of_interface(value, joined(path))
        return _engine.ArrayLeaf(
            array.shape,
            [((0,) * len(array.shape), array)],
            kind="numpy",
            immutable=False,
        )


adapt: Adapt = _Adapter()
# Like `adapt`, for calls that need all elements in host memory.
host_adapt: Adapt = _Adapter(takes_devices=False)


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
