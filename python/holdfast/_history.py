"""`holdfast.log`, `holdfast.bisect` and `holdfast.resolve`."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable

from holdfast import _engine
from holdfast._convert import PathLike
from holdfast._progress import ProgressArgument, reporting
from holdfast._results import (
    BisectProbe,
    BisectResult,
    BisectStep,
    LogEntry,
)
from holdfast._run_options import run_options

__all__ = [
    "bisect",
    "log",
    "resolve",
]


def resolve(path: PathLike) -> str:
    """Returns the path of the step that an address such as `run@best:loss`
    means.

    `open`, `load`, `verify` and everything else that reads accept addresses
    directly. Any other path is returned unchanged.

    Raises:
      holdfast.errors.NotFoundError: there is no such step; lists the steps.
      holdfast.errors.InvalidArgumentError: the `@…` after a directory has no
        known form.
    """
    return _engine.resolve_step_address(os.fspath(path))


def log(
    root: PathLike,
    *,
    count: int = 0,
    moved: bool = False,
    moved_count: int = 3,
    cache: PathLike | None = None,
    progress: ProgressArgument = False,
    threads: int | None = None,
    memory_bytes: int | None = None,
) -> list[LogEntry]:
    """Returns the steps of a run, newest first, including damaged ones.

    Args:
      root: the directory of steps.
      count: return only this many of the newest steps; 0 returns all.
      moved: name the tensors that moved most since the previous step; reads
        each step completely.
      moved_count: number of tensors to name per step.
      cache: a file that stores measurements, so that later calls do not read
        the same data again.
      progress, threads, memory_bytes: as for `convert`.

    Raises:
      holdfast.errors.NotFoundError: `root` has no step.
    """
    with reporting(progress, "log") as progress_fn:
        rows, warning = _engine.read_step_log(
            os.fspath(root),
            count=count,
            moved=moved,
            moved_count=moved_count,
            cache=None if cache is None else os.fspath(cache),
            progress=progress_fn,
            **run_options(threads, memory_bytes),
        )
    if warning:
        warnings.warn(f"cache: {warning}", stacklevel=2)
    return [
        LogEntry(
            step=info.step,
            path=info.path,
            committed=info.committed,
            problem=info.damage if info.committed else info.why_not,
            commit_timestamp_ns=info.commit_timestamp_ns,
            save_seconds=save_seconds,
            bytes=info.bytes,
            metrics=metrics,
            moved_against=against,
            moved=moved_leaves,
            moved_problem=moved_problem,
        )
        for (
            info,
            metrics,
            save_seconds,
            against,
            moved_leaves,
            moved_problem,
        ) in rows
    ]


def bisect(
    root: PathLike,
    bad_if: str | Callable[[str], bool | None],
    *,
    good: int | None = None,
    bad: int | None = None,
    threads: int | None = None,
    memory_bytes: int | None = None,
) -> BisectResult:
    """Finds the first bad step of a run in about log2(steps) looks.

        holdfast.bisect("/run", "nan(params.*) or metric(loss) > 9")
        holdfast.bisect("/run", lambda step: evaluate(step) > 9)

    Args:
      root: the directory of steps, good up to one step and bad from there on.
      bad_if: a predicate (doc/history.md), which reads only the tensors that it
        names; or a function of a step's path that returns True for a bad step,
        and None if it cannot tell.
      good: begin at this step instead of the oldest.
      bad: end at this step instead of the newest.
      threads, memory_bytes: as for `convert`.

    Raises:
      holdfast.errors.FailedPreconditionError: the newest step is good, or the
        oldest bad.
      holdfast.errors.NotFoundError: there are no steps, or no step has a glob's
        tensors or a metric.
      holdfast.errors.InvalidArgumentError: the string is not a predicate.
    """
    first, candidates, last_good, probes, steps, leaves, read = _engine.bisect(
        os.fspath(root),
        bad_if,
        good=good,
        bad=bad,
        **run_options(threads, memory_bytes),
    )
    return BisectResult(
        None if first is None else BisectStep(*first),
        [BisectStep(*row) for row in candidates],
        BisectStep(*last_good),
        [
            BisectProbe(BisectStep(*row), verdict, why, leaf_count, byte_count)
            for row, verdict, why, leaf_count, byte_count in probes
        ],
        steps,
        leaves,
        read,
    )
