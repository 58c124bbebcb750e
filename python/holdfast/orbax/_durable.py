"""Making files and names durable, where the engine does not write them.

Bytes written to a URL are durable at once.
"""

from __future__ import annotations

import os

from holdfast import _files

_DIGESTS_FILE = "_HOLDFAST_DIGESTS"


def sync_directory(path: str) -> None:
    """Makes the names in a directory durable.

    Raises:
        OSError: they cannot be.
    """
    if _files.is_url(path):
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_file(path: str) -> None:
    """Makes what a file has durable.

    Raises:
        OSError: it cannot be.
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
            sync_file(os.path.join(directory, name))
        sync_directory(directory)


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


def drop_stale_digests(directory: str, name: str) -> None:
    """Removes the checksums of a directory one of whose files is changed.

    Args:
        directory: of an item.
        name: of the file; checksums that do not list it stay.

    Raises:
        OSError: they cannot be removed.
    """
    path = os.path.join(directory, _DIGESTS_FILE)
    if not _files.exists(path):
        return
    if f'["{name}",'.encode() in _files.read_bytes(path):
        _files.unlink(path)
