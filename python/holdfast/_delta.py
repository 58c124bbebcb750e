"""Deltas in memory: the changes that a step makes, and arrays that follow a
run."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from holdfast import _engine, _torch_arrays, errors
from holdfast._lazy import importing
from holdfast._progress import ProgressArgument, reporting
from holdfast._pytree import jax_if_imported, joined, one_level
from holdfast._results import ArrayPatch, FollowerUpdate
from holdfast._run_options import run_options

__all__ = ["DeltaPolicy", "Follower", "patches"]

NumpyArray = np.ndarray[Any, np.dtype[Any]]
PathLike = str | os.PathLike[str]



@dataclasses.dataclass(frozen=True)
class DeltaPolicy:
    """Decides which steps of a run are full steps and which are deltas.

    Attributes:
      anchor_every: one of this many steps is a full step; the others are deltas
        relative to the newest step before them.

    Raises:
      InvalidArgumentError: `anchor_every` is not 1 or more.
    """

    anchor_every: int = 16

    def __post_init__(self) -> None:
        if self.anchor_every < 1:
            raise errors.InvalidArgumentError(
                f"anchor_every: got {self.anchor_every}, want 1 or more"
            )


def patches(
    path: PathLike,
    *,
    progress: ProgressArgument = False,
    threads: int | None = None,
    memory_bytes: int | None = None,
) -> list[ArrayPatch]:
    """Returns the changes that the delta at `path` makes, for inference engines
    that accept patches.

    Everything is checked as in a load. Unchanged arrays are left out. If the
    base does not have an array, its patch contains all elements.

    Args:
      path: the delta.
      progress, threads, memory_bytes: as for `convert`.

    Raises:
      errors.FailedPreconditionError: `path` is not a delta, or its base is not
        the step that it was made from.
      errors.NotFoundError, errors.DataLossError: as for `load`.
    """
    with reporting(progress, "patches") as progress_fn:
        return [
            ArrayPatch(*values)
            for values in _engine.read_patches(
                os.fspath(path),
                **run_options(threads, memory_bytes or None),
                progress=progress_fn,
            )
        ]


class Follower:
    """Keeps arrays at the newest step of a run.

    numpy arrays and CPU torch tensors are written in place; torch tensors on
    other devices are updated with `copy_`; jax.Arrays are replaced in `tree`,
    on their devices. If the new steps are deltas of the step that the arrays
    hold, all of them are read and checked, and then applied together. Any other
    step is read completely into separate memory. Target leaves that are not
    arrays do not change.

    Thread-safety: one thread at a time; nothing else may write to the arrays.

    Example::

        follower = holdfast.Follower("/run", {"params": params})
        for update in follower.updates():
            serve(follower.tree["params"], update.step)
    """

    def __init__(
        self,
        root: PathLike,
        target: Any,
        *,
        threads: int | None = None,
        memory_bytes: int | None = None,
    ) -> None:
        """Reads nothing until the first `poll`.

        Args:
          root: the directory of the steps, or its URL.
          target: a pytree; its arrays have the names, dtypes and shapes of
            the steps' arrays.
          threads: None means one per CPU.
          memory_bytes: the most bytes of chunks held at a time; None means 256
            MiB. Changes need additional memory until they are written.

        Raises:
          errors.InvalidArgumentError: an array cannot be written in place.
        """
        self._put: dict[str, Callable[[NumpyArray], None]] = {}
        self._memory: dict[str, NumpyArray] = {}
        self._make_tree = self._taken(target, ())
        self._engine = _engine.Follower(
            os.fspath(root),
            list(self._memory.items()),
            **run_options(threads, memory_bytes or None),
        )

    @property
    def tree(self) -> Any:
        """The target with the arrays of `step`."""
        return self._make_tree()

    @property
    def step(self) -> int | None:
        """The step that the arrays hold; None before the first `poll`."""
        return self._engine.step

    def poll(self) -> FollowerUpdate | None:
        """Brings the arrays to the newest committed step.

        Returns:
          The update; None if the arrays already hold the newest step, or there
          is no step.

        Raises:
          errors.NotFoundError: a step lacks an array of the target.
          errors.InvalidArgumentError: an array has a different dtype or shape.
          errors.DataLossError: a step is damaged.

        After any failure the arrays are unchanged, and the next call tries
        again.
        """
        found = self._engine.poll()
        if found is None:
            return None
        step, path, delta_count, read_bytes, changed = found
        for name in changed:
            if name in self._put:
                self._put[name](self._memory[name])
        return FollowerUpdate(
            step, path, delta_count, read_bytes, tuple(changed)
        )

    def updates(
        self,
        *,
        interval_seconds: float = 1.0,
        timeout_seconds: float | None = None,
    ) -> Iterator[FollowerUpdate]:
        """Yields an update whenever a step is committed.

        Args:
          interval_seconds: the time between two polls.
          timeout_seconds: end after this long without a new step; None means
            never.

        Raises:
          Exception: as for `poll`.
        """
        last = time.monotonic()
        while True:
            update = self.poll()
            if update is not None:
                yield update
                last = time.monotonic()
                continue
            if (
                timeout_seconds is not None
                and time.monotonic() - last >= timeout_seconds
            ):
                return
            time.sleep(interval_seconds)

    def _taken(self, value: Any, path: tuple[Any, ...]) -> Callable[[], Any]:
        """Returns a function that builds the value at `path` from the current
        arrays."""
        level = one_level(value)
        if level is None:
            return self._taken_leaf(value, joined(path))
        children = [
            self._taken(child, (*path, name))
            for name, child in zip(level.names, level.children, strict=True)
        ]
        return lambda: level.rebuild([child() for child in children])

    def _taken_leaf(self, value: Any, name: str) -> Callable[[], Any]:
        if isinstance(value, np.ndarray):
            self._add(name, value)
        elif _torch_arrays.is_tensor(value):
            self._add_tensor(name, value)
        elif jax_if_imported() is not None:
            return self._taken_jax(name, value)
        return lambda: value

    def _add(self, name: str, array: NumpyArray) -> None:
        if not array.flags.c_contiguous or not array.flags.writeable:
            raise errors.InvalidArgumentError(
                f"leaf {name!r}: the array to follow must be contiguous"
                " and writable"
            )
        self._memory[name] = array

    def _add_tensor(self, name: str, tensor: Any) -> None:
        if tensor.device.type == "cpu" and tensor.is_contiguous():
            self._add(name, _torch_arrays.as_numpy(tensor, name))
            return
        self._add(name, np.array(_torch_arrays.as_numpy(tensor, name)))
        kind = _torch_arrays.dtype_name(tensor)

        def put(array: NumpyArray) -> None:
            tensor.detach().copy_(_torch_arrays.tensor_on(array, kind))

        self._put[name] = put

    def _taken_jax(self, name: str, array: Any) -> Callable[[], Any]:
        with importing:
            import jax

            from holdfast import _jax_arrays

        if not _jax_arrays.is_array(array):
            return lambda: array
        if _jax_arrays.is_key_dtype(array.dtype):
            raise errors.InvalidArgumentError(
                f"leaf {name!r}: a Follower does not support PRNG keys"
            )
        self._add(name, np.array(array))
        current = [array]

        def put(memory: NumpyArray) -> None:
            # Copy, because jax may adopt the memory that it receives.
            current[0] = jax.device_put(memory.copy(), array.sharding)

        self._put[name] = put
        return lambda: current[0]
