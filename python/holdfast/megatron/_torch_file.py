"""torch.save files: written by torch if torch is installed, and read without
running the code that they name.
"""

from __future__ import annotations

import os
from typing import Any

from holdfast import _engine, _files
from holdfast.megatron import _tensors

__all__ = ["decode", "read", "write"]


def read(path: str | os.PathLike[str]) -> Any:
    """Returns the object in a file; tensors are torch's if torch is installed.

    An object of an unknown class becomes a `holdfast.PickleRecord`. Raises
    FileNotFoundError; DataLossError for a damaged file; PermissionDeniedError
    for a file that names code that must not run.
    """
    with _files.open(path, "rb") as file:
        data = file.read()
    return decode(data)


def decode(data: bytes) -> Any:
    """Returns the object in a file's bytes."""
    return _engine.read_torch_file(data, _tensors.default_wrap)


def write(path: str | os.PathLike[str], value: Any) -> None:
    """Writes the file to stable storage.

    Without torch, `value` may contain containers, numbers, strings, bytes and
    arrays.
    """
    module = _tensors.torch()
    with _files.open(path, "wb") as file:
        if module is not None:
            module.save(value, file)
        else:
            file.write(_engine.write_torch_file(value))
        _files.sync(file)
