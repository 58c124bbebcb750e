"""The checkpoint that several processes write together."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from typing import Any

from holdfast import _files
from holdfast.orbax._checkpointer import pending
from holdfast.orbax._checkpointer.paths import PathLike, handler_path
from holdfast.orbax._checkpointer.pending import CommitOptions, Pending
from holdfast.orbax._processes.operations import Operation


class SharedDirectory:
    """A checkpoint that does not exist until it is committed.

    The primary creates, commits and removes the checkpoint's directory; the
    other processes only know its path. A `with` block removes an uncommitted
    directory at its end.
    Thread-safety: any thread may call `begin`; otherwise one thread at a time.
    """

    # Appended to the path in the error about a relative path.
    _SHOWN_SUFFIX = ""

    def __init__(
        self,
        operation: Operation,
        path: PathLike,
        options: CommitOptions,
        *,
        overwrite: bool,
    ) -> None:
        """Stores the arguments and creates nothing yet.

        Args:
            operation: the save.
            path: the checkpoint's path.
            options: how the checkpoint is committed.
            overwrite: replace an existing checkpoint.
        """
        self.path = path
        self._operation = operation
        self._options = options
        self._overwrite = overwrite
        self._lock = threading.Lock()
        # On the primary; None before `begin` and on other processes.
        self.pending: Pending | None = None

    def check_absent(self, *, looks: bool = True) -> None:
        """Checks that the path can become a checkpoint.

        Args:
            looks: check whether the path exists; otherwise `begin` does that.

        Raises:
            ValueError: the path is relative, or it exists and must not be
                overwritten.
        """
        path = os.fspath(self.path)
        if looks and not self._overwrite and _files.lexists(path):
            raise ValueError(f"Destination {self.path} already exists.")
        if not _files.isabs(path):
            raise ValueError(
                "Checkpoint path should be absolute. Got"
                f" {self.path}{self._SHOWN_SUFFIX}"
            )

    def begin(self) -> Pending | None:
        """Creates the directory on the first call, and returns it.

        Only the primary does so; on other processes, returns None.

        Raises:
            NotADirectoryError: a parent is a file.
            ValueError: the path exists.
            OSError: the directory cannot be created.
        """
        with self._lock:
            if self._operation.processes.is_primary and self.pending is None:
                self.pending = pending.begin(
                    _files.abspath(self.path),
                    self._options,
                    overwrite=self._overwrite,
                )
        return self.pending

    @property
    def directory(self) -> Any:
        """The directory that handlers write to."""
        if self.pending is not None:
            return handler_path(self.pending.directory)
        temporary = self._options.temporary_path(_files.abspath(self.path))
        return handler_path(_files.abspath(temporary.get()))

    @contextlib.contextmanager
    def removed_on_failure(self) -> Iterator[None]:
        """Removes the directory if the block fails."""
        try:
            yield
        except BaseException as error:
            self.close(is_failed=isinstance(error, Exception))
            raise

    def __enter__(self) -> SharedDirectory:
        return self

    def __exit__(
        self, _kind: object, error: BaseException | None, _trace: object
    ) -> None:
        if error is not None:
            self._operation.end(error)
        self.close(is_failed=isinstance(error, Exception))

    def close(self, *, is_failed: bool) -> None:
        """Removes an uncommitted directory; does nothing after a commit.

        Args:
            is_failed: whether other processes may still be writing into the
                directory.
        """
        if self.pending is None:
            self._operation.leave()
            return
        if is_failed:
            self._operation.wait_until_left()
        self.pending.discard()
