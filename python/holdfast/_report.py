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
    verify: bool = False,
    against: PathLike | None = None,
    cache: PathLike | None = None,
    moved: bool = False,
    progress: ProgressArgument = False,
    threads: int | None = None,
    memory_bytes: int | None = None,
) -> Report:
    """Makes an HTML page of a checkpoint of any format.

    A map of the modules by parameters or bytes, a table that can be searched
    and sorted, and of each tensor its layout, statistics and histogram; of a
    root of steps also their sizes, times and metrics. The page loads nothing.

    Args:
      path: a checkpoint, or a root of steps, of which the newest is shown.
      output: a file to write the page to; None: only return it.
      step: of a directory of steps; None: the newest committed one.
      statistics: read the tensors, each once; else only what metadata say.
      verify: check every byte, as `holdfast.verify` does.
      against: another checkpoint that this one is compared with.
      cache: a file that keeps the statistics; what is in it is not read again.
      moved: of a root, show how far tensors moved from step to step; reads all
        of the newest steps.
      progress, threads, memory_bytes: as of `convert`.

    Raises:
      holdfast.errors.NotFoundError: no checkpoint at `path`.
    """
    with reporting(progress, "report") as progress_fn:
        made = Report(
            *_engine.report(
                os.fspath(path),
                step=step,
                statistics=statistics,
                verify=verify,
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
