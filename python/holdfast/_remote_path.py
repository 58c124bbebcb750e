"""Paths of object stores, with the interface of `pathlib.Path`.

`RemotePath("gs://bucket/run") / "7"` is a path object whose methods go to the
engine, with its credentials and options; so a program's own handlers, which do
`(directory / "x.json").write_text(...)`, work there as they do on a disk.

Thread-safety: values; any number of threads. Errors: as `holdfast._files`.
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
    """The path of a URL; immutable, hashable, ordered by its text.

    It has what `pathlib.Path` and `etils.epath.Path` have, as far as it means
    something in an object store: a directory exists while something lies in
    it, `mkdir` does nothing, and there are no links, owners or permissions.
    """

    __slots__ = ("_inside", "_query", "_root")

    def __init__(self, *parts: PathLike) -> None:
        """Joins texts and path objects, the first of which is a URL.

        Raises:
            ValueError: it is not.
        """
        first = os.fspath(parts[0]) if parts else ""
        if not _files.is_url(first):
            raise ValueError(f"{first!r} is not a URL")
        root, inside, query = _files.split_url(first)
        names = [name for name in inside.split("/") if name not in ("", ".")]
        for part in parts[1:]:
            text = os.fspath(part)
            if _files.is_url(text):  # as an absolute path does
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
        """The URL."""
        return str(self)

    def as_uri(self) -> str:
        """The URL."""
        return str(self)

    # ---- its parts

    @property
    def anchor(self) -> str:
        """`gs://bucket/`."""
        return f"{self._root}/"

    @property
    def drive(self) -> str:
        """`gs://bucket`."""
        return self._root

    @property
    def root(self) -> str:
        """A slash."""
        return "/"

    @property
    def parts(self) -> tuple[str, ...]:
        """The anchor, and the names."""
        return (self.anchor, *self._inside)

    @property
    def name(self) -> str:
        """The last name; empty of a bucket."""
        return self._inside[-1] if self._inside else ""

    @property
    def suffix(self) -> str:
        """`.json` of `x.json`."""
        return pathlib.PurePosixPath(self.name).suffix

    @property
    def suffixes(self) -> list[str]:
        """`[".tar", ".gz"]` of `x.tar.gz`."""
        return pathlib.PurePosixPath(self.name).suffixes

    @property
    def stem(self) -> str:
        """`x` of `x.json`."""
        return pathlib.PurePosixPath(self.name).stem

    @property
    def parent(self) -> RemotePath:
        """The directory it is in; a bucket is its own."""
        return self._with(self._inside[:-1])

    @property
    def parents(self) -> tuple[RemotePath, ...]:
        """The directories above it, the nearest first."""
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
        # When both paths are absolute, the second one counts.
        return self

    def joinpath(self, *others: PathLike) -> RemotePath:
        """The path below it; a URL or an absolute path replaces it."""
        return type(self)(self, *others)

    def with_name(self, name: str) -> RemotePath:
        """Another last name.

        Raises:
            ValueError: it has none, or `name` is not a plain name.
        """
        if not self._inside or not name or "/" in name or name == ".":
            raise ValueError(f"{self}: no name {name!r} is possible")
        return self._with((*self._inside[:-1], name))

    def with_suffix(self, suffix: str) -> RemotePath:
        """Another suffix."""
        name = pathlib.PurePosixPath(self.name).with_suffix(suffix).name
        return self.with_name(name)

    def with_stem(self, stem: str) -> RemotePath:
        """Another stem."""
        return self.with_name(stem + self.suffix)

    def is_absolute(self) -> bool:
        """True."""
        return True

    def is_relative_to(self, *others: PathLike) -> bool:
        """Whether it is `others`, or below it."""
        try:
            self.relative_to(*others)
        except ValueError:
            return False
        return True

    def relative_to(self, *others: PathLike) -> pathlib.PurePosixPath:
        """The path to join to `others` to get this path.

        Raises:
            ValueError: it is not below.
        """
        base = type(self)(*others)
        count = len(base._inside)
        if base._root != self._root or base._inside != self._inside[:count]:
            raise ValueError(f"{self} is not below {base}")
        return pathlib.PurePosixPath(*self._inside[count:])

    def resolve(self, strict: bool = False) -> RemotePath:
        """Without `..`.

        Raises:
            FileNotFoundError: `strict`, and nothing is there.
        """
        resolved = type(self)(_files.abspath(self))
        if strict and not resolved.exists():
            raise errors.NotFoundError(f"resolve {self}: nothing is there")
        return resolved

    def absolute(self) -> RemotePath:
        """Itself."""
        return self

    def expanduser(self) -> RemotePath:
        """Itself."""
        return self

    def match(self, path_pattern: str) -> bool:
        """Whether the last names match the pattern's."""
        return pathlib.PurePosixPath(*self._inside).match(path_pattern)

    # ---- looking

    def exists(self) -> bool:
        """Whether anything is there."""
        return _files.exists(self)

    def is_dir(self) -> bool:
        """Whether anything lies below it."""
        return _files.isdir(self)

    def is_file(self) -> bool:
        """Whether it is an object."""
        return _files.isfile(self)

    def is_symlink(self) -> bool:
        """False."""
        return False

    def is_mount(self) -> bool:
        """False."""
        return False

    def samefile(self, other_path: PathLike) -> bool:
        """Whether both are one URL."""
        return _files.abspath(self) == _files.abspath(other_path)

    def stat(self, *, follow_symlinks: bool = True) -> Any:
        """Type, size in bytes and time; a directory's time is 0.

        Raises:
            FileNotFoundError: nothing is there.
        """
        return _files.stat(self)

    def iterdir(self) -> Iterator[RemotePath]:
        """The children of it, by name; none if nothing is there."""
        for name in _files.listdir(self):
            yield self / name

    def glob(self, pattern: str) -> Iterator[RemotePath]:
        """The paths below it that match, as `pathlib.Path.glob`.

        Raises:
            ValueError: an empty or an absolute pattern.
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
        """`glob` in it and in everything below."""
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
        """Directories with their contents, as `os.walk`."""
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
        """A file object; see `holdfast._files.open`."""
        return _files.open(self, mode, encoding=encoding)

    def read_bytes(self) -> bytes:
        """The whole file.

        Raises:
            FileNotFoundError: it does not exist.
        """
        return _files.read_bytes(self)

    def read_text(
        self, encoding: str | None = None, errors: str | None = None
    ) -> str:
        """The whole file as a text, UTF-8 unless said otherwise."""
        return self.read_bytes().decode(encoding or "utf-8", errors or "strict")

    def write_bytes(self, data: Any) -> int:
        """Writes the whole file."""
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
        """Writes the whole file, UTF-8 unless said otherwise."""
        self.write_bytes(data.encode(encoding or "utf-8", errors or "strict"))
        return len(data)

    def touch(self, mode: int = 0o666, exist_ok: bool = True) -> None:
        """Makes an empty file where none exists.

        Raises:
            FileExistsError: without `exist_ok`, there is one.
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
        """Does nothing: a directory is there when something lies in it.

        Raises:
            FileExistsError: without `exist_ok`, something does; a file.
        """
        if exist_ok:
            return
        if self.exists():
            raise errors.AlreadyExistsError(f"make directory {self}: it exists")

    def rmdir(self) -> None:
        """Does nothing to an empty directory.

        Raises:
            OSError: something lies in it.
        """
        _files.rmdir(self)

    def rmtree(self, missing_ok: bool = False) -> None:
        """Removes it and all below it, markers of commits first.

        Raises:
            FileNotFoundError: without `missing_ok`, nothing is there.
        """
        try:
            _files.rmtree(self)
        except FileNotFoundError:
            if not missing_ok:
                raise

    def unlink(self, missing_ok: bool = False) -> None:
        """Removes a file.

        Raises:
            FileNotFoundError: without `missing_ok`, it does not exist.
        """
        try:
            _files.unlink(self)
        except FileNotFoundError:
            if not missing_ok:
                raise

    def rename(self, target: PathLike) -> Any:
        """Moves it in its bucket; see `holdfast._files.rename`."""
        _files.rename(self, target)
        return as_path(target)

    def replace(self, target: PathLike) -> Any:
        """Moves it in its bucket; a file replaces another."""
        _files.replace(self, target)
        return as_path(target)

    def copy(self, dst: PathLike, overwrite: bool = False) -> Any:
        """Copies a file, to a path or to any URL.

        Raises:
            FileExistsError: without `overwrite`, something is there.
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
    """A RemotePath of URLs, else a `pathlib.Path`."""
    _files.check_expanded(path)
    return RemotePath(path) if _files.is_url(path) else pathlib.Path(path)


def as_path(path: PathLike) -> Any:
    """The path object of a path or URL.

    A RemotePath of URLs; else an `etils.epath.Path` in programs that use
    etils, as with Orbax, and a `pathlib.Path` in others. etils learns of
    RemotePath as of one of its own, so that `epath.Path(path)` gives it back.

    Raises InvalidArgumentError for a "~" that no shell has expanded.
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
