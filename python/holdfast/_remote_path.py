"""Paths in object stores, with the interface of `pathlib.Path`.

`RemotePath("gs://bucket/run") / "7"` is a path object whose methods call the
engine, with the engine's credentials and options. A program's own handlers,
which call `(directory / "x.json").write_text(...)`, work there as on a disk.

Thread-safety: values; any number of threads. Errors: as in `holdfast._files`.
"""

from __future__ import annotations

import fnmatch
import os
import pathlib
import sys
from collections.abc import Iterator, Sequence
from typing import IO, Any

from holdfast import _files, errors

PathLike = str | os.PathLike[str]


class RemotePath(os.PathLike[str]):
    """The path of a URL: immutable, hashable, ordered by its text.

    It has the methods of `pathlib.Path` and `etils.epath.Path` that make sense
    in an object store. A directory exists while it contains something, `mkdir`
    does nothing, and there are no links, owners or permissions.
    """

    __slots__ = ("_inside", "_query", "_root")

    def __init__(self, *parts: PathLike) -> None:
        """Joins strings and path objects; the first must be a URL.

        Raises:
            ValueError: the first part is not a URL.
        """
        first = os.fspath(parts[0]) if parts else ""
        if not _files.is_url(first):
            raise ValueError(f"{first!r} is not a URL")
        root, inside, query = _files.split_url(first)
        names = [name for name in inside.split("/") if name not in ("", ".")]
        for part in parts[1:]:
            text = os.fspath(part)
            if _files.is_url(text):  # replaces the path, like an absolute path
                root, inside, query = _files.split_url(text)
                names, text = [], inside
            elif text.startswith("/"):
                names = []
            names += [name for name in text.split("/") if name not in ("", ".")]
        self._root = root
        self._inside = tuple(names)
        self._query = query

    def _with(self, names: Sequence[str]) -> RemotePath:
        made = object.__new__(type(self))
        made._root, made._query = self._root, self._query
        made._inside = tuple(names)
        return made

    # ---- the text

    def __fspath__(self) -> str:
        return "/".join((self._root, *self._inside)) + self._query

    def __str__(self) -> str:
        return self.__fspath__()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def __reduce__(self) -> Any:
        return type(self), (str(self),)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RemotePath):
            return NotImplemented
        return str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __lt__(self, other: RemotePath) -> bool:
        if not isinstance(other, RemotePath):
            return NotImplemented
        return self.parts < other.parts

    def __le__(self, other: RemotePath) -> bool:
        if not isinstance(other, RemotePath):
            return NotImplemented
        return self.parts <= other.parts

    def __gt__(self, other: RemotePath) -> bool:
        if not isinstance(other, RemotePath):
            return NotImplemented
        return self.parts > other.parts

    def __ge__(self, other: RemotePath) -> bool:
        if not isinstance(other, RemotePath):
            return NotImplemented
        return self.parts >= other.parts

    def as_posix(self) -> str:
        """Returns the URL."""
        return str(self)

    def as_uri(self) -> str:
        """Returns the URL."""
        return str(self)

    # ---- its parts

    @property
    def anchor(self) -> str:
        """Bucket and slash, such as `gs://bucket/`."""
        return f"{self._root}/"

    @property
    def drive(self) -> str:
        """The bucket, such as `gs://bucket`."""
        return self._root

    @property
    def root(self) -> str:
        """A slash."""
        return "/"

    @property
    def parts(self) -> tuple[str, ...]:
        """The anchor, followed by the names."""
        return (self.anchor, *self._inside)

    @property
    def name(self) -> str:
        """The last name; empty for a bucket."""
        return self._inside[-1] if self._inside else ""

    @property
    def suffix(self) -> str:
        """The extension: `.json` for `x.json`."""
        return pathlib.PurePosixPath(self.name).suffix

    @property
    def suffixes(self) -> list[str]:
        """All extensions: `[".tar", ".gz"]` for `x.tar.gz`."""
        return pathlib.PurePosixPath(self.name).suffixes

    @property
    def stem(self) -> str:
        """The name without its extension: `x` for `x.json`."""
        return pathlib.PurePosixPath(self.name).stem

    @property
    def parent(self) -> RemotePath:
        """The parent directory; a bucket is its own parent."""
        return self._with(self._inside[:-1])

    @property
    def parents(self) -> tuple[RemotePath, ...]:
        """The parent directories, nearest first."""
        count = len(self._inside)
        return tuple(
            self._with(self._inside[:n]) for n in reversed(range(count))
        )

    # ---- other paths

    def __truediv__(self, other: PathLike) -> RemotePath:
        if not isinstance(other, str | os.PathLike):
            return NotImplemented
        return self.joinpath(other)

    def __rtruediv__(self, other: PathLike) -> RemotePath:
        # When both paths are absolute, the second path is the result.
        return self

    def joinpath(self, *others: PathLike) -> RemotePath:
        """Appends `others`; a URL or an absolute path replaces the path."""
        return type(self)(self, *others)

    def with_name(self, name: str) -> RemotePath:
        """Returns the path with its last name replaced.

        Raises:
            ValueError: the path has no name, or `name` is not a plain name.
        """
        if not self._inside or not name or "/" in name or name == ".":
            raise ValueError(f"{self}: no name {name!r} is possible")
        return self._with((*self._inside[:-1], name))

    def with_suffix(self, suffix: str) -> RemotePath:
        """Returns the path with its extension replaced."""
        name = pathlib.PurePosixPath(self.name).with_suffix(suffix).name
        return self.with_name(name)

    def with_stem(self, stem: str) -> RemotePath:
        """Returns the path with its stem replaced."""
        return self.with_name(stem + self.suffix)

    def is_absolute(self) -> bool:
        """Returns True."""
        return True

    def is_relative_to(self, *others: PathLike) -> bool:
        """Returns whether the path is `others` or below it."""
        try:
            self.relative_to(*others)
        except ValueError:
            return False
        return True

    def relative_to(self, *others: PathLike) -> pathlib.PurePosixPath:
        """Returns the path that leads to this path when joined to `others`.

        Raises:
            ValueError: this path is not below `others`.
        """
        base = type(self)(*others)
        count = len(base._inside)
        if base._root != self._root or base._inside != self._inside[:count]:
            raise ValueError(f"{self} is not below {base}")
        return pathlib.PurePosixPath(*self._inside[count:])

    def resolve(self, strict: bool = False) -> RemotePath:
        """Returns the path without `..`.

        Raises:
            FileNotFoundError: `strict` is set and the path does not exist.
        """
        resolved = type(self)(_files.abspath(self))
        if strict and not resolved.exists():
            raise errors.NotFoundError(f"resolve {self}: nothing is there")
        return resolved

    def absolute(self) -> RemotePath:
        """Returns the path itself."""
        return self

    def expanduser(self) -> RemotePath:
        """Returns the path itself."""
        return self

    def match(self, path_pattern: str) -> bool:
        """Returns whether the last names match the pattern's names."""
        return pathlib.PurePosixPath(*self._inside).match(path_pattern)

    # ---- looking

    def exists(self) -> bool:
        """Returns whether the path exists."""
        return _files.exists(self)

    def is_dir(self) -> bool:
        """Returns whether anything exists below the path."""
        return _files.isdir(self)

    def is_file(self) -> bool:
        """Returns whether the path is an object."""
        return _files.isfile(self)

    def is_symlink(self) -> bool:
        """Returns False."""
        return False

    def is_mount(self) -> bool:
        """Returns False."""
        return False

    def samefile(self, other_path: PathLike) -> bool:
        """Returns whether both are the same URL."""
        return _files.abspath(self) == _files.abspath(other_path)

    def stat(self, *, follow_symlinks: bool = True) -> Any:
        """Returns type, size in bytes and modification time; the time is 0 for
        a directory.

        Raises:
            FileNotFoundError: the path does not exist.
        """
        return _files.stat(self)

    def iterdir(self) -> Iterator[RemotePath]:
        """Yields the children, sorted by name; nothing if the path does not
        exist."""
        for name in _files.listdir(self):
            yield self / name

    def glob(self, pattern: str) -> Iterator[RemotePath]:
        """Yields the matching paths below this path, like `pathlib.Path.glob`.

        Raises:
            ValueError: the pattern is empty or absolute.
        """
        names = pattern.split("/")
        if not pattern or pattern.startswith("/"):
            raise ValueError(f"Unacceptable pattern: {pattern!r}")
        seen = set()
        for path in self._glob([name for name in names if name]):
            if path not in seen:
                seen.add(path)
                yield path

    def rglob(self, pattern: str) -> Iterator[RemotePath]:
        """Yields the matches of `glob` in this directory and all directories
        below it."""
        return self.glob(f"**/{pattern}")

    def _glob(self, names: Sequence[str]) -> Iterator[RemotePath]:
        if not names:
            yield self
            return
        first, rest = names[0], names[1:]
        if first == "**":
            yield from self._glob(rest)
            for entry in _files.scandir(self):
                if entry.is_dir():
                    yield from (self / entry.name)._glob(names)
            return
        if not any(c in first for c in "*?["):
            path = self / first
            if rest or path.exists():
                yield from path._glob(rest)
            return
        for entry in _files.scandir(self):
            is_wanted = fnmatch.fnmatchcase(entry.name, first)
            if is_wanted and (not rest or entry.is_dir()):
                yield from (self / entry.name)._glob(rest)

    def walk(
        self, *, top_down: bool = True
    ) -> Iterator[tuple[RemotePath, list[str], list[str]]]:
        """Yields directories with their contents, like `os.walk`."""
        entries = list(_files.scandir(self))
        directories = [e.name for e in entries if e.is_dir()]
        files = [e.name for e in entries if not e.is_dir()]
        if top_down:
            yield self, directories, files
        for name in directories:
            yield from (self / name).walk(top_down=top_down)
        if not top_down:
            yield self, directories, files

    # ---- reading and writing

    def open(
        self,
        mode: str = "r",
        encoding: str | None = None,
        errors: str | None = None,
        **unused: Any,
    ) -> IO[Any]:
        """Opens the file; see `holdfast._files.open`."""
        return _files.open(self, mode, encoding=encoding)

    def read_bytes(self) -> bytes:
        """Reads the complete file.

        Raises:
            FileNotFoundError: the file does not exist.
        """
        return _files.read_bytes(self)

    def read_text(
        self, encoding: str | None = None, errors: str | None = None
    ) -> str:
        """Reads the complete file as text, UTF-8 by default."""
        return self.read_bytes().decode(encoding or "utf-8", errors or "strict")

    def write_bytes(self, data: Any) -> int:
        """Writes the complete file; returns the number of bytes."""
        content = bytes(data)
        _files.write_bytes(self, content)
        return len(content)

    def write_text(
        self,
        data: str,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
    ) -> int:
        """Writes text as the complete file, UTF-8 by default."""
        self.write_bytes(data.encode(encoding or "utf-8", errors or "strict"))
        return len(data)

    def touch(self, mode: int = 0o666, exist_ok: bool = True) -> None:
        """Creates an empty file if the path does not exist.

        Raises:
            FileExistsError: the file exists and `exist_ok` is False.
        """
        try:
            _files.write_bytes(self, b"", must_create=True)
        except FileExistsError:
            if not exist_ok:
                raise

    # ---- changing

    def mkdir(
        self, mode: int = 0o777, parents: bool = False, exist_ok: bool = False
    ) -> None:
        """Does nothing: a directory exists when it contains something.

        Raises:
            FileExistsError: the path exists and `exist_ok` is False.
        """
        if exist_ok:
            return
        if self.exists():
            raise errors.AlreadyExistsError(f"make directory {self}: it exists")

    def rmdir(self) -> None:
        """Does nothing to an empty directory.

        Raises:
            OSError: the directory is not empty.
        """
        _files.rmdir(self)

    def rmtree(self, missing_ok: bool = False) -> None:
        """Removes the path and everything below it, commit markers first.

        Raises:
            FileNotFoundError: the path does not exist and `missing_ok` is
                False.
        """
        try:
            _files.rmtree(self)
        except FileNotFoundError:
            if not missing_ok:
                raise

    def unlink(self, missing_ok: bool = False) -> None:
        """Removes a file.

        Raises:
            FileNotFoundError: the file does not exist and `missing_ok` is
              False.
        """
        try:
            _files.unlink(self)
        except FileNotFoundError:
            if not missing_ok:
                raise

    def rename(self, target: PathLike) -> Any:
        """Moves the path within its bucket; see `holdfast._files.rename`."""
        _files.rename(self, target)
        return as_path(target)

    def replace(self, target: PathLike) -> Any:
        """Moves the path within its bucket; a file may replace a file."""
        _files.replace(self, target)
        return as_path(target)

    def copy(self, dst: PathLike, overwrite: bool = False) -> Any:
        """Copies a file to a path or a URL.

        Raises:
            FileExistsError: `dst` exists and `overwrite` is False.
        """
        if not overwrite and _files.exists(dst):
            raise errors.AlreadyExistsError(
                f"copy {self} to {os.fspath(dst)}: it exists"
            )
        _files.copyfile(self, dst)
        return as_path(dst)

    def chmod(self, mode: int, *, follow_symlinks: bool = True) -> None:
        """Does nothing: objects have no permission bits."""


_libraries_told: set[str] = set()


def plain_path(path: PathLike) -> Any:
    """Returns a RemotePath for a URL, and a `pathlib.Path` otherwise."""
    _files.check_expanded(path)
    return RemotePath(path) if _files.is_url(path) else pathlib.Path(path)


def as_path(path: PathLike) -> Any:
    """Returns the path object for a path or URL.

    For a URL it is a RemotePath; otherwise an `etils.epath.Path` in programs
    that use etils, as with Orbax, and a `pathlib.Path` in other programs.
    RemotePath is registered with etils, so `epath.Path(path)` returns it
    unchanged.

    Raises InvalidArgumentError for a "~" that was not expanded.
    """
    _files.check_expanded(path)
    epath = sys.modules.get("etils.epath")
    if not _files.is_url(path):
        return pathlib.Path(path) if epath is None else epath.Path(path)
    if epath is not None and "etils" not in _libraries_told:
        _libraries_told.add("etils")
        epath.register_path_cls(RemotePath)
    if isinstance(path, RemotePath):
        return path
    return RemotePath(path)
