"""Making files and names durable, and the lock of what is being written, where
the engine does not write.

Bytes written to a URL are durable at once.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os

from holdfast import _files


def sync(path: str) -> None:
    """Makes what a file has, or the names in a directory, durable.

    Raises:
        OSError: they cannot be.
    """
    if _files.is_url(path):
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(path: str) -> None:
    """Makes every file and name below a directory durable.

    Raises:
        OSError: they cannot be.
    """
    if _files.is_url(path):
        return
    for directory, _, files in os.walk(path, topdown=False):
        for name in files:
            sync(os.path.join(directory, name))
        sync(directory)


def write_text(path: str, text: str, *, is_durable: bool = True) -> None:
    """Writes a file.

    Args:
        path: the file's.
        text: what it has then.
        is_durable: sync it; its name is the caller's to sync.

    Raises:
        OSError: it cannot be written.
    """
    with _files.open(path, "w", encoding="utf-8") as file:
        file.write(text)
        if is_durable:
            _files.sync(file)


class DirectoryLock:
    """The lock that the engine's saves, too, have on what they write.

    Nobody takes the directory for what is left over. Held until it is released,
    or the process ends.

    Thread-safety: one thread at a time.
    """

    def __init__(self, path: str) -> None:
        """Takes the lock; nothing in an object store.

        Args:
            path: of the directory, just made.

        Raises:
            FileExistsError: another save has it.
            OSError: it cannot be opened.
        """
        self._descriptor = -1
        if _files.is_url(path):
            return
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_there = os.path.samestat(os.fstat(descriptor), os.lstat(path))
        except OSError as error:
            # File systems without locks: go on without the guard.
            is_there = error.errno not in (errno.EWOULDBLOCK, errno.ENOENT)
        if not is_there:
            os.close(descriptor)
            raise FileExistsError(f"another save is writing {path}")
        self._descriptor = descriptor
        self._owner = os.getpid()

    def release(self) -> None:
        """Gives the lock back."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor < 0:
            return
        # Forked children have it as well: closing alone would leave it theirs.
        if self._owner == os.getpid():
            with contextlib.suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)

    def __del__(self) -> None:
        self.release()
