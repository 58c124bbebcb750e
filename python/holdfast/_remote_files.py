"""File objects for URLs.

A reader requests pieces of one version of the object. A writer sends pieces as
they are written, and the object appears complete when the writer is closed.

Thread-safety: one thread at a time, like files. Units: bytes.
Errors: `holdfast.errors`; io.UnsupportedOperation for unsupported operations.
"""

from __future__ import annotations

import io
from typing import IO, Any

from holdfast import _engine, errors

# The number of bytes to read ahead, and to collect before an upload begins.
_READ_BYTES = 1 << 20
_PIECE_BYTES = 8 << 20


def open_url(url: str, mode: str, *, encoding: str | None = None) -> IO[Any]:
    """Opens the file at a URL; see `holdfast._files.open`.

    Raises:
        FileNotFoundError: a file to read does not exist.
        FileExistsError: with "x", the file exists when it is closed.
        ValueError: the mode is unknown.
    """
    kind = mode.replace("b", "").replace("t", "")
    if kind not in ("r", "w", "x", "a") or ("b" in mode and "t" in mode):
        raise ValueError(f"open {url}: mode {mode!r} is not supported for URLs")
    is_text = "b" not in mode
    if kind == "r":
        return _open_for_reading(url, is_text, encoding)
    writer = RemoteWriter(url, must_create=kind == "x")
    if kind == "a":
        writer.write(_content_or_nothing(url))
    if not is_text:
        return writer  # type: ignore[return-value]
    return _TextWriter(writer, encoding=encoding or "utf-8", newline="")


def _open_for_reading(url: str, is_text: bool, encoding: str | None) -> IO[Any]:
    if is_text:  # metadata, which is small and read completely
        whole = io.BytesIO(_engine.read_place(url))
        return io.TextIOWrapper(whole, encoding=encoding or "utf-8")
    return io.BufferedReader(RemoteReader(url), _READ_BYTES)


def _content_or_nothing(url: str) -> bytes:
    try:
        return _engine.read_place(url)
    except errors.NotFoundError:
        return b""


class RemoteReader(io.RawIOBase):
    """Reads one version of an object."""

    def __init__(self, url: str) -> None:
        """Checks that the object exists.

        Raises:
            FileNotFoundError: the object does not exist.
        """
        super().__init__()
        self.name = url
        self._reader = _engine.open_place_reader(url)
        self._offset = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._offset

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence == io.SEEK_CUR:
            offset += self._offset
        elif whence == io.SEEK_END:
            offset += self._reader.byte_count
        if offset < 0:
            raise ValueError(f"seek {self.name}: to {offset}")
        self._offset = offset
        return offset

    def _next(self, byte_count: int) -> bytes:
        count = min(byte_count, self._reader.byte_count - self._offset)
        if count <= 0:
            return b""
        piece = self._reader.read(self._offset, count)
        self._offset += len(piece)
        return piece

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        piece = self._next(len(view))
        view[: len(piece)] = piece
        return len(piece)

    def readall(self) -> bytes:
        return self._next(self._reader.byte_count)


class RemoteWriter(io.RawIOBase):
    """Writes an object in pieces of at most 8 MiB, sent as they are written.

    If its `with` block raises, no object is created.
    """

    # A remote file has no descriptor to sync.
    is_remote = True

    def __init__(self, url: str, *, must_create: bool = False) -> None:
        """Sends no request yet."""
        super().__init__()
        self.name = url
        self._must_create = must_create
        self._piece = bytearray()
        self._writer: _engine.PlaceWriter | None = None
        self._written = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._written

    def write(self, data: Any) -> int:
        if self.closed:
            raise ValueError(f"write {self.name}: the file is closed")
        view = memoryview(data).cast("B")
        self._piece += view
        self._written += len(view)
        if len(self._piece) >= _PIECE_BYTES and not self._must_create:
            self._send()
        return len(view)

    def _send(self) -> None:
        if self._writer is None:
            self._writer = _engine.open_place_writer(self.name)
        self._writer.append(bytes(self._piece))
        self._piece.clear()

    def discard(self) -> None:
        """Closes the writer without creating an object."""
        self._writer = None
        self._piece.clear()
        super().close()

    def close(self) -> None:
        if self.closed:
            return
        try:
            if self._writer is None:
                _engine.write_place(
                    self.name,
                    bytes(self._piece),
                    must_create=self._must_create,
                )
            else:
                self._send()
                self._writer.finish()
        finally:
            self.discard()

    def __exit__(
        self, _kind: object, error: BaseException | None, _trace: object
    ) -> None:
        if error is not None:
            self.discard()
        self.close()

    def __del__(self) -> None:
        # An unclosed writer has created no object.
        if not self.closed:
            self.discard()


class _TextWriter(io.TextIOWrapper):
    """Writes text to a RemoteWriter; if its block raises, no object is
    created."""

    is_remote = True

    def __init__(self, writer: RemoteWriter, **options: Any) -> None:
        super().__init__(writer, **options)
        self._remote = writer

    def __exit__(
        self, _kind: object, error: BaseException | None, _trace: object
    ) -> None:
        if error is not None:
            self._remote.discard()
        else:
            self.close()

    def __del__(self) -> None:
        if not self._remote.closed:
            self._remote.discard()
