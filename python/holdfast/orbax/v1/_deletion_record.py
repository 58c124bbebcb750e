"""The record of a checkpointable that is being deleted.

It lies in the checkpoint, as Orbax's: once it is there, readers no longer see
the checkpointable, and deleting it again finishes the work.
"""

from __future__ import annotations

import dataclasses
import json
import os
import secrets
from collections.abc import Collection
from typing import Any

from holdfast import _engine, _files
from holdfast._log import log
from holdfast.orbax._durable import sync
from holdfast.orbax.v1.errors import (
    DeletionInProgressError,
    DeletionRecoveryError,
)

RECORD_FILE = "_CHECKPOINT_DELETION"
_METADATA_FILE = "_CHECKPOINT_METADATA"


@dataclasses.dataclass(frozen=True, kw_only=True)
class DeletionRecord:
    """The contents of the file about a deletion.

    Attributes:
        operation_id: 32 hex digits, unique to this deletion.
        checkpointable_name: the part that is deleted.
        destination: where Orbax moves it to; None: it is removed.
        original_metadata: the checkpoint's metadata before.
        updated_metadata: and after.
    """

    operation_id: str
    checkpointable_name: str
    destination: str | None
    original_metadata: dict[str, Any]
    updated_metadata: dict[str, Any]


def new_record(name: str, metadata: dict[str, Any]) -> DeletionRecord:
    """The record of a deletion that begins.

    Args:
        name: of the checkpointable, which the metadata has.
        metadata: the checkpoint's.
    """
    return DeletionRecord(
        operation_id=secrets.token_hex(16),
        checkpointable_name=name,
        destination=None,
        original_metadata=metadata,
        updated_metadata=_without(metadata, name),
    )


def _without(metadata: Any, name: str) -> dict[str, Any]:
    """Metadata without a checkpointable.

    Raises:
        ValueError: it has none of that name.
    """
    if not isinstance(metadata, dict):
        raise ValueError("Original checkpoint metadata must be a dictionary.")
    handlers = metadata.get("item_handlers")
    if not isinstance(handlers, dict) or name not in handlers:
        raise ValueError(f"No handler metadata for checkpointable {name!r}.")
    rest = {key: value for key, value in handlers.items() if key != name}
    return {**metadata, "item_handlers": rest}


def _read_object(path: str) -> dict[str, Any]:
    """A JSON object.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is not a JSON object.
    """
    with _files.open(path, encoding="utf-8") as file:
        value = json.load(file)
    if not isinstance(value, dict):
        raise ValueError(f"Expected a metadata dictionary at {path}.")
    return value


def read_metadata(path: Any) -> dict[str, Any]:
    """The whole `_CHECKPOINT_METADATA`.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no JSON object.
    """
    return _read_object(os.path.join(path, _METADATA_FILE))


def read_record(path: Any) -> DeletionRecord | None:
    """The record of a deletion that has not ended.

    Args:
        path: the checkpoint's.

    Returns:
        None where nothing is being deleted.

    Raises:
        DeletionRecoveryError: it says nothing that could be done.
    """
    record_path = os.path.join(path, RECORD_FILE)
    if not _files.lexists(record_path):
        return None
    try:
        value = _read_object(record_path)
    except FileNotFoundError:
        return None  # It has ended just now.
    except (ValueError, IsADirectoryError) as error:
        raise _unusable(record_path, error) from error
    try:
        return _checked(path, value)
    except (ValueError, TypeError, KeyError, OSError) as error:
        raise _unusable(record_path, error) from error


def _unusable(path: str, error: Exception) -> DeletionRecoveryError:
    return DeletionRecoveryError(f"Invalid deletion record at {path}: {error}")


def _checked(path: Any, value: dict[str, Any]) -> DeletionRecord:
    """A record that fits the checkpoint.

    Raises:
        KeyError, TypeError, ValueError, OSError: it does not.
    """
    record = DeletionRecord(
        operation_id=value["operation_id"],
        checkpointable_name=value["checkpointable_name"],
        destination=value.get("destination"),
        original_metadata=value["original_metadata"],
        updated_metadata=value["updated_metadata"],
    )
    check_deletable_name(record.checkpointable_name)
    digits = set("0123456789abcdef")
    operation_id = record.operation_id
    if not isinstance(operation_id, str) or len(operation_id) != 32:
        raise ValueError("Missing operation id.")
    if not set(operation_id) <= digits:
        raise ValueError("Missing operation id.")
    without = _without(record.original_metadata, record.checkpointable_name)
    if record.updated_metadata != without:
        raise ValueError("Invalid replacement metadata.")
    if record.destination is not None:
        # Only object stores have such a place.
        raise ValueError("Invalid relocation destination.")
    current = read_metadata(path)
    if current not in (record.original_metadata, record.updated_metadata):
        raise ValueError(
            "Checkpoint metadata conflicts with the deletion record."
        )
    return record


_RESERVED = frozenset({"metrics", "AUTO", RECORD_FILE, _METADATA_FILE})


def check_deletable_name(name: Any) -> None:
    """Checks that a name is one directory of a user's.

    Raises:
        TypeError: it is no text.
        ValueError: it is not.
    """
    if not isinstance(name, str):
        raise TypeError("checkpointable_name must be a string or None.")
    is_path = name in ("", ".", "..") or any(c in name for c in "/\\\0")
    if is_path or name in _RESERVED:
        raise ValueError(f"Invalid checkpointable name: {name!r}.")


def publish_record(
    path: Any, record: DeletionRecord, mode: int | None = None
) -> None:
    """Makes a record exist, durably.

    Args:
        path: the checkpoint's.
        record: of what is deleted.
        mode: of the file.

    Raises:
        FileExistsError: there is one by now.
        OSError: it cannot be written.
    """
    target = os.path.join(path, RECORD_FILE)
    text = json.dumps(dataclasses.asdict(record), sort_keys=True)
    if _files.is_url(target):
        _files.write_bytes(target, text.encode(), must_create=True)
        return
    written = _write_new(target, text, mode)
    try:
        os.link(written, target)  # Unlike a rename it replaces nothing.
    finally:
        os.unlink(written)
    sync(os.fspath(path))


def _replace(target: str, text: str) -> None:
    """Writes a file, whole and durable, in place of another."""
    if _files.is_url(target):
        _files.write_bytes(target, text.encode())
    else:
        os.replace(_write_new(target, text, None), target)


def _write_new(target: str, text: str, mode: int | None) -> str:
    """A file beside `target`, whole and durable; returns its path."""
    directory = _files.dirname(target)
    path = os.path.join(directory, f".orbax-delete-{secrets.token_hex(8)}")
    with open(path, "w", encoding="utf-8") as file:
        if os.path.exists(target):
            mode = os.stat(target).st_mode & 0o777
        if mode is not None:
            os.fchmod(file.fileno(), mode)
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    return path


def finish_record(path: Any, record: DeletionRecord) -> None:
    """Ends a deletion, when the checkpointable's files are gone.

    Args:
        path: the checkpoint's.
        record: of what was deleted.

    Raises:
        OSError: files cannot be written.
    """
    path, name = os.fspath(path), record.checkpointable_name
    text = json.dumps(record.updated_metadata)
    # At no moment is there a checksum of another text than is there.
    _engine.forget_listed_item(path, name, None)
    _replace(os.path.join(path, _METADATA_FILE), text)
    _engine.forget_listed_item(path, name, text.encode())
    _files.unlink(os.path.join(path, RECORD_FILE))
    sync(path)


def deleted_name(
    path: Any, requested: Collection[str] | None = None
) -> str | None:
    """The checkpointable that is being deleted, which readers must not see.

    Args:
        path: the checkpoint's.
        requested: the checkpointable to read; None: any.

    Raises:
        DeletionInProgressError: what is wanted is being deleted.
        DeletionRecoveryError: the record says nothing that could be done.
    """
    record = read_record(path)
    if record is None:
        return None
    name = record.checkpointable_name
    if requested is None:
        log.warning(
            "Excluding checkpointable %r at %s: deletion was started but"
            " cleanup is incomplete. Retry deletion of this checkpointable to"
            " finish.",
            name,
            path,
        )
    elif name in requested:
        raise DeletionInProgressError(
            f"Checkpointable {name!r} at {path} is pending deletion and cannot"
            " be read. Retry deletion of this checkpointable to finish cleanup."
        )
    return name


def check_not_deleting(path: Any) -> None:
    """Checks that a checkpoint may be replaced.

    Raises:
        DeletionInProgressError: something in it is being deleted.
        DeletionRecoveryError: the record says nothing that could be done.
    """
    if read_record(path) is not None:
        raise DeletionInProgressError(
            f"Checkpoint at {path} has an unfinished deletion. Retry that"
            " deletion before modifying the checkpoint."
        )
