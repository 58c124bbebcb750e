"""Making files and names durable, where the engine does not write.

Bytes written to a URL are durable at once.
"""

from __future__ import annotations

import os

from holdfast import _files


def sync(path: str) -> None:
    """Makes what a file has, or the names in a directory, durable.

    Nothing for a directory where the file system knows no such sync.

    Raises:
        OSError: they cannot be.
    """
    if _files.is_url(path):
        return
    if os.path.isdir(path):
        _files.sync_directory(path)
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
