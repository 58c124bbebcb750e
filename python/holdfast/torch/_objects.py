"""Values that are not tensors: plain ones, which are Orbax leaves, and objects.

torch.distributed.checkpoint hands over every such value as a file of
torch.save. None, bool, int, float, str, and lists and tuples of them become
leaves of their own kinds; anything else stays that file, as an array of bytes.
The item's custom metadata says which arrays those are, and which lists were
tuples.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from typing import Any

from holdfast import errors
from holdfast._lazy import importing
from holdfast.torch._names import Path

__all__ = [
    "check_harmless",
    "file_of",
    "is_plain",
    "is_torch_file",
    "plain_of",
    "tuples_in",
]

_ADVICE = (
    "loading it could run code of the file's; if you trust who wrote the"
    " checkpoint, pass weights_only=False to holdfast.torch.StorageReader"
)

_INT64_MIN = -(1 << 63)
_INT64_MAX = (1 << 63) - 1
_LIST_DEPTH_MAX = 32


def is_plain(value: Any, depth: int = 0) -> bool:
    """Whether Orbax has leaves for it that, with `tuples_in`, come back as the
    same value."""
    kind = type(value)
    if value is None or kind in (bool, float):
        return True
    if kind is int:
        return bool(_INT64_MIN <= value <= _INT64_MAX)
    if kind is str:
        return _is_utf8(value)
    if kind in (list, tuple) and depth < _LIST_DEPTH_MAX:
        return all(is_plain(each, depth + 1) for each in value)
    return False


def tuples_in(value: Any, path: Path) -> Iterator[Path]:
    """Paths of the tuples in a plain value that is at `path`.

    Not of empty ones, which Orbax tells from empty lists.
    """
    if not isinstance(value, (list, tuple)):
        return
    if value and isinstance(value, tuple):
        yield path
    for i, each in enumerate(value):
        yield from tuples_in(each, (*path, i))


def plain_of(data: bytes) -> tuple[bool, Any]:
    """(True, the value) of a file of torch.save that holds a plain one.

    (False, None) for all others, and for anything but such a file. Runs no code
    of the file.
    """
    with importing:
        import torch

    try:
        value = torch.load(
            io.BytesIO(data), weights_only=True, map_location="cpu"
        )
    except Exception:  # whatever a pickle may hold
        return False, None
    return (True, value) if is_plain(value) else (False, None)


def is_torch_file(data: bytes) -> bool:
    """Whether it is a file as torch.save has written since torch 1.6: a zip."""
    return data.startswith(b"PK\x03\x04")


def file_of(value: Any) -> io.BytesIO:
    """A file of torch.save, at its beginning."""
    with importing:
        import torch

    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return file


def check_harmless(data: bytes, name: str) -> None:
    """Returns when torch.load makes nothing of `data` but containers, numbers,
    tensors and BytesIOs.

    Raises:
      PermissionDeniedError: it asks for other classes or functions, naming the
        leaf and them.
    """
    with importing:
        import torch

    try:
        with _allowing_bytes_io():
            torch.load(io.BytesIO(data), weights_only=True, map_location="cpu")
    except Exception as error:
        lines = str(error).splitlines() or [type(error).__name__]
        # torch explains at length; this line names the class that it refused.
        reason = next((line for line in lines if "GLOBAL" in line), lines[0])
        raise errors.PermissionDeniedError(
            f"leaf {name!r}: a Python object that torch.load(weights_only=True)"
            f" does not take ({reason.strip()}); {_ADVICE}"
        ) from error


@contextlib.contextmanager
def _allowing_bytes_io() -> Iterator[None]:
    with importing:
        import torch

    safe_globals = getattr(torch.serialization, "safe_globals", None)
    if safe_globals is None:  # before torch 2.5
        yield
        return
    with safe_globals([io.BytesIO]):
        yield


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
