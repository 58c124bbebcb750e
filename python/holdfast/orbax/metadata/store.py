"""MetadataStore: reads and writes `_CHECKPOINT_METADATA` and similar files.

Without a store, a checkpointer lets the engine write that file, durably. If a
program supplies its own store, the store is called as in Orbax.
"""

from __future__ import annotations

import concurrent.futures
import json
import os
import threading
from typing import Any, Protocol

from holdfast import _files
from holdfast._log import log

PathLike = str | os.PathLike[str]


class MetadataStore(Protocol):
    """Reads and writes JSON objects in files."""

    def is_blocking_writer(self) -> bool:
        """Returns whether `write` and `update` return only after the file is
        written."""

    def write(self, file_path: PathLike, metadata: dict[str, Any]) -> None:
        """Writes a file; replaces an existing file."""

    def read(self, file_path: PathLike) -> dict[str, Any] | None:
        """Returns the metadata in a file; logs and returns None if the file
        cannot be read."""

    def update(self, file_path: PathLike, **kwargs: Any) -> None:
        """Sets members of the object in a file; the file may not exist yet."""

    def wait_until_finished(self) -> None:
        """Waits until everything is written."""

    def close(self) -> None:
        """Closes the store."""


def _read(file_path: PathLike) -> dict[str, Any] | None:
    path = os.fspath(file_path)
    try:
        with _files.open(path, encoding="utf-8") as file:
            data: dict[str, Any] = json.loads(file.read())
    except FileNotFoundError:
        log.warning("Metadata file does not exist: %s", path)
    except (OSError, ValueError) as error:
        log.error("Failed to read Metadata file: %s, error: %s", path, error)
    else:
        return data
    return None


def _write(file_path: PathLike, metadata: dict[str, Any]) -> None:
    with _files.open(os.fspath(file_path), "w", encoding="utf-8") as file:
        file.write(json.dumps(metadata))


class _Blocking(MetadataStore):
    """A store whose calls return after the write.

    Thread-safety: any number of threads.
    """

    def __init__(self, enable_write: bool) -> None:
        self._enable_write = enable_write
        self._lock = threading.RLock()

    def is_blocking_writer(self) -> bool:
        return True

    def write(self, file_path: PathLike, metadata: dict[str, Any]) -> None:
        if self._enable_write:
            with self._lock:
                _write(file_path, metadata)

    def read(self, file_path: PathLike) -> dict[str, Any] | None:
        return _read(file_path)

    def update(self, file_path: PathLike, **kwargs: Any) -> None:
        if self._enable_write:
            with self._lock:
                _write(file_path, {**(_read(file_path) or {}), **kwargs})

    def wait_until_finished(self) -> None:
        return None

    def close(self) -> None:
        return None


class _NonBlocking(MetadataStore):
    """A store that writes on its own thread.

    Thread-safety: any number of threads.
    """

    def __init__(self, enable_write: bool) -> None:
        self._enable_write = enable_write
        self._now = _Blocking(enable_write)
        self._writes: list[concurrent.futures.Future[None]] = []
        self._executor = concurrent.futures.ThreadPoolExecutor(
            max_workers=1, thread_name_prefix="metadata_store"
        )

    def is_blocking_writer(self) -> bool:
        return False

    def write(self, file_path: PathLike, metadata: dict[str, Any]) -> None:
        self._submit(self._now.write, file_path, metadata)

    def read(self, file_path: PathLike) -> dict[str, Any] | None:
        return _read(file_path)

    def update(self, file_path: PathLike, **kwargs: Any) -> None:
        self._submit(self._now.update, file_path, **kwargs)

    def _submit(self, work: Any, *args: Any, **kwargs: Any) -> None:
        if not self._enable_write:
            log.warning(
                "Write requested but enable_write=false, path=%s", args[0]
            )
            return
        try:
            self._writes.append(self._executor.submit(work, *args, **kwargs))
        except RuntimeError:  # no thread is available
            work(*args, **kwargs)

    def wait_until_finished(self) -> None:
        while self._writes:
            self._writes.pop(0).result()

    def close(self) -> None:
        if self._enable_write:
            self._executor.shutdown()


def metadata_store(
    *, enable_write: bool, blocking_write: bool = False
) -> MetadataStore:
    """Returns a store.

    Args:
        enable_write: if False, writing does nothing.
        blocking_write: write before the call returns, not on a separate thread.
    """
    if blocking_write:
        return _Blocking(enable_write)
    return _NonBlocking(enable_write)
