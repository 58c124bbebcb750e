"""Removes the files of steps in the background.

By then, `_engine.dispose_of_steps` has made the steps disappear. If a program
ends before their files are removed, the next program removes the `leftovers`.
"""

from __future__ import annotations

import collections
import threading
from collections.abc import Iterable

from holdfast import _engine, _files, errors
from holdfast._log import log
from holdfast._threads import try_start

TRASH_NAME = ".holdfast_trash"


class Remover:
    """Removes directories on threads, which end when nothing is left to remove.

    Thread-safety: any number of threads.
    """

    def __init__(self, thread_count: int = 1) -> None:
        """Creates a remover without starting a thread.

        Args:
            thread_count: maximum number of directories removed concurrently.
        """
        self._thread_count = max(1, thread_count)
        self._paths: collections.deque[str] = collections.deque()
        self._threads: set[threading.Thread] = set()
        self._needed: set[str] = set()
        self._lock = threading.Lock()  # guards the members above

    def dispose(
        self,
        root: str,
        names: Iterable[str],
        *,
        todelete_subdir: str | None = None,
        todelete_full_path: str | None = None,
    ) -> None:
        """Removes steps; their files are removed soon afterwards.

        If a view or a delta refers to a step, the step is kept. A later call
        removes it once the view or delta no longer exists.

        Args:
            root: the directory of the steps; the same in all calls.
            names: the names of the steps' directories.
            todelete_subdir: move the steps there instead.
            todelete_full_path: like `todelete_subdir`, in a bucket.

        Raises:
            NotImplementedError: `todelete_full_path` is given outside a
                bucket.
            OSError: a step cannot be renamed.
        """
        with self._lock:
            going = [*names, *self._needed]
        paths, needed = _engine.dispose_of_steps(
            root,
            going,
            todelete_subdir=todelete_subdir,
            todelete_full_path=todelete_full_path,
        )
        with self._lock:
            self._needed = set(needed)
        self.add(paths)

    def add(self, paths: Iterable[str]) -> None:
        """Schedules directories for removal."""
        with self._lock:
            # A forked child does not have its parent's threads.
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
    """Removes an entry that the engine has marked for removal; logs errors."""
    try:
        _engine.remove_trashed(path)
    except (OSError, errors.HoldfastError) as error:
        log.warning("Failed to delete %s: %s", path, error)


def leftovers(root: str) -> list[str]:
    """Returns the directories that an earlier program did not finish removing.

    The result is empty in a bucket, because opening a manager there must take
    only one request.
    """
    return [] if _files.is_url(root) else _engine.disposal_leftovers(root)
