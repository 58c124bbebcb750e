"""Waits for steps that a different program saves.

Units: seconds.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from holdfast import _engine, _files
from holdfast._log import log
from holdfast.orbax import multihost
from holdfast.orbax._checkpointer.paths import PathLike, handler_path
from holdfast.orbax._compat.errors import as_builtin
from holdfast.orbax.step import (
    Metadata,
    NameFormat,
    checkpoint_steps,
    standard_name_format,
)

_SNAPSHOTS = "_SNAPSHOTS"
_TIMED_OUT = -1


def get_snapshot_dir_from_step_dir(
    step_dir: PathLike, snapshot_dir: PathLike | None = None
) -> Any:
    """Returns the path of a step's snapshot.

    Args:
        step_dir: the step's directory.
        snapshot_dir: the directory of all snapshots; None means `_SNAPSHOTS`
            next to the step.
    """
    step_path = handler_path(step_dir)
    if snapshot_dir is None:
        snapshot_dir = step_path.parent / _SNAPSHOTS
    return handler_path(snapshot_dir) / step_path.name


@contextlib.contextmanager
def _maybe_without(ignore_errors: bool | None, what: str) -> Iterator[None]:
    """Logs and ignores a FileNotFoundError in the block if `ignore_errors`.

    Such an error means that a step or snapshot was already removed.
    """
    try:
        yield
    except FileNotFoundError:
        if not ignore_errors:
            raise
        log.warning("Ignoring error when %s", what, exc_info=True)


class _Watch:
    """A directory in which steps appear.

    Thread-safety: one thread at a time.
    """

    def __init__(
        self,
        directory: PathLike,
        name_format: NameFormat[Metadata],
        snapshot_dir: PathLike | None,
        ignore_snapshot_errors: bool | None,
    ) -> None:
        self._directory = handler_path(directory)
        self._name_format = name_format
        self._snapshots = handler_path(
            snapshot_dir or self._directory / _SNAPSHOTS
        )
        # Buckets have no links. A snapshot there is attempted only on request,
        # and is then refused.
        self._has_snapshots = snapshot_dir is not None or not _files.is_url(
            self._directory
        )
        self._ignores_errors = ignore_snapshot_errors

    @contextlib.contextmanager
    def held(
        self,
        until_step: int | None,
        seconds_to_sleep: float,
        timeout: float | None,
        timeout_fn: Callable[[], bool] | None,
    ) -> Iterator[int]:
        """Yields the last step on all processes; -1 if none appears in time.

        A snapshot of the step exists during the block.
        """
        step = _TIMED_OUT
        is_first = multihost.process_index() == 0
        if is_first:
            step = self._wait(until_step, seconds_to_sleep, timeout, timeout_fn)
        if multihost.process_count() > 1:
            step = int(multihost.broadcast_one_to_all(np.int32(step)))
        try:
            yield step
        finally:
            if step != _TIMED_OUT and is_first and self._has_snapshots:
                self._release(self._name_format.build_name(step))

    def _wait(
        self,
        until_step: int | None,
        seconds_to_sleep: float,
        timeout: float | None,
        timeout_fn: Callable[[], bool] | None,
    ) -> int:
        deadline = None if timeout is None else time.time() + timeout
        while True:
            latest = max(checkpoint_steps(self._directory), default=None)
            if latest is not None and latest >= (until_step or latest):
                if self._has_snapshots:
                    self._keep(latest)
                return latest
            is_late = (
                deadline is not None
                and time.time() + seconds_to_sleep > deadline
            )
            if is_late and (timeout_fn is None or timeout_fn()):
                return _TIMED_OUT
            time.sleep(seconds_to_sleep)

    def _keep(self, step: int) -> None:
        """Makes the snapshot of a step, unless it exists.

        Raises:
            ValueError: the step has a different name, or snapshots are not
                possible.
            FileNotFoundError: the step was deleted in the meantime.
        """
        step_dir = self._name_format.find_step(self._directory, step).path
        try:
            _files.makedirs(self._snapshots, exist_ok=True)
        except OSError as error:
            raise ValueError(
                f"Failed to create snapshot directory {self._snapshots}. Please"
                " provide a snapshot directory instead."
            ) from error
        snapshot = get_snapshot_dir_from_step_dir(step_dir, self._snapshots)
        if _files.exists(snapshot):
            return
        with _maybe_without(self._ignores_errors, f"making {snapshot}"):
            with as_builtin():
                _engine.create_snapshot(
                    os.fspath(step_dir), os.fspath(snapshot)
                )

    def _release(self, name: str) -> None:
        with _maybe_without(self._ignores_errors, f"removing snapshot {name}"):
            with as_builtin():
                _engine.release_snapshot(os.fspath(self._snapshots / name))

    def release_all(self) -> None:
        """Removes the snapshots that an earlier program left."""
        if self._has_snapshots and _files.exists(self._snapshots):
            for name in _files.listdir(self._snapshots):
                self._release(name)


@contextlib.contextmanager
def wait_for_new_checkpoint(
    checkpoint_dir: PathLike,
    *,
    until_step: int | None = None,
    seconds_to_sleep: int = 1,
    timeout: int | None = None,
    timeout_fn: Callable[[], bool] | None = None,
    step_prefix: str | None = None,
    step_format_fixed_length: int | None = None,
    step_name_format: NameFormat[Metadata] | None = None,
    snapshot_dir: PathLike | None = None,
    set_immutable: bool | None = None,
    ignore_snapshot_errors: bool | None = True,
) -> Iterator[int]:
    """Waits for a step; a snapshot of the step exists during the block.

    Args:
        checkpoint_dir: the directory of the steps; need not exist yet.
        until_step: wait for this step or a later one; None means any.
        seconds_to_sleep: how long to sleep between two checks.
        timeout: how long to wait; None means no limit.
        timeout_fn: called after the timeout; if it returns False, keep waiting.
        step_prefix: prefix of names if there is no `step_name_format`.
        step_format_fixed_length: minimum number of digits in names if there is
            no `step_name_format`.
        step_name_format: the format of names.
        snapshot_dir: the directory of snapshots; None means `_SNAPSHOTS` next
            to the steps.
        set_immutable: ignored; accepted because Orbax has it.
        ignore_snapshot_errors: continue if the step is deleted before its
            snapshot is made.

    Yields:
        The last step's number; -1 if no step appears in time.

    Raises:
        ValueError: the step's name has a different format.
        OSError: a snapshot cannot be made.
    """
    name_format = step_name_format or standard_name_format(
        step_prefix=step_prefix,
        step_format_fixed_length=step_format_fixed_length,
    )
    watch = _Watch(
        checkpoint_dir, name_format, snapshot_dir, ignore_snapshot_errors
    )
    with watch.held(until_step, seconds_to_sleep, timeout, timeout_fn) as step:
        yield step


def checkpoints_iterator(
    checkpoint_dir: PathLike,
    *,
    min_interval_secs: int = 0,
    seconds_to_sleep: int = 1,
    timeout: int | None = None,
    timeout_fn: Callable[[], bool] | None = None,
    step_prefix: str | None = None,
    step_format_fixed_length: int | None = None,
    step_name_format: NameFormat[Metadata] | None = None,
    snapshot_dir: PathLike | None = None,
    set_immutable: bool | None = None,
    ignore_snapshot_errors: bool | None = True,
) -> Iterator[int]:
    """Yields steps as they appear; a snapshot of each exists while it is used.

    If several steps appear between two checks, yields only the last.

    Args:
        checkpoint_dir: the directory of the steps; need not exist yet.
        min_interval_secs: the minimum time between two steps.
        seconds_to_sleep: see wait_for_new_checkpoint, which also describes the
            arguments not listed here.
        timeout: how long to wait for the next step; None means no limit.
        timeout_fn: called after the timeout; if it returns False, keep waiting.

    Yields:
        Numbers of steps, each larger than the one before.
    """
    name_format = step_name_format or standard_name_format(
        step_prefix=step_prefix,
        step_format_fixed_length=step_format_fixed_length,
    )
    watch = _Watch(
        checkpoint_dir, name_format, snapshot_dir, ignore_snapshot_errors
    )
    watch.release_all()
    wait = seconds_to_sleep, timeout, timeout_fn
    until_step: int | None = None
    while True:
        with watch.held(until_step, *wait) as step:
            if step == _TIMED_OUT:
                if timeout_fn is None or timeout_fn():
                    return
                continue
            start = time.time()
            yield step
            until_step = step + 1
        left_secs = start + min_interval_secs - time.time()
        if left_secs > 0:
            time.sleep(left_secs)
