"""The `progress` argument of the public functions.

False shows nothing. True shows a bar on standard error, drawn by tqdm if it is
installed. A callable is called as `f(phase, done_bytes, total_bytes)` on the
thread that made the call. If it raises, the work is cancelled and the call
raises that exception.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from holdfast import _stats, errors
from holdfast._lazy import importing

__all__ = ["ProgressArgument", "ProgressFn", "cancelling", "reporting"]

ProgressFn = Callable[[str, int, int], object]
ProgressArgument = bool | ProgressFn

_BAR_WIDTH = 30


class _Bar(Protocol):
    def __call__(
        self, phase: str, done_bytes: int, total_bytes: int
    ) -> None: ...
    def close(self) -> None: ...


class _PlainBar:
    """One line on standard error that is repeatedly overwritten."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._line = ""

    def __call__(self, phase: str, done_bytes: int, total_bytes: int) -> None:
        share = done_bytes / total_bytes if total_bytes else 1.0
        filled = round(min(share, 1.0) * _BAR_WIDTH)
        bar = "#" * filled + "." * (_BAR_WIDTH - filled)
        line = (
            f"{self._title} {phase:<6} [{bar}] {share:4.0%}"
            f" {_stats.human_bytes(done_bytes)}"
            f"/{_stats.human_bytes(total_bytes)}"
        )
        padding = " " * max(len(self._line) - len(line), 0)
        print(f"\r{line}{padding}", end="", file=sys.stderr, flush=True)
        self._line = line

    def close(self) -> None:
        if self._line:
            print(file=sys.stderr, flush=True)


class _TqdmBar:
    def __init__(self, title: str, tqdm: Any) -> None:
        self._title = title
        self._bar = tqdm(
            desc=title, unit="B", unit_scale=True, unit_divisor=1024
        )

    def __call__(self, phase: str, done_bytes: int, total_bytes: int) -> None:
        bar = self._bar
        bar.total = total_bytes
        bar.n = done_bytes
        bar.set_description(f"{self._title} {phase}", refresh=False)
        bar.refresh()

    def close(self) -> None:
        self._bar.close()


def _make_bar(title: str) -> _Bar:
    try:
        with importing:
            from tqdm.auto import tqdm
    except ImportError:
        return _PlainBar(title)
    return _TqdmBar(title, tqdm)


@contextmanager
def reporting(
    progress: ProgressArgument, title: str
) -> Iterator[ProgressFn | None]:
    """Yields the function for the engine, or None. The bar ends with the block.

    Raises TypeError for a value that is neither a bool nor callable.
    """
    if progress is False or progress is None:
        yield None
        return
    if progress is not True:
        if not callable(progress):
            raise TypeError(
                "progress: want True, False or a function of (phase,"
                f" done_bytes, total_bytes), got {progress!r}"
            )
        yield progress
        return
    bar = _make_bar(title)
    try:
        yield bar
    finally:
        bar.close()


def cancelling(
    progress: ProgressFn | None, is_cancelled: Callable[[], bool]
) -> ProgressFn:
    """Wraps `progress` so that the work also stops when the future is
    cancelled."""

    def report(phase: str, done_bytes: int, total_bytes: int) -> None:
        if is_cancelled():
            raise errors.CancelledError("cancelled")
        if progress is not None:
            progress(phase, done_bytes, total_bytes)

    return report
