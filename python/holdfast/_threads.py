"""Starts threads where the system may refuse (process or memory limits)."""

from __future__ import annotations

import threading

__all__ = ["try_start"]


def try_start(thread: threading.Thread) -> bool:
    """Starts the thread; returns False if the system cannot start one."""
    try:
        thread.start()
    except RuntimeError:  # the system refused
        return False
    return True
