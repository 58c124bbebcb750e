"""Removing steps without making anybody wait, or half of one visible.

A step that is to go is renamed first, into `<root>/.holdfast_trash/`, which no
reader takes for a step, and removed on a thread of its own afterwards. What a
program that ended too early has left there is removed by the next one.

Units: none. Errors: OSError where a step cannot be renamed; removing is tried
again later.
"""

from __future__ import annotations

import collections
import contextlib
import logging
import os
import shutil
import threading
import time
from collections.abc import Iterable
from typing import Any

from holdfast.orbax._durable import sync_directory

TRASH_NAME = ".holdfast_trash"
# What nobody may want back; other entries are kept for those who ask.
_REMOVING = ".removing"


class Remover:
    """Removes directories on threads that live as long as there are any.

    Thread-safety: any number of threads.
    """

    def __init__(self, thread_count: int = 1) -> None:
        """Starts nothing.

        Args:
            thread_count: at most so many directories at once.
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
                    self._threads.add(thread)
                    thread.start()

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
    shutil.rmtree(path, onerror=_report)
    with contextlib.suppress(OSError):
        os.rmdir(os.path.dirname(path))


def _report(_: object, path: str, problem: tuple[Any, Any, Any]) -> None:
    """Goes on: two programs may be removing the same."""
    if not isinstance(problem[1], FileNotFoundError):
        logging.warning("Failed to delete %s: %s", path, problem[1])


def move_to_trash(root: str, paths: Iterable[str]) -> list[str]:
    """Renames directories of a root into its trash, durably.

    Args:
        root: the directory of the steps.
        paths: directories in it; those that are gone are left out.

    Returns:
        Where they are now.

    Raises:
        OSError: one cannot be renamed.
    """
    entries = []
    for path in paths:
        entry = _move_one(root, path)
        if entry is not None:
            entries.append(entry)
    if entries:
        with contextlib.suppress(FileNotFoundError):
            sync_directory(os.path.join(root, TRASH_NAME))
        sync_directory(root)
    return entries


def _move_one(root: str, path: str) -> str | None:
    trash = os.path.join(root, TRASH_NAME)
    name = f"{os.path.basename(path)}.{time.time_ns()}{_REMOVING}"
    entry = os.path.join(trash, name)
    while os.path.lexists(path):
        os.makedirs(trash, exist_ok=True)
        # Somebody who has emptied the trash may remove it just now.
        with contextlib.suppress(FileNotFoundError):
            os.rename(path, entry)
            return entry
    return None


def leftovers(root: str) -> list[str]:
    """What a program has left in the trash of a root before it was removed."""
    trash = os.path.join(root, TRASH_NAME)
    try:
        names = os.listdir(trash)
    except OSError:
        return []
    return [os.path.join(trash, n) for n in names if n.endswith(_REMOVING)]
