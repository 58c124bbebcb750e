"""`holdfast.rescue`: makes a clean step from what is left of a checkpoint."""

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
    source: PathLike,
    target: PathLike,
    *,
    fill: PathLike | None = None,
    compression: Literal["planes", "zstd", "fast"] | None = "zstd",
    progress: ProgressArgument = False,
    threads: int | None = None,
    memory_bytes: int | None = None,
    durable: bool = True,
) -> RescueReport:
    """Writes every intact tensor of a damaged checkpoint to a new step.

    A tensor is intact if all its bytes exist and pass every check of its
    format; otherwise it is lost. `source` is never written to.

    Args:
      source: a checkpoint of any format, intact or not, or an unfinished save.
      target: the exact path of the new step, an Orbax checkpoint.
      fill: a step that replaces each lost leaf, if it has the leaf with the
        same shape and dtype. Replaced leaves are marked in the report and in
        the new step's custom metadata.
      compression, progress, threads, memory_bytes, durable: as for `convert`.

    Raises:
      holdfast.errors.AlreadyExistsError: `target` exists.
      holdfast.errors.DataLossError: nothing can be recovered; the error says
        why.
      ValueError: `source` is a directory of steps.
    """
    new = os.fspath(target)
    with reporting(progress, "rescue") as progress_fn:
        values = _engine.rescue(
            os.fspath(source),
            new,
            fill="" if fill is None else os.fspath(fill),
            compression=compression,
            sync=durable,
            **run_options(threads, memory_bytes),
            progress=progress_fn,
        )
    lost = [LostLeaf(*leaf) for leaf in values.pop("lost")]
    return RescueReport(target=new, lost=lost, **values)
