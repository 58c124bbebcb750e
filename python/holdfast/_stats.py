"""The cost of a save or load: bytes, seconds per phase, memory."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Mapping

from holdfast import _engine

__all__ = [
    "Stats",
    "from_engine",
    "human_bytes",
    "human_count",
    "last",
    "remember",
]


@dataclasses.dataclass(frozen=True)
class Stats:
    """The measurements of one save, load or verify.

    Attributes:
      decoded_bytes: bytes of the tensors themselves.
      stored_bytes: bytes read or written for the tensors.
      mapped_bytes: bytes of the tensors that `load(mmap=True)` mapped and did
        not read; no other count includes them.
      copied_bytes: bytes that a background save copied to host memory before
        it returned.
      chunk_count: chunks encoded or decoded.
      fingerprint_count: arrays that a load has checked in memory.
      device_decoded_bytes: of `decoded_bytes`, those that devices decoded.
      memory_bytes_peak: the most bytes in flight between memory and disk.
      total_seconds: wall time of the call.
      phase_seconds: wall time of the call's phases: "snapshot", "plan",
        "transfer", "sync", "commit".
    """

    decoded_bytes: int = 0
    stored_bytes: int = 0
    mapped_bytes: int = 0
    copied_bytes: int = 0
    chunk_count: int = 0
    fingerprint_count: int = 0
    device_decoded_bytes: int = 0
    memory_bytes_peak: int = 0
    total_seconds: float = 0.0
    phase_seconds: Mapping[str, float] = dataclasses.field(default_factory=dict)

    def __str__(self) -> str:
        phases = ", ".join(
            f"{name} {seconds:.3f} s"
            for name, seconds in self.phase_seconds.items()
        )
        return (
            f"{human_bytes(self.decoded_bytes)} in {self.total_seconds:.3f} s"
            f" ({human_bytes(self.stored_bytes)} stored; {phases};"
            f" at most {human_bytes(self.memory_bytes_peak)} of buffers)"
        )


def human_bytes(count: int) -> str:
    """Returns a size as text: '1.5 GiB' for 1610612736."""
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if value < 1024 or unit == "TiB":
            break
        value /= 1024
    return f"{count} B" if unit == "B" else f"{value:.1f} {unit}"


def human_count(count: int) -> str:
    """Returns a count as text, in powers of 1000 as in model names: '9999',
    '12.3K', '7.2B'."""
    if count < 10_000:
        return str(count)
    value = float(count)
    for unit in ("", "K", "M", "B", "T", "Q"):
        if value < 1000 or unit == "Q":
            break
        value /= 1000
    return f"{value:.1f}{unit}"


def from_engine(
    stats: _engine.Stats,
    *,
    snapshot_seconds: float = 0.0,
    copied_bytes: int = 0,
) -> Stats:
    """Adds the costs before the engine was called to the engine's counts."""
    return Stats(
        decoded_bytes=stats.decoded_bytes,
        stored_bytes=stats.stored_bytes,
        mapped_bytes=stats.mapped_bytes,
        copied_bytes=copied_bytes,
        chunk_count=stats.chunk_count,
        fingerprint_count=stats.fingerprint_count,
        device_decoded_bytes=stats.device_decoded_bytes,
        memory_bytes_peak=stats.memory_bytes_peak,
        total_seconds=snapshot_seconds + stats.total_seconds,
        phase_seconds={
            "snapshot": snapshot_seconds,
            "plan": stats.plan_seconds,
            "transfer": stats.transfer_seconds,
            "sync": stats.sync_seconds,
            "commit": stats.commit_seconds,
        },
    )


class _Local(threading.local):
    stats: Stats | None = None


_local = _Local()


def remember(stats: Stats) -> Stats:
    """Makes `last` return `stats` in this thread; returns `stats`."""
    _local.stats = stats
    return stats


def last() -> Stats | None:
    """Returns the Stats of this thread's last finished save, load or verify.

    Returns None before the first. A background save's Stats are in its future.
    """
    return _local.stats
