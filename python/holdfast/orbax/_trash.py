"""Removes steps without making anybody wait and without showing half of one.

A step that is to go is renamed first, into `<root>/.holdfast_trash/`, which no
reader takes for a step, and removed on a thread of its own afterwards. The next
program removes what one that ended too early has left there. In a bucket, where
nothing can be renamed, the step is marked as none first.

Units: none. Errors: OSError where a step cannot be renamed; removing is tried
again later.
"""

from __future__ import annotations

import collections
import contextlib
import os
import threading
from collections.abc import Iterable

from holdfast import _engine, _files, errors
from holdfast._log import log
from holdfast._threads import try_start

TRASH_NAME = ".holdfast_trash"


class Remover:
    """Removes directories on threads that live as long as there are any.

    Thread-safety: any number of threads.
    """

    def __init__(self, thread_count: int = 1) -> None:
        """Starts nothing.

        Args:
            thread_count: at most this many directories at once.
        """
        self._thread_count = max(1, thread_count)
        self._paths: collections.deque[str] = collections.deque()
        self._threads: set[threading.Thread] = set()
        self._lock = threading.Lock()  # guards the two above

    def add(self, paths: Iterable[str]) -> None:
        """Removes directories soon."""
        with self._lock:
            # A forked child has its parent's threads no longer.
            self._threads = {t for t in self._threads if t.is_alive()}
            for path in paths:
                self._paths.append(path)
                if len(self._threads) < self._thread_count:
                    thread = threading.Thread(
                        target=self._run, name="holdfast: remove"
                    )
                    if try_start(thread):
                        self._threads.add(thread)
            has_thread = bool(self._threads)
        if not has_thread:
            self._run()

    def wait(self) -> None:
        """Waits until everything is removed."""
        while True:
            with self._lock:
                threads = [t for t in self._threads if t.is_alive()]
            if not threads:
                return
            for thread in threads:
                thread.join()

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._paths:
                    self._threads.discard(threading.current_thread())
                    return
                path = self._paths.popleft()
            remove_entry(path)


def remove_entry(path: str) -> None:
    """Removes an entry of the trash, and the trash if it is empty then."""
    try:
        _engine.remove_trashed(path)
    except (OSError, errors.HoldfastError) as error:
        log.warning("Failed to delete %s: %s", path, error)
    if not _files.is_url(path):
        with contextlib.suppress(OSError):
            os.rmdir(os.path.dirname(path))


def move_to_trash(root: str, paths: Iterable[str]) -> list[str]:
    """Renames directories of a root into its trash, durably.

    A bucket cannot rename: there a step is marked as none, and stays where it
    is.

    Args:
        root: the directory of the steps.
        paths: directories in it; those that are gone are left out.

    Returns:
        Where they are now.

    Raises:
        OSError: one cannot be renamed.
    """
    return _engine.trash_steps(root, [os.path.basename(path) for path in paths])


def leftovers(root: str) -> list[str]:
    """The directories that an earlier program left in the trash of a root."""
    if _files.is_url(root):
        return []
    try:
        entries = _engine.list_trash(root)
    except OSError:
        return []
    return [path for _, path, _, is_removed in entries if is_removed]
