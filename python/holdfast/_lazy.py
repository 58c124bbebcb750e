"""Deferred imports, in a process that may fork.

If a process forks while another of its threads imports a module, the child has
half of that module, and a module lock that is never released. So a fork waits
until holdfast's running imports, which all use `with importing:`, are finished.
"""

from __future__ import annotations

import os
import threading

__all__ = ["importing"]

# An importing thread may wait for a module that the forking thread itself is
# importing, so after this long the fork continues.
_PATIENCE_SECONDS = 10.0


class _Importing:
    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._is_held_for_fork = False

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *raised: object) -> None:
        self._lock.release()

    def before_fork(self) -> None:
        self._is_held_for_fork = self._lock.acquire(timeout=_PATIENCE_SECONDS)

    def after_in_parent(self) -> None:
        if self._is_held_for_fork:
            self._lock.release()

    def after_in_child(self) -> None:
        self._lock = threading.RLock()


importing = _Importing()

os.register_at_fork(
    before=importing.before_fork,
    after_in_parent=importing.after_in_parent,
    after_in_child=importing.after_in_child,
)
