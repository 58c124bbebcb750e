"""`metadata.json`, which marks a directory as a distributed checkpoint.

The file names the back ends, and their versions, that wrote the tensors and
the other state. It is written last, so a checkpoint without it is incomplete.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from typing import Any

from holdfast import _files

__all__ = [
    "CONFIG_FNAME",
    "CheckpointingConfig",
    "CheckpointingException",
    "check_is_distributed_checkpoint",
    "maybe_load_config",
    "save_config",
]

CONFIG_FNAME = "metadata.json"


class CheckpointingException(Exception):
    """The base class of errors about a checkpoint.

    `code` names the condition ("ARRAY_NOT_FOUND", ...), or is "".
    """

    code: str = ""

    def __init__(self, *args: object, code: str = "") -> None:
        super().__init__(*args)
        if code:
            self.code = code

    def __reduce__(self) -> tuple[Any, ...]:
        return _remade, (type(self), self.args, self.code)


def _remade(
    kind: type[CheckpointingException], args: tuple[object, ...], code: str
) -> CheckpointingException:
    return kind(*args, code=code)


@dataclass
class CheckpointingConfig:
    """The back ends of a checkpoint, and the versions of their formats."""

    sharded_backend: str
    sharded_backend_version: int = 1
    common_backend: str = "torch"
    common_backend_version: int = 1


def check_is_distributed_checkpoint(
    checkpoint_dir: str | os.PathLike[str],
) -> bool:
    """Returns whether the directory has a `metadata.json`.

    Raises the errors of `maybe_load_config` if the file is invalid.
    """
    return maybe_load_config(checkpoint_dir) is not None


def maybe_load_config(
    checkpoint_dir: str | os.PathLike[str],
) -> CheckpointingConfig | None:
    """Returns the config in `metadata.json`; None if the file does not exist.

    Raises json.JSONDecodeError for text that is not JSON. Raises TypeError for
    an unknown key, a missing `sharded_backend`, or a document that is not an
    object.
    """
    if not os.fspath(checkpoint_dir):
        return None
    path = os.path.join(checkpoint_dir, CONFIG_FNAME)
    try:
        with _files.open(path, encoding="utf-8") as file:
            document = json.load(file)
    except FileNotFoundError:
        return None
    except RecursionError as error:
        raise json.JSONDecodeError("Too deeply nested", "", 0) from error
    if not isinstance(document, dict):
        raise TypeError(
            f"{path}: got a JSON {type(document).__name__}, want an object"
        )
    return CheckpointingConfig(**document)


def save_config(
    config: CheckpointingConfig, checkpoint_dir: str | os.PathLike[str]
) -> None:
    """Writes `metadata.json`, and waits until it is on stable storage.

    Raises OSError.
    """
    path = os.path.join(checkpoint_dir, CONFIG_FNAME)
    with _files.open(path, "w", encoding="utf-8") as file:
        json.dump(asdict(config), file)
        _files.sync(file)
