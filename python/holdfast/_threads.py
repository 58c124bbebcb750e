"""Threads where the system may give none (limits of processes, of memory)."""

from __future__ import annotations

import threading

__all__ = ["try_start"]


def try_start(thread: threading.Thread) -> bool:
    """Starts the thread; false when the system gives none."""
    try:
        thread.start()
    except RuntimeError:  # can't start new thread
        return False
    return True
