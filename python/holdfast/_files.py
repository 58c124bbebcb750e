"""The functions of `os`, `os.path` and `shutil` that checkpoints need, for
paths and URLs.

A path is passed unchanged to the function of the same name. A URL (gs://,
s3://, http(s):// for reading) goes to the engine. In object storage a directory
is only a common prefix of names: creating one does nothing, an empty directory
does not exist, and listing it returns nothing. There are no links or
permissions. Nothing needs a sync, because written bytes are durable.

Thread-safety: any number of threads. Units: bytes; times are seconds since
1970. Errors: for paths, the OSError of the function with the same name; for
URLs, those of `holdfast.errors`, which derive from the same built-in classes:
FileNotFoundError (also for a missing bucket), FileExistsError, PermissionError
(missing, wrong or expired credentials; access denied), NotImplementedError (the
storage does not support the operation). If it cannot be determined whether an
object exists, an error is raised; the object never counts as missing.
"""

from __future__ import annotations

import builtins
import contextlib
import contextvars
import dataclasses
import errno
import os
import posixpath
import re
import shutil
import stat as stat_bits
from collections.abc import Callable, Iterator
from typing import IO, Any, TypeVar

from holdfast import _engine, errors
from holdfast._remote_files import open_url

PathLike = str | os.PathLike[str]
T = TypeVar("T")

# The errors raised by file systems that cannot rename directories.
_NO_RENAMES = frozenset({errno.ENOSYS, errno.EOPNOTSUPP, errno.EXDEV})

# The file that records a directory's files as they were saved.
DIGEST_FILE = "_HOLDFAST_DIGESTS"

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://[^/?#]*)([^?#]*)(.*)", re.DOTALL)

_MISSING, _FILE, _DIRECTORY = 0, 1, 2  # PlaceInfo::Kind


def is_url(path: Any) -> bool:
    """Returns whether `path` is a string or path object of the form
    `scheme://…`."""
    if isinstance(path, os.PathLike):
        path = os.fspath(path)
    return isinstance(path, str) and _URL.match(path) is not None


def is_known(path: PathLike) -> bool:
    """Returns whether `path` is a path, or a URL with a scheme that holdfast
    reads."""
    scheme = os.fspath(path).partition("://")[0].lower()
    return not is_url(path) or scheme in ("gs", "s3", "hf", "http", "https")


def split_url(url: PathLike) -> tuple[str, str, str]:
    """Returns root, path and query of a URL: `("gs://bucket", "/a/b", "")`."""
    match = _URL.fullmatch(os.fspath(url))
    if match is None:
        raise ValueError(f"{os.fspath(url)!r} is not a URL")
    return match[1], match[2], match[3]


def data_file_bytes(path: PathLike) -> int:
    """Returns the size at which data files are closed: 2 GiB; 400 MiB in
    buckets."""
    return 400 << 20 if is_url(path) else 2 << 30


# ---- names


def check_expanded(path: PathLike) -> None:
    """Raises InvalidArgumentError for a "~" that was not expanded."""
    text = os.fspath(path)
    if text == "~" or text.startswith("~/"):
        raise errors.InvalidArgumentError(
            f'path {text}: a shell expands "~", and holdfast does not; give'
            " os.path.expanduser(path), or ./~ for a directory of this name"
        )


def abspath(path: PathLike) -> str:
    """`os.path.abspath`; for a URL, removes `.`, `..` and superfluous
    slashes."""
    if not is_url(path):
        check_expanded(path)
        return os.path.abspath(path)
    root, inside, query = split_url(path)
    normal = posixpath.normpath("/" + inside.strip("/"))
    return root + ("" if normal == "/" else normal) + query


def normpath(path: PathLike) -> str:
    """`os.path.normpath`; for a URL, the same as `abspath`."""
    return abspath(path) if is_url(path) else os.path.normpath(path)


def isabs(path: PathLike) -> bool:
    """`os.path.isabs`; returns True for URLs."""
    return is_url(path) or os.path.isabs(path)


def dirname(path: PathLike) -> str:
    """`os.path.dirname`; returns a bucket unchanged."""
    if not is_url(path):
        return os.path.dirname(path)
    root, inside, _ = split_url(path)
    return root + posixpath.dirname(inside).rstrip("/")


# ---- looking


# Responses about buckets that were received in the current call.
_answers: contextvars.ContextVar[dict[tuple[Any, ...], Any] | None]
_answers = contextvars.ContextVar("holdfast answers", default=None)


@contextlib.contextmanager
def asking_once() -> Iterator[None]:
    """Caches the bucket listings and files that are read within the block.

    Use it only for calls that read, because the block does not see changes that
    other programs make in the meantime. Threads that the block starts share the
    cache only if they run in its `contextvars` context.
    """
    if _answers.get() is not None:
        yield
        return
    token = _answers.set({})
    try:
        yield
    finally:
        _answers.reset(token)


def once(key: tuple[Any, ...], make: Callable[[], T]) -> T:
    """Returns the result of `make`, cached by `key` within `asking_once`."""
    answers = _answers.get()
    if answers is None:
        return make()
    if key not in answers:
        answers[key] = make()
    answer: T = answers[key]
    return answer


def _ask(question: Callable[[str], T], path: PathLike) -> T:
    """Returns the result of `question(path)`; within `asking_once`, results for
    URLs are cached."""
    text = os.fspath(path)
    if not is_url(text):
        return question(text)
    return once((question, text), lambda: question(text))


def _forget() -> None:
    """Drops the cached responses. Call this before a change."""
    answers = _answers.get()
    if answers is not None:
        answers.clear()


def _info(path: PathLike) -> tuple[int, int, int]:
    return _ask(_engine.stat_place, path)


def _kind(path: PathLike) -> int:
    try:
        return _info(path)[0]
    except errors.NotFoundError:  # the bucket is missing
        return _MISSING


def exists(path: PathLike) -> bool:
    """`os.path.exists`."""
    if not is_url(path):
        return os.path.exists(path)
    return _kind(path) != _MISSING


def lexists(path: PathLike) -> bool:
    """`os.path.lexists`."""
    return exists(path) if is_url(path) else os.path.lexists(path)


def isdir(path: PathLike) -> bool:
    """`os.path.isdir`."""
    return _kind(path) == _DIRECTORY if is_url(path) else os.path.isdir(path)


def isfile(path: PathLike) -> bool:
    """`os.path.isfile`."""
    return _kind(path) == _FILE if is_url(path) else os.path.isfile(path)


def islink(path: PathLike) -> bool:
    """`os.path.islink`."""
    return not is_url(path) and os.path.islink(path)


@dataclasses.dataclass(frozen=True)
class RemoteStat:
    """The metadata of a URL; also has the member names of `etils.epath`.

    Attributes:
        st_mode: the bits of a regular file or directory, and all permissions.
        st_size: bytes of a file; 0 for a directory.
        st_mtime_ns: nanoseconds since 1970; 0 if not known.
    """

    st_mode: int
    st_size: int
    st_mtime_ns: int

    @property
    def st_mtime(self) -> float:
        """Seconds since 1970."""
        return self.st_mtime_ns / 1e9

    @property
    def is_directory(self) -> bool:
        """Whether this is a directory."""
        return stat_bits.S_ISDIR(self.st_mode)

    @property
    def length(self) -> int:
        """The size in bytes."""
        return self.st_size

    @property
    def mtime(self) -> int:
        """The modification time in whole seconds since 1970."""
        return self.st_mtime_ns // 10**9


def _stat_result(info: tuple[int, int, int]) -> RemoteStat:
    kind, byte_count, modified_ns = info
    mode = stat_bits.S_IFDIR | 0o777
    if kind == _FILE:
        mode = stat_bits.S_IFREG | 0o666
    return RemoteStat(mode, byte_count, modified_ns)


def stat(path: PathLike) -> os.stat_result | RemoteStat:
    """`os.stat`; a URL has only type, size and times (0 if not known)."""
    if not is_url(path):
        return os.stat(path)
    info = _info(path)
    if info[0] == _MISSING:
        raise errors.NotFoundError(f"stat {os.fspath(path)}: nothing is there")
    return _stat_result(info)


def getsize(path: PathLike) -> int:
    """`os.path.getsize`."""
    return stat(path).st_size


class DirEntry:
    """`os.DirEntry` for a directory at a URL; sends no further requests."""

    def __init__(
        self, directory: str, name: str, info: tuple[int, int, int]
    ) -> None:
        self.name = name
        self.path = posixpath.join(directory, name)
        self._info = info

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        return self._info[0] == _DIRECTORY

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        return self._info[0] == _FILE

    def is_symlink(self) -> bool:
        return False

    def stat(self, *, follow_symlinks: bool = True) -> RemoteStat:
        return _stat_result(self._info)

    def __fspath__(self) -> str:
        return self.path


AnyEntry = os.DirEntry[str] | DirEntry


class _Entries:
    """The result of `os.scandir`."""

    def __init__(self, entries: list[DirEntry]) -> None:
        self._entries = iter(entries)

    def __iter__(self) -> Iterator[AnyEntry]:
        return self

    def __next__(self) -> AnyEntry:
        return next(self._entries)

    def __enter__(self) -> _Entries:
        return self

    def __exit__(self, *raised: object) -> None:
        return None


def scandir(path: PathLike) -> Any:
    """`os.scandir`; in object stores the entries are sorted by name."""
    if not is_url(path):
        return os.scandir(path)
    text = os.fspath(path)
    rows = _ask(_engine.list_place, text)
    return _Entries([DirEntry(text, name, info) for name, info in rows])


def own_entries(path: PathLike) -> list[AnyEntry]:
    """Returns the entries of a checkpoint's directory, without files that
    operating systems add.

    Raises:
        FileNotFoundError: there is no such directory.
    """
    with scandir(path) as entries:
        return [
            entry
            for entry in entries
            if not _engine.is_nobodys_name(
                entry.name, is_directory=entry.is_dir(follow_symlinks=False)
            )
        ]


def checkpoint_exists(path: PathLike) -> bool:
    """Returns whether anything exists at a checkpoint's path.

    If an interrupted overwrite has moved a checkpoint aside, this first moves
    it back.
    """
    if exists(path):
        return True
    if is_url(path):
        return False
    _engine.bring_back_checkpoint(os.fspath(path))
    return exists(path)


def listdir(path: PathLike) -> list[str]:
    """`os.listdir`."""
    if not is_url(path):
        return os.listdir(path)
    return [name for name, _ in _ask(_engine.list_place, path)]


# ---- reading and writing


def open(
    path: PathLike, mode: str = "r", *, encoding: str | None = None
) -> IO[Any]:
    """The built-in `open`; a URL supports no "+" modes.

    A file at a URL appears complete when it is closed; nothing appears if its
    `with` block fails. There is no `fileno`.
    """
    if not is_url(path):
        return builtins.open(path, mode, encoding=encoding)
    if "r" not in mode:
        _forget()
    return open_url(os.fspath(path), mode, encoding=encoding)


def sync(file: IO[Any]) -> None:
    """Makes bytes written to a file durable. At a URL, closing the file does
    that.

    Raises:
        OSError: the sync failed.
    """
    file.flush()
    if not getattr(file, "is_remote", False):
        os.fsync(file.fileno())


def sync_directory(path: PathLike) -> None:
    """Makes the names in a directory durable if the system supports it.

    Raises:
        OSError: the sync failed.
    """
    if not is_url(path):
        _engine.sync_place_directory(os.fspath(path))


def read_bytes(path: PathLike) -> bytes:
    """Reads a complete file.

    Raises:
        FileNotFoundError: it does not exist.
    """
    if is_url(path):
        return _engine.read_place(os.fspath(path))
    with builtins.open(path, "rb") as file:
        return file.read()


def read_checked(path: PathLike) -> bytes:
    """Reads a complete file of a checkpoint and checks it.

    Raises:
        FileNotFoundError: the file does not exist and no checksum is recorded.
        DataLossError: the file does not match its checksum, or has a checksum
            but is missing.
    """
    return _ask(_engine.read_checked_file, path)


def refuse_lost(path: PathLike) -> None:
    """Raises if a missing file was lost; does nothing if it was never saved.

    Raises:
        LostFileError: the checkpoint's digests list the file, or list its
            directory's own digest file, which is missing as well.
    """
    digests = os.path.join(os.path.dirname(os.fspath(path)), DIGEST_FILE)
    for file in (path, digests):
        try:
            read_checked(file)
        except FileNotFoundError:
            continue
        except errors.DataLossError as error:
            raise errors.LostFileError(str(error)) from error


def write_bytes(
    path: PathLike, content: bytes, *, must_create: bool = False
) -> None:
    """Writes a complete file.

    Raises:
        FileExistsError: with `must_create`, the file exists.
    """
    if is_url(path):
        _forget()
        _engine.write_place(os.fspath(path), content, must_create=must_create)
        return
    with builtins.open(path, "xb" if must_create else "wb") as file:
        file.write(content)


# ---- changing


def mkdir(path: PathLike, mode: int = 0o777) -> None:
    """`os.mkdir`."""
    if not is_url(path):
        os.mkdir(path, mode)


def makedirs(path: PathLike, mode: int = 0o777, exist_ok: bool = False) -> None:
    """`os.makedirs`."""
    if not is_url(path):
        os.makedirs(path, mode, exist_ok)


def unlink(path: PathLike) -> None:
    """`os.unlink`."""
    if is_url(path):
        _forget()
        _engine.remove_place_file(os.fspath(path))
    else:
        os.unlink(path)


def rmdir(path: PathLike) -> None:
    """`os.rmdir`."""
    if not is_url(path):
        os.rmdir(path)
    elif listdir(path):
        raise OSError(
            errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), os.fspath(path)
        )


def rmtree(path: PathLike, ignore_errors: bool = False) -> None:
    """`shutil.rmtree`; for a URL, removes commit markers first."""
    if not is_url(path):
        shutil.rmtree(path, ignore_errors)
        return
    try:
        _forget()
        _engine.remove_place_tree(os.fspath(path))
    except (OSError, errors.HoldfastError):
        if not ignore_errors:
            raise


def rename(source: PathLike, target: PathLike) -> None:
    """`os.rename`; in an object store, copies and then removes.

    A rename in an object store takes several steps. A checkpoint's marker moves
    last.

    Raises:
        FileExistsError: a directory would replace something in a bucket.
        NotImplementedError: one of them is a path and the other a URL, or they
            are in different buckets.
    """
    if not is_url(source) and not is_url(target):
        os.rename(source, target)
        return
    if not is_url(source) or not is_url(target):
        raise errors.UnimplementedError(
            f"rename {os.fspath(source)} to {os.fspath(target)}: one is in a"
            " bucket and the other is not; holdfast.convert copies checkpoints"
        )
    is_directory = stat_bits.S_ISDIR(stat(source).st_mode)
    _forget()
    _engine.rename_place(
        os.fspath(source), os.fspath(target), is_directory=is_directory
    )


def rename_hidden(source: PathLike, target: PathLike) -> None:
    """Renames a directory that readers do not look into yet.

    If the file system cannot rename directories, renames the files one by one.
    """
    try:
        rename(source, target)
        return
    except OSError as error:
        if is_url(source) or error.errno not in _NO_RENAMES:
            raise
    os.mkdir(target)
    for directory, names, files in os.walk(source):
        below = os.path.join(target, os.path.relpath(directory, source))
        shutil.copymode(directory, below)
        for name in (*names, *files):
            path = os.path.join(directory, name)
            if os.path.isdir(path) and not os.path.islink(path):
                os.mkdir(os.path.join(below, name))
            else:
                os.rename(path, os.path.join(below, name))
    shutil.rmtree(source)


def replace(source: PathLike, target: PathLike) -> None:
    """`os.replace`."""
    if is_url(source) or is_url(target):
        rename(source, target)
    else:
        os.replace(source, target)


def copyfile(source: PathLike, target: PathLike) -> None:
    """`shutil.copyfile`; within a bucket the server copies the file."""
    if not is_url(source) and not is_url(target):
        shutil.copyfile(source, target)
        return
    _forget()
    _engine.copy_place_file(os.fspath(source), os.fspath(target))


def link(source: PathLike, target: PathLike) -> None:
    """`os.link`; a file at a URL is copied."""
    if is_url(source) or is_url(target):
        copyfile(source, target)
    else:
        os.link(source, target)
