"""Values that are not tensors: plain values, which are Orbax leaves, and
objects.

torch.distributed.checkpoint passes each of these values as a torch.save file.
None, bool, int, float, str, and lists and tuples of them become leaves of their
own kinds. Any other value is stored as its file, in an array of bytes. The
item's custom metadata records which arrays hold files, and which lists were
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
    """Returns whether Orbax leaves, together with `tuples_in`, can restore the
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
    """Yields the paths of the tuples in a plain value at `path`.

    Skips empty tuples, which Orbax distinguishes from empty lists.
    """
    if not isinstance(value, (list, tuple)):
        return
    if value and isinstance(value, tuple):
        yield path
    for i, each in enumerate(value):
        yield from tuples_in(each, (*path, i))


def plain_of(data: bytes) -> tuple[bool, Any]:
    """Returns (True, value) for a torch.save file that holds a plain value.

    Returns (False, None) for any other data. Runs no code from the file.
    """
    with importing:
        import torch

    try:
        value = torch.load(
            io.BytesIO(data), weights_only=True, map_location="cpu"
        )
    except Exception:  # pickles can raise anything
        return False, None
    return (True, value) if is_plain(value) else (False, None)


def is_torch_file(data: bytes) -> bool:
    """Returns whether `data` is a torch.save file: since 1.6 a zip file."""
    return data.startswith(b"PK\x03\x04")


def file_of(value: Any) -> io.BytesIO:
    """Returns the value as a torch.save file, positioned at its start."""
    with importing:
        import torch

    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return file


def check_harmless(data: bytes, name: str) -> None:
    """Checks that torch.load makes only containers, numbers, tensors and
    BytesIOs from `data`.

    Raises:
      PermissionDeniedError: the data needs other classes or functions; the
        error names the leaf and these classes or functions.
    """
    with importing:
        import torch

    try:
        with _allowing_bytes_io():
            torch.load(io.BytesIO(data), weights_only=True, map_location="cpu")
    except Exception as error:
        lines = str(error).splitlines() or [type(error).__name__]
        # torch's explanation is long; use the line that names the refused
        # class.
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
