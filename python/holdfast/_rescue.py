"""`holdfast.rescue`: a clean step of what is left of a checkpoint."""

from __future__ import annotations

import dataclasses
import os
from typing import Literal

from holdfast import _engine
from holdfast._convert import PathLike
from holdfast._progress import ProgressArgument, reporting

__all__ = ["LostLeaf", "RescueReport", "rescue"]

_MEMORY_BYTES = 256 << 20


@dataclasses.dataclass(frozen=True)
class LostLeaf:
    """A leaf that is not whole, or a file of which no more is known.

    Attributes:
      leaf: its name; "" where names are not known.
      file: where the damage is, relative to the source; may be "".
      offset: in the file; None where it is the whole of it, or not known.
      reason: why it is lost.
      filled: its value in the new step is the other step's.
    """

    leaf: str
    file: str
    offset: int | None
    reason: str
    filled: bool


@dataclasses.dataclass(frozen=True)
class RescueReport:
    """The result of a rescue. True when nothing is lost, and all was checked.

    Attributes:
      target: the new step.
      format: of the source: "orbax", "safetensors", ...
      leaf_count: leaves in the new step, filled ones included.
      filled_count: those that were taken from the other step.
      decoded_bytes: of the leaves in the new step.
      lost: leaves that are not whole, by name; filled ones, too.
      notes: what else was found; and what no checksum covers.
      names_are_known: False: there may have been leaves of which nothing is
        left.
      checksums_are_known: False: a list of checksums that the checkpoint was
        saved with is damaged or gone.
      unchecked: leaves in the new step of which no checksum covers every byte,
        so that a changed one cannot have been noticed; by name.
      total_seconds: of the whole call.
    """

    target: str
    format: str
    leaf_count: int
    filled_count: int
    decoded_bytes: int
    lost: list[LostLeaf]
    notes: list[str]
    names_are_known: bool
    checksums_are_known: bool
    unchecked: list[str]
    total_seconds: float

    @property
    def ok(self) -> bool:
        return (
            not self.lost
            and self.names_are_known
            and self.checksums_are_known
            and not self.unchecked
        )

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        lines = [
            f"{'filled' if leaf.filled else 'lost'}: "
            f"{leaf.leaf or leaf.file}: {leaf.reason}"
            for leaf in self.lost
        ]
        if not self.checksums_are_known:
            lines.append("a list of checksums is damaged or gone")
        if self.unchecked:
            lines.append(f"unchecked: {', '.join(self.unchecked)}")
        lines.append(
            f"{self.leaf_count - self.filled_count} leaves recovered, "
            f"{self.filled_count} filled, "
            f"{len(self.lost) - self.filled_count} lost"
        )
        return "\n".join(lines)


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
            thread_count=threads or 0,
            in_flight_bytes_max=(
                _MEMORY_BYTES if memory_bytes is None else memory_bytes
            ),
            progress=progress_fn,
        )
    lost = [LostLeaf(*leaf) for leaf in values.pop("lost")]
    return RescueReport(target=new, lost=lost, **values)
