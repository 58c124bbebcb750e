"""Syncs files and directories that the engine did not write.

Bytes written to a URL are durable immediately.
"""

from __future__ import annotations

import os

from holdfast import _files


def sync(path: str) -> None:
    """Makes a file's contents, or the names in a directory, durable.

    Does nothing for a directory if its file system does not support this.

    Raises:
        OSError: the sync failed.
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
        OSError: a sync failed.
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
        path: the file's path.
        text: the file's new contents.
        is_durable: sync the file; the caller must sync the directory.

    Raises:
        OSError: the file cannot be written.
    """
    with _files.open(path, "w", encoding="utf-8") as file:
        file.write(text)
        if is_durable:
            _files.sync(file)
