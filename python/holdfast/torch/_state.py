"""Saves a training state in one call, and restores it in place."""

from __future__ import annotations

import collections
import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, overload

import numpy as np
import torch

from holdfast import (
    _api,
    _dtensor,
    _dtypes,
    _engine,
    _target,
    _torch_arrays,
    errors,
)
from holdfast._api import MapArgument
from holdfast._future import Future
from holdfast._process_group import GroupArgument
from holdfast._progress import ProgressArgument
from holdfast._pytree import joined
from holdfast._stats import Stats
from holdfast.torch._state_objects import StateTree, is_object

__all__ = [
    "given_parts",
    "load",
    "put_back",
    "restore",
    "save",
    "states_of",
    "target_of",
]

PathLike = str | os.PathLike[str]
Path = tuple[Any, ...]

# The target for a Python object; its tensors become torch tensors.
_AN_OBJECT = _torch_arrays.an_object()


@overload
def save(
    path: PathLike,
    *,
    model: Any = ...,
    optimizer: Any = ...,
    scheduler: Any = ...,
    overwrite: bool = ...,
    background: Literal[False] = ...,
    progress: ProgressArgument = ...,
    group: GroupArgument = ...,
    timeout_seconds: float = ...,
    options: Mapping[str, Any] | None = ...,
    **parts: Any,
) -> Stats: ...


@overload
def save(
    path: PathLike,
    *,
    background: Literal[True],
    model: Any = ...,
    optimizer: Any = ...,
    scheduler: Any = ...,
    overwrite: bool = ...,
    progress: ProgressArgument = ...,
    group: GroupArgument = ...,
    timeout_seconds: float = ...,
    options: Mapping[str, Any] | None = ...,
    **parts: Any,
) -> Future[Stats]: ...


def save(
    path: PathLike,
    *,
    model: Any = None,
    optimizer: Any = None,
    scheduler: Any = None,
    overwrite: bool = False,
    background: bool = False,
    progress: ProgressArgument = False,
    group: GroupArgument = "auto",
    timeout_seconds: float = 600.0,
    options: Mapping[str, Any] | None = None,
    **parts: Any,
) -> Stats | Future[Stats]:
    """Writes a model, its optimizer and everything else in a training run as
    one checkpoint, which stock Orbax can also read.

    Each argument becomes an entry of the checkpoint under its own name: the
    result of its `state_dict()`, or the value itself if it has no
    `state_dict()`. A model in DistributedDataParallel or from torch.compile is
    saved as the module inside, so its names are those of the plain module. The
    parameters of `fully_shard` (FSDP2) and other DTensors are written in parts
    by all ranks; all ranks must then make this call.

    Args:
      path: the directory to create.
      model: a torch.nn.Module, or dicts and lists of modules.
      optimizer: a torch.optim.Optimizer, or dicts and lists of optimizers.
      scheduler: any object with a `state_dict()`.
      overwrite: replace what is at `path` once the new checkpoint is complete.
      background: copy the tensors, continue in a thread and return a Future;
        the next step may change the tensors immediately.
      progress: True for a bar, or f(phase, done_bytes, total_bytes).
      group: the processes that save together, as for `holdfast.save`; "auto"
        means all of `torch.distributed` if a tensor is a DTensor, and otherwise
        only this process.
      timeout_seconds: how long a rank waits for the others at each barrier.
      options: further arguments of `holdfast.save` (compression, chunk_bytes).
      **parts: other entries: a gradient scaler, a sampler or a data loader with
        a `state_dict()`; numbers, strings, tensors, and dicts and lists of
        them.

    Returns:
      What this process moved and how long it took; with `background`, a Future
      of these Stats.

    Raises:
      errors.InvalidArgumentError: there is nothing to save; a value cannot be
        saved (the error names it); a model is in FullyShardedDataParallel
        (FSDP1).
      errors.AlreadyExistsError: `path` exists and `overwrite` is False.
      errors.ResourceExhaustedError, errors.PermissionDeniedError: the disk is
        full, or the system refused access.
      errors.DeadlineExceededError: ranks did not arrive in time; the error
        names them.
    """
    given = given_parts(model, optimizer, scheduler, parts)
    return _api.save(  # type: ignore[call-overload,no-any-return]
        path,
        StateTree(states_of(given)),
        overwrite=overwrite,
        background=background,
        progress=progress,
        group=group,
        timeout_seconds=timeout_seconds,
        **(options or {}),
    )


def restore(
    path: PathLike,
    *,
    model: Any = None,
    optimizer: Any = None,
    scheduler: Any = None,
    strict: bool = True,
    verify: bool = True,
    progress: ProgressArgument = False,
    threads: int | None = None,
    memory_bytes: int | None = None,
    group: GroupArgument = "auto",
    timeout_seconds: float = 600.0,
    **parts: Any,
) -> dict[str, Any]:
    """Restores a checkpoint into the given objects, in place.

    The names are those of `save`. The checkpoint is compared with all objects
    before any element is read, and everything is read before an object is
    changed. For a model or an optimizer with DTensors (FSDP2), each rank reads
    its own part, whatever the number of ranks that saved. Parameters and
    buffers on the meta device become tensors on the CPU (a DTensor: on the
    device of its mesh); tied parameters stay tied. Non-persistent buffers are
    not in a checkpoint, and stay on the meta device. The optimizer does not
    need to have made a step, because its state comes from the checkpoint.

    Args:
      path: the checkpoint; a directory of steps means the newest step. It may
        have any format that `holdfast.load` reads, such as a torch.save file,
        if its tree has these names.
      model: a torch.nn.Module, or dicts and lists of modules, as saved.
      optimizer: a torch.optim.Optimizer over the same number of parameters in
        the same order.
      scheduler: any object with a `load_state_dict()`.
      strict: refuse leaves that are missing, unexpected, or of a different
        dtype. If False, leave missing leaves unchanged, ignore unexpected
        leaves, and cast. A different shape is always refused.
      verify: check the checksums of all bytes that are read.
      progress: True for a bar, or f(phase, done_bytes, total_bytes).
      threads: None means one per CPU.
      memory_bytes: the most bytes in flight between disk and memory; None means
        256 MiB.
      group: as for `holdfast.load`.
      timeout_seconds: how long a rank waits for the others at each barrier.
      **parts: the other entries, by name. An object with a `load_state_dict()`
        is restored in place; any other value is in the result.

    Returns:
      All entries that were not restored in place, by name, requested or not:
      numbers, strings, CPU tensors, and dicts and lists of them. A value given
      for an entry (`epoch=0`) determines the types of its containers.

    Raises:
      errors.InvalidArgumentError: (a ValueError) the checkpoint does not match
        the objects. The message lists, for all objects, every leaf that is
        missing, unexpected, or of a different shape or dtype. Nothing has been
        changed.
      errors.NotFoundError: there is no checkpoint at `path`.
      errors.DataLossError: bytes are damaged; the error names tensor, file and
        offset. Nothing has been changed.
    """
    given = given_parts(model, optimizer, scheduler, parts)
    checkpoint = _engine.Checkpoint(os.fspath(path), verify=verify)
    loaded = _api.load(
        path,
        target_of(checkpoint, given, strict=strict),
        cast=not strict,
        verify=verify,
        progress=progress,
        threads=threads,
        memory_bytes=memory_bytes,
        group=group,
        timeout_seconds=timeout_seconds,
    )
    return put_back(given, loaded, strict=strict)


def load(
    path: PathLike,
    *,
    select: Sequence[str] | str | None = None,
    device: Any = None,
    mmap: MapArgument = False,
    verify: bool | None = None,
    step: int | None = None,
    item: str | None = None,
) -> Any:
    """Loads the tree of a checkpoint with torch tensors, on the CPU or on
    `device`.

    This is `holdfast.load(path, arrays="torch")`, for any format, with its
    arguments and errors. `model.load_state_dict(load(path, mmap=True),
    assign=True)` serves a model from the page cache, and
    `model.load_state_dict(load(path, device="cuda:0"), assign=True)` from a
    GPU.
    """
    return _api.load(
        path,
        select=select,
        arrays="torch",
        device=device,
        mmap=mmap,
        verify=verify,
        step=step,
        item=item,
    )


def given_parts(
    model: Any, optimizer: Any, scheduler: Any, parts: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns the entries of a checkpoint by name."""
    own = {"model": model, "optimizer": optimizer, "scheduler": scheduler}
    return {
        **{name: part for name, part in own.items() if part is not None},
        **parts,
    }


def states_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the tree to save. Raises InvalidArgumentError if it is empty."""
    if not given:
        raise errors.InvalidArgumentError(
            "holdfast.torch.save: nothing to save; name a model, an optimizer"
            " or anything else"
        )
    return {name: _state_of(part) for name, part in given.items()}


def target_of(
    checkpoint: _engine.Checkpoint, given: Mapping[str, Any], *, strict: bool
) -> dict[str, Any]:
    """Returns the target of a load that restores the given objects.

    Raises InvalidArgumentError, listing everything that does not match.
    """
    return _Planner(checkpoint, strict=strict).target(given)


def put_back(
    given: Mapping[str, Any], loaded: Mapping[str, Any], *, strict: bool
) -> dict[str, Any]:
    """Restores objects in place; returns the other entries, by name."""
    rest = {}
    for name, value in loaded.items():
        part = given.get(name)
        if _holds_objects(part):
            _put(part, value, strict)
        else:
            rest[name] = _conformed(value, part)
    return rest


def _children(part: Any) -> list[tuple[Any, Any]] | None:
    """Returns the keys and values of a dict or list; None for other values."""
    if type(part) is dict:
        return list(part.items())
    if type(part) in (list, tuple):
        return list(enumerate(part))
    return None


def _has(part: Any, method: str) -> bool:
    return not isinstance(part, type) and callable(getattr(part, method, None))


def _holds_objects(part: Any) -> bool:
    """Returns whether `part` contains an object to restore in place."""
    children = _children(part)
    if children is None:
        return _has(part, "load_state_dict")
    return any(_holds_objects(child) for _, child in children)


def _state_of(part: Any) -> Any:
    if isinstance(part, torch.nn.Module):
        return _bare(part).state_dict()
    if _has(part, "state_dict"):
        return part.state_dict()
    if type(part) is dict:
        return {key: _state_of(child) for key, child in part.items()}
    if type(part) in (list, tuple):
        return type(part)(_state_of(child) for child in part)
    return part


def _bare(model: Any) -> Any:
    """Returns the module inside DistributedDataParallel or torch.compile.

    Raises InvalidArgumentError for FSDP1, where a state dict needs all ranks.
    """
    parallel = (
        torch.nn.parallel.DistributedDataParallel,
        torch.nn.DataParallel,
    )
    while True:
        if isinstance(model, parallel):
            model = model.module
        elif hasattr(model, "_orig_mod"):
            model = model._orig_mod
        else:
            break
    for module in model.modules():
        if type(module).__name__ == "FullyShardedDataParallel":
            raise errors.InvalidArgumentError(
                "holdfast.torch: a model in FullyShardedDataParallel (FSDP1);"
                " use fully_shard (FSDP2), or torch.distributed.checkpoint with"
                " holdfast.torch.StorageWriter and StorageReader"
            )
    return model


@dataclasses.dataclass
class _Mismatch:
    """Everything that does not match, by kind of problem."""

    missing: list[str] = dataclasses.field(default_factory=list)
    unexpected: list[str] = dataclasses.field(default_factory=list)
    different: list[str] = dataclasses.field(default_factory=list)
    shape: list[str] = dataclasses.field(default_factory=list)
    dtype: list[str] = dataclasses.field(default_factory=list)

    def message(self) -> str:
        kinds = (
            ("missing in the checkpoint", self.missing),
            ("unexpected in the checkpoint", self.unexpected),
            ("not the same kind of value", self.different),
            ("of another shape", self.shape),
            ("of another dtype (strict=False casts)", self.dtype),
        )
        return "".join(
            f"\n{what}:\n  " + "\n  ".join(names)
            for what, names in kinds
            if names
        )


class _Planner:
    """Makes the target of a load from the objects to restore."""

    def __init__(self, checkpoint: _engine.Checkpoint, *, strict: bool) -> None:
        self._checkpoint = checkpoint
        self._path = self._checkpoint.path
        self._leaves = self._checkpoint.leaves
        self._structure = self._checkpoint.structure()
        self._strict = strict
        self._mismatch = _Mismatch()

    def target(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the target.

        Raises InvalidArgumentError, listing everything that does not match."""
        if not isinstance(self._structure, dict):
            raise errors.InvalidArgumentError(
                f"{self._path}: its root is not a dict, want one like"
                " holdfast.torch.save's"
            )
        made = {
            name: (
                self._of(given[name], stored, (name,))
                if name in given
                else self._like(stored)
            )
            for name, stored in self._structure.items()
        }
        for name in given:
            if name not in made:
                self._miss((name,))
        if message := self._mismatch.message():
            raise errors.InvalidArgumentError(
                f"{self._path}: it does not fit what is to be restored"
                + message
            )
        return made

    def _miss(self, path: Path) -> None:
        if self._strict:
            self._mismatch.missing.append(joined(path))

    def _leave_out(self, path: Path, stored: Any) -> Any:
        if self._strict:
            self._mismatch.unexpected.extend(self._names(stored, path))
        return ...

    def _differ(self, path: Path, stored: str, here: str) -> Any:
        self._mismatch.different.append(
            f"{joined(path)} ({stored} in the checkpoint, {here} here)"
        )
        return ...

    def _of(self, part: Any, stored: Any, path: Path) -> Any:
        if isinstance(part, torch.nn.Module):
            return self._of_model(_bare(part), stored, path)
        if hasattr(part, "param_groups") and _has(part, "load_state_dict"):
            return self._of_optimizer(part, stored, path)
        children = _children(part)
        if children is None or not _holds_objects(part):
            return self._like(stored)
        return self._of_container(dict(children), stored, path)

    def _of_container(
        self, children: dict[Any, Any], stored: Any, path: Path
    ) -> Any:
        if not isinstance(stored, (dict, list)):
            return self._differ(path, "a value", "a container")
        made = {
            key: (
                self._of(children[key], child, (*path, key))
                if key in children
                else self._leave_out((*path, key), child)
            )
            for key, child in _items(stored)
        }
        for key in children:
            if key not in made:
                self._miss((*path, key))
        return list(made.values()) if isinstance(stored, list) else made

    def _of_model(self, model: Any, stored: Any, path: Path) -> Any:
        if not isinstance(stored, dict):
            return self._differ(path, "a value", "a model")
        own = model.state_dict()
        made: dict[str, Any] = {}
        for name, child in stored.items():
            below = (*path, name)
            if name not in own:
                made[name] = self._leave_out(below, child)
            elif name.rpartition(".")[2] == "_extra_state":
                made[name] = self._like(child)  # may have any shape
            elif isinstance(own[name], torch.Tensor):
                made[name] = self._of_tensor(own[name], child, below)
            else:
                made[name] = self._like(child)
        for name in own:
            if name not in made:
                self._miss((*path, name))
        return made

    def _of_tensor(self, tensor: Any, stored: Any, path: Path) -> Any:
        info = self._array(stored)
        if info is None and is_object(tensor):
            return self._of_empty(tensor, stored, path)
        if info is None:
            return self._differ(path, "no array", "a tensor")
        self._check_shape(info.shape, tensor.shape, path)
        self._check_dtype(info.dtype, _torch_arrays.dtype_name(tensor), path)
        return tensor

    def _of_empty(self, tensor: Any, stored: Any, path: Path) -> Any:
        """Plans the read of a tensor without elements, stored as an object."""
        there = self._object(stored) if type(stored) is int else None
        if not isinstance(there, torch.Tensor):
            return self._differ(path, "no empty tensor", "an empty tensor")
        self._check_shape(there.shape, tensor.shape, path)
        dtype = _torch_arrays.dtype_name(there)
        self._check_dtype(dtype, _torch_arrays.dtype_name(tensor), path)
        return _AN_OBJECT

    def _of_optimizer(self, optimizer: Any, stored: Any, path: Path) -> Any:
        if not isinstance(stored, dict) or "param_groups" not in stored:
            return self._differ(path, "other values", "an optimizer")
        parameters = [
            each for group in optimizer.param_groups for each in group["params"]
        ]
        if any(each.is_meta for each in parameters):
            raise errors.InvalidArgumentError(
                f"{joined(path)}: the optimizer's parameters are on the meta"
                " device; restore the model first, then make the optimizer"
                " from the model's new parameters"
            )
        self._check_groups(optimizer, stored["param_groups"], path)
        made = {name: self._like(child) for name, child in stored.items()}
        made["state"] = {
            number: self._of_moments(
                optimizer, parameters, number, entries, (*path, "state", number)
            )
            for number, entries in map(_numbered, _items(stored.get("state")))
        }
        return made

    def _of_moments(
        self,
        optimizer: Any,
        parameters: list[Any],
        number: Any,
        stored: Any,
        path: Path,
    ) -> Any:
        """Plans the state that an optimizer stores for a parameter or any other
        key."""
        if not isinstance(number, int) or not isinstance(stored, dict):
            return self._like(stored)
        if number >= len(parameters):
            return self._leave_out(path, stored)
        return {
            name: self._of_moment(
                optimizer, parameters[number], name, child, (*path, name)
            )
            for name, child in stored.items()
        }

    def _check_groups(self, optimizer: Any, stored: Any, path: Path) -> None:
        where = (*path, "param_groups")
        count = len(stored) if isinstance(stored, list) else 0
        if count != len(optimizer.param_groups):
            self._differ(
                where, f"{count} groups", f"{len(optimizer.param_groups)}"
            )
            return
        for i, (own, group) in enumerate(
            zip(optimizer.param_groups, stored, strict=True)
        ):
            numbers = group.get("params") if isinstance(group, dict) else None
            if type(numbers) is int:
                # torch's own storage stores this list as an object.
                numbers = self._object(numbers)
            count = len(numbers) if isinstance(numbers, list) else 0
            if count != len(own["params"]):
                self._differ(
                    (*where, i),
                    f"{count} parameters",
                    f"{len(own['params'])}",
                )

    def _of_moment(
        self, optimizer: Any, parameter: Any, name: str, stored: Any, path: Path
    ) -> Any:
        info = self._array(stored)
        if info is None:
            return self._like(stored)
        own = optimizer.state.get(parameter, {}).get(name)
        if isinstance(own, torch.Tensor):
            self._check_shape(info.shape, own.shape, path)
        elif type(optimizer).__module__.startswith("torch.optim."):
            # A moment has the parameter's shape, or is reduced along some axes.
            shape = tuple(parameter.shape)
            is_summed = len(info.shape) == len(shape) and all(
                extent in (1, whole)
                for extent, whole in zip(info.shape, shape, strict=False)
            )
            if info.shape and not is_summed:
                self._check_shape(info.shape, shape, path)
        is_spread = _dtensor.is_dtensor(parameter)
        if is_spread and info.shape == tuple(parameter.shape):
            return _spread_like(parameter, info.dtype or "")
        return self._like(stored)

    def _check_shape(
        self, stored: Sequence[int], here: Sequence[int], path: Path
    ) -> None:
        if tuple(stored) != tuple(here):
            self._mismatch.shape.append(
                f"{joined(path)} ({tuple(stored)} in the checkpoint,"
                f" {tuple(here)} here)"
            )

    def _check_dtype(self, stored: str | None, here: str, path: Path) -> None:
        if self._strict and stored != here:
            self._mismatch.dtype.append(
                f"{joined(path)} ({stored} in the checkpoint, {here} here)"
            )

    def _array(self, stored: Any) -> _engine.LeafInfo | None:
        info = self._leaves[stored] if type(stored) is int else None
        return info if info is not None and info.kind == "array" else None

    def _object(self, leaf: int) -> Any:
        if self._leaves[leaf].kind != "object":
            return None
        return _engine.read_torch_file(
            self._checkpoint.read(leaf), _torch_arrays.tensor_on
        )

    def _like(self, stored: Any) -> Any:
        """Returns a target that accepts the stored value."""
        return _target.like(self._leaves, stored, _target_of_array, _AN_OBJECT)

    def _names(self, stored: Any, path: Path) -> Iterator[str]:
        children = list(_items(stored))
        if not children:
            yield joined(path)
        for key, child in children:
            yield from self._names(child, (*path, key))


def _target_of_array(info: _engine.LeafInfo) -> Any:
    dtype = getattr(torch, info.dtype or "", None)
    if isinstance(dtype, torch.dtype):
        return torch.empty(info.shape, dtype=dtype, device="meta")
    element = np.empty((), _dtypes.numpy_dtype(info.dtype or "", info.name))
    return np.broadcast_to(element, info.shape)


def _items(stored: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(stored, dict):
        yield from stored.items()
    elif isinstance(stored, list):
        yield from enumerate(stored)


def _numbered(item: tuple[Any, Any]) -> tuple[Any, Any]:
    """Converts a numeric string key to an int: torch.distributed.checkpoint
    stores parameter indices as strings, which optimizers do not accept."""
    key, value = item
    is_number = isinstance(key, str) and key.isdecimal()
    return (int(key) if is_number else key), value


def _spread_like(parameter: Any, dtype: str) -> Any:
    """Returns an empty DTensor, sharded and placed like `parameter`."""
    local = parameter.to_local()
    return type(parameter).from_local(
        torch.empty(local.shape, dtype=getattr(torch, dtype), device="meta"),
        parameter.device_mesh,
        parameter.placements,
        run_check=False,
        shape=parameter.shape,
        stride=parameter.stride(),
    )


def _put(part: Any, value: Any, strict: bool) -> None:
    """Restores the objects in `part` in place."""
    children = _children(part)
    if children is not None:
        for key, child in children:
            has_one = isinstance(value, list) or key in value
            if has_one and _holds_objects(child) and value[key] is not ...:
                _put(child, value[key], strict)
    elif isinstance(part, torch.nn.Module):
        _put_model(_bare(part), value, strict)
    elif hasattr(part, "param_groups"):
        state = {k: v for k, v in value["state"].items() if v is not ...}
        own = part.state_dict()["param_groups"]
        groups = _conformed(value["param_groups"], own)
        part.load_state_dict({**value, "state": state, "param_groups": groups})
    else:
        own = part.state_dict() if _has(part, "state_dict") else None
        part.load_state_dict(_conformed(value, own))


def _put_model(model: Any, value: dict[str, Any], strict: bool) -> None:
    state = {name: each for name, each in value.items() if each is not ...}
    own = model.state_dict(keep_vars=True)
    is_meta = any(
        isinstance(each, torch.Tensor) and each.is_meta for each in own.values()
    )
    if is_meta:
        # A parameter with several names must become one object again.
        made: dict[int, Any] = {}
        for name, each in own.items():
            if name in state and isinstance(each, torch.nn.Parameter):
                state[name] = made.setdefault(
                    id(each),
                    torch.nn.Parameter(state[name], each.requires_grad),
                )
    model.load_state_dict(state, strict=strict, assign=is_meta)


def _conformed(value: Any, like: Any) -> Any:
    """Returns `value` with the container types of `like`. A load without a
    target returns plain dicts, and lists for tuples."""
    if isinstance(value, (list, tuple)) and isinstance(like, (list, tuple)):
        items = [
            _conformed(each, like[i] if i < len(like) else None)
            for i, each in enumerate(value)
        ]
        return tuple(items) if isinstance(like, tuple) else items
    if isinstance(value, dict) and isinstance(like, Mapping):
        pairs = {
            key: _conformed(each, like.get(key)) for key, each in value.items()
        }
        if isinstance(like, (collections.Counter, collections.OrderedDict)):
            return type(like)(pairs)
        return pairs
    return value
