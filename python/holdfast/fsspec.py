"""Checkpoints as files for fsspec: `holdfast://PATH/as/npz/arrays.npz`.

    import fsspec
    model = "holdfast:///ckpt/7/as/safetensors/model.safetensors"
    with fsspec.open(model) as file:
        head = file.read(8)

PATH is any path or URL that `holdfast.open` accepts. Below it are
`as/safetensors`, `as/npz`, `as/zarr` and `files`, as in `holdfast serve`. The
files of the first three are virtual: their bytes are made when they are read,
and equal those that `holdfast convert` would write. Once holdfast is installed,
fsspec finds the protocol by itself.
"""

from __future__ import annotations

import posixpath
import re
import threading
from typing import Any

from fsspec.spec import AbstractBufferedFile, AbstractFileSystem

from holdfast import _engine

__all__ = ["HoldfastFile", "HoldfastFileSystem"]

_INSIDE = (
    re.compile(
        r"(?P<checkpoint>.*)/(?P<name>as/(?:safetensors|npz|zarr)(?:/.*)?)"
    ),
    re.compile(r"(?P<checkpoint>.*)/(?P<name>as|files(?:/.*)?)"),
)


class HoldfastFile(AbstractBufferedFile):  # type: ignore[misc]
    """A virtual file, open for reading. It shows the checkpoint as it was when
    the file was opened, even if the checkpoint is replaced later."""

    def __init__(
        self,
        fs: HoldfastFileSystem,
        path: str,
        files: _engine.VirtualFiles,
        name: str,
        **kwargs: Any,
    ) -> None:
        self._files = files
        self._name = name
        super().__init__(fs, path, "rb", **kwargs)

    def _fetch_range(self, start: int, end: int) -> bytes:
        end = min(end, self.size)
        return self._files.read(self._name, start, max(0, end - start))

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process opens the checkpoint that exists then.
        return _opened_at, (self.fs, self.path, self.blocksize, self.tell())


class HoldfastFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """A read-only file system of checkpoints.

    Args:
      checkpoint: the checkpoint that paths are relative to
        ("as/npz/arrays.npz"). Without it, a path begins with the checkpoint's
        path.
      step: a root's step; None means the newest one at first use.
      kept_bytes_max: the most bytes of decoded blocks kept per checkpoint.

    A checkpoint is opened once; for a root, the step that is newest at that
    time. `invalidate_cache` drops all opened checkpoints. After a checkpoint
    was replaced, every use of it fails until `invalidate_cache` is called, and
    its open files fail permanently, so no reader gets parts of both.

    Raises (on use):
      FileNotFoundError: the file or the checkpoint does not exist.
      holdfast.errors.DataLossError: bytes are damaged, or the checkpoint was
        replaced or changed since it was opened.
    """

    protocol = "holdfast"
    root_marker = ""

    def __init__(
        self,
        checkpoint: str | None = None,
        *,
        step: int | None = None,
        kept_bytes_max: int = 256 << 20,
        **storage_options: Any,
    ) -> None:
        super().__init__(**storage_options)
        self._checkpoint = checkpoint
        self._step = step
        self._kept_bytes_max = kept_bytes_max
        self._lock = threading.Lock()
        self._opened: dict[str, _engine.VirtualFiles] = {}

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        text = str(path)
        if text.startswith("holdfast://"):
            text = text[len("holdfast://") :]
        return text.rstrip("/") if len(text) > 1 else text

    def _find(self, path: str) -> tuple[str, _engine.VirtualFiles, str]:
        """Returns the part of `path` before the name, the checkpoint's files,
        and the name."""
        path = self._strip_protocol(path)
        before, name = "", path.strip("/")
        checkpoint = self._checkpoint
        if checkpoint is None:
            for pattern in _INSIDE:
                match = pattern.fullmatch(path)
                if match:
                    before, name = match["checkpoint"] + "/", match["name"]
                    break
            else:
                before, name = path + "/", ""
            checkpoint = before[:-1]
        with self._lock:
            files = self._opened.get(checkpoint)
            if files is None:
                files = _engine.VirtualFiles.open(
                    checkpoint,
                    step=self._step,
                    kept_bytes_max=self._kept_bytes_max,
                )
                self._opened[checkpoint] = files
        return before, files, name

    def invalidate_cache(self, path: str | None = None) -> None:
        """Drops all opened checkpoints."""
        with self._lock:
            self._opened.clear()
        super().invalidate_cache(path)

    @staticmethod
    def _entry(
        before: str, files: _engine.VirtualFiles, stat: tuple[str, bool, int]
    ) -> dict[str, Any]:
        name, is_directory, byte_count = stat
        entry: dict[str, Any] = {
            "name": (before + name).rstrip("/"),
            "type": "directory" if is_directory else "file",
            "size": 0 if is_directory else byte_count,
        }
        if not is_directory:
            entry["ETag"] = files.tag(name)
        return entry

    def info(self, path: str, **kwargs: Any) -> dict[str, Any]:
        before, files, name = self._find(path)
        return self._entry(before, files, files.stat(name))

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> list[Any]:
        before, files, name = self._find(path)
        stat = files.stat(name)
        if stat[1]:
            entries = [
                self._entry(
                    before, files, (posixpath.join(name, last), is_dir, size)
                )
                for last, is_dir, size in files.list(name)
            ]
        else:
            entries = [self._entry(before, files, stat)]
        return entries if detail else [entry["name"] for entry in entries]

    def cat_file(
        self,
        path: str,
        start: int | None = None,
        end: int | None = None,
        **kwargs: Any,
    ) -> bytes:
        _, files, name = self._find(path)
        _, is_directory, byte_count = files.stat(name)
        if is_directory:
            raise IsADirectoryError(path)
        first, last, _ = slice(start, end).indices(byte_count)
        return files.read(name, first, max(0, last - first))

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | str | None = None,
        autocommit: bool = True,
        cache_options: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> HoldfastFile:
        if mode != "rb":
            raise NotImplementedError(
                f"{path}: checkpoints are read-only (mode rb)"
            )
        _, files, name = self._find(path)
        _, is_directory, byte_count = files.stat(name)
        if is_directory:
            raise IsADirectoryError(path)
        return HoldfastFile(
            self,
            path,
            files,
            name,
            block_size=block_size or self.blocksize,
            autocommit=autocommit,
            cache_options=cache_options,
            size=byte_count,
            **kwargs,
        )

    def created(self, path: str) -> Any:
        raise NotImplementedError

    def modified(self, path: str) -> Any:
        raise NotImplementedError


def _opened_at(
    fs: HoldfastFileSystem, path: str, block_size: int, offset: int
) -> HoldfastFile:
    file = fs.open(path, "rb", block_size=block_size)
    file.seek(offset)
    return file  # type: ignore[no-any-return]
