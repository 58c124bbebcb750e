"""`holdfast.report`: a checkpoint as one HTML page."""

from __future__ import annotations

import os

from holdfast import _engine
from holdfast._convert import PathLike
from holdfast._progress import ProgressArgument, reporting
from holdfast._results import Report
from holdfast._run_options import run_options

__all__ = ["report"]


def report(
    path: PathLike,
    output: PathLike | None = None,
    *,
    step: int | None = None,
    statistics: bool = True,
    verify_all: bool = False,
    against: PathLike | None = None,
    cache: PathLike | None = None,
    moved: bool = False,
    progress: ProgressArgument = False,
    threads: int | None = None,
    memory_bytes: int | None = None,
) -> Report:
    """Makes an HTML page of a checkpoint of any format.

    The page has a map of the modules by parameters or bytes, a table that can
    be searched and sorted, and the layout, statistics and histogram of each
    tensor. For a root of steps it also shows the steps' sizes, times and
    metrics. The page loads nothing from elsewhere.

    Args:
      path: a checkpoint, or a root of steps, whose newest step is shown.
      output: a file to write the page to; None writes none.
      step: a step of a directory of steps; None means the newest committed one.
      statistics: read each tensor once. If False, use only the metadata.
      verify_all: check every byte, as `holdfast.verify` does.
      against: a different checkpoint to compare with.
      cache: a file that stores statistics, so later calls do not read the same
        data again.
      moved: for a root, show how far tensors moved from step to step. This
        reads the newest steps completely.
      progress, threads, memory_bytes: as for `convert`.

    Raises:
      holdfast.errors.NotFoundError: there is no checkpoint at `path`.
    """
    with reporting(progress, "report") as progress_fn:
        made = Report(
            *_engine.report(
                os.fspath(path),
                step=step,
                statistics=statistics,
                verify=verify_all,
                against=None if against is None else os.fspath(against),
                cache=None if cache is None else os.fspath(cache),
                moved=moved,
                progress=progress_fn,
                **run_options(threads, memory_bytes),
            )
        )
    if output is not None:
        made.save(output)
    return made
