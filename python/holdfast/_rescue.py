"""`holdfast.rescue`: a clean step of what is left of a checkpoint."""

from __future__ import annotations

import os
from typing import Literal

from holdfast import _engine
from holdfast._convert import PathLike
from holdfast._progress import ProgressArgument, reporting
from holdfast._results import LostLeaf, RescueReport
from holdfast._run_options import run_options

__all__ = ["rescue"]


def rescue(
    path: PathLike,
    out: PathLike,
    *,
    fill: PathLike | None = None,
    compression: Literal["planes", "zstd", "fast"] | None = "zstd",
    progress: ProgressArgument = False,
    threads: int | None = None,
    memory_bytes: int | None = None,
    durable: bool = True,
) -> RescueReport:
    """Writes every tensor that is whole in a damaged checkpoint as a new step.

    A tensor is whole when each of its bytes is there and passes every check
    that its format has; it is whole or lost. `path` is never written to.

    Args:
      path: a checkpoint of any format, whole or not; a save that never ended.
      out: the exact place of the new step, an Orbax checkpoint.
      fill: a step from which lost leaves are taken, where it has them with
        the same shape and dtype; they are marked in the report and in the
        new step's custom metadata.
      compression, progress, threads, memory_bytes, durable: as of `convert`.

    Raises:
      holdfast.errors.AlreadyExistsError: something is at `out`.
      holdfast.errors.DataLossError: nothing can be recovered, and why.
      ValueError: `path` is a directory of steps.
    """
    new = os.fspath(out)
    with reporting(progress, "rescue") as progress_fn:
        values = _engine.rescue(
            os.fspath(path),
            new,
            fill="" if fill is None else os.fspath(fill),
            compression=compression,
            sync=durable,
            **run_options(threads, memory_bytes),
            progress=progress_fn,
        )
    lost = [LostLeaf(*leaf) for leaf in values.pop("lost")]
    return RescueReport(target=new, lost=lost, **values)
