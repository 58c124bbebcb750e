"""The counters of this process's work for checkpoints."""

from __future__ import annotations

from holdfast import _engine


def metrics() -> dict[str, float]:
    """Counts, seconds and bytes of this process since it began.

    Returns:
        "saves", "loads", "conversions", "copies", "failures" and "stalls"
        (ranks and objects that were named as late); "requests", "attempts",
        "retries", "throttled", "hedges", "hedge_bytes", "connections",
        "sent_bytes" and "received_bytes" of object stores; and of every phase
        that there was "<phase>_count", "<phase>_seconds" (of all threads
        together) and "<phase>_bytes": plan, snapshot, encode, write, sync,
        meet, commit, open, read, decode, place, copy, request.
    """
    return _engine.metrics()


def metrics_text() -> str:
    """The same in the text format of OpenMetrics, phases as histograms."""
    return _engine.metrics_text()


def crash_mark(text: str = "") -> None:
    """Says that what was saved so far must outlast a power loss.

    `holdfast prove-crash` around this program holds it to that. Anywhere else
    it does nothing.

    Args:
        text: What `prove-crash --check` gets in HOLDFAST_PROVE_MARKS.
    """
    _engine.crash_mark(text)
