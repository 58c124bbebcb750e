"""Removing steps: out of the way with one rename, and then in the background.

A step goes to `<root>/.holdfast_trash/<name>.<random>.removing` and the rename
is made durable, so that a crash leaves it whole or gone. What is to be done
after that nobody waits for; what an earlier process had no time for is removed
by the next one that removes anything below the same root.

Thread-safety: any number of threads; and of processes, one that removes.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import secrets
import shutil
import threading

from holdfast.orbax._durable import sync_directory
from holdfast.orbax._paths import PathLike

TRASH_DIRECTORY = ".holdfast_trash"
_SUFFIX = ".removing"

_logger = logging.getLogger(__name__)


def trash(path: PathLike) -> str:
    """Takes a directory away from where it is, durably.

    Args:
        path: of a step, in the directory of all steps.

    Returns:
        Where it is now.

    Raises:
        FileNotFoundError: there is no such directory.
        OSError: it cannot be moved.
    """
    root, name = os.path.split(os.path.abspath(path))
    directory = os.path.join(root, TRASH_DIRECTORY)
    target = os.path.join(directory, f"{name}.{secrets.token_hex(8)}{_SUFFIX}")
    # A remover of another process may just find it empty and take it away.
    for attempt in range(3):
        if not os.path.isdir(path):
            raise FileNotFoundError(f"there is no directory {path}")
        os.makedirs(directory, exist_ok=True)
        try:
            os.rename(path, target)
            break
        except FileNotFoundError:
            if attempt == 2:
                raise
    sync_directory(root)
    return target


class Remover:
    """Removes what is in the trash of a root, in a thread that ends when there
    is nothing left to do. An interpreter that ends waits for it."""

    def __init__(self, root: PathLike) -> None:
        self._directory = os.path.join(os.path.abspath(root), TRASH_DIRECTORY)
        self._lock = threading.Lock()
        self._pending: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._has_looked = False

    def remove(self, path: PathLike) -> None:
        """Takes a step away; its files are removed later.

        Raises:
            FileNotFoundError: there is no such directory.
            OSError: it cannot be moved.
        """
        target = trash(path)
        with self._lock:
            if not self._has_looked:
                self._has_looked = True
                for left in self._left_by_others():
                    self._pending.put(left)
            else:
                self._pending.put(target)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._work, name="holdfast: removing steps"
                )
                self._thread.start()

    def _left_by_others(self) -> list[str]:
        """Everything that is to be removed, what was just put there too."""
        names = sorted(os.listdir(self._directory))
        return [
            os.path.join(self._directory, name)
            for name in names
            if name.endswith(_SUFFIX)
        ]

    def _work(self) -> None:
        while True:
            with self._lock:
                try:
                    path = self._pending.get_nowait()
                except queue.Empty:
                    self._thread = None
                    break
            shutil.rmtree(path, onerror=_report)
        # Unless the command line's steps are there, which wait for their owner.
        with contextlib.suppress(OSError):
            os.rmdir(self._directory)

    def wait(self) -> None:
        """Waits until the files of all steps are removed."""
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()


def _report(function: object, path: str, problem: object) -> None:
    """What cannot be removed is tried again by the next process."""
    if os.path.lexists(path):
        _logger.warning("cannot remove %s: %s", path, problem)
