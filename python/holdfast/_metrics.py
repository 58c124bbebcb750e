"""Counters of the checkpoint work in this process."""

from __future__ import annotations

from holdfast import _engine


def metrics() -> dict[str, float]:
    """Returns this process's counts, seconds and bytes since it started.

    Returns:
        "saves", "loads", "conversions", "copies", "failures" and "stalls"
        (ranks and objects reported as late); "requests", "attempts", "retries",
        "throttled", "hedges", "hedge_bytes", "connections", "sent_bytes" and
        "received_bytes" for object stores; and for every phase that occurred
        "<phase>_count", "<phase>_seconds" (summed over all threads) and
        "<phase>_bytes". The phases are plan, snapshot, encode, write, sync,
        meet, commit, open, read, decode, place, copy and request.
    """
    return _engine.metrics()


def metrics_text() -> str:
    """Returns the metrics in OpenMetrics text format, phases as histograms."""
    return _engine.metrics_text()


def crash_mark(text: str = "") -> None:
    """Declares that everything saved so far must survive a power failure.

    `holdfast prove-crash` checks that claim when it runs this program.
    Elsewhere the call does nothing.

    Args:
        text: The text that `prove-crash --check` gets in HOLDFAST_PROVE_MARKS.
    """
    _engine.crash_mark(text)
