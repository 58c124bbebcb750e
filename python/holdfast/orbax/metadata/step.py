"""`_CHECKPOINT_METADATA`: handlers, times and the user's metadata of a save."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Sequence
from typing import Any

from holdfast import _engine, _files, errors
from holdfast._log import log

STEP_METADATA_FILENAME = "_CHECKPOINT_METADATA"
# While this file exists, an item is being deleted on purpose.
DELETION_RECORD_FILENAME = "_CHECKPOINT_DELETION"


@dataclasses.dataclass
class StepStatistics:
    """Measurements of a save; only float values are stored."""

    step: int | None = None
    event_type: str | None = "save"
    directory: str | None = None
    reached_preemption: bool | None = False
    preemption_received_at: float | None = None
    synchronous: bool | None = False
    wait_for_prev_start_time: float | None = None
    wait_for_prev_duration_secs: float | None = None
    time_between_consecutive_saves_sec: float | None = None
    checkpointer_blocking_start_time: float | None = None
    checkpointer_blocking_duration_secs: float | None = None
    get_old_steps_start_time: float | None = None
    get_old_steps_duration_secs: float | None = None
    checkpoint_manager_blocking_start_time: float | None = None
    checkpoint_manager_blocking_duration_secs: float | None = None


@dataclasses.dataclass
class StepMetadata:
    """Metadata of one checkpoint.

    Attributes:
        item_handlers: the handler's type string, or type strings by item name.
        item_metadata: the item's metadata, such as a TreeMetadata, or the
            items' metadata by name.
        metrics: the metrics passed to the save.
        performance_metrics: measurements of the save.
        init_timestamp_nsecs: start of the save, nanoseconds since 1970.
        commit_timestamp_nsecs: end of the save, nanoseconds since 1970.
        custom_metadata: the user's JSON object.
    """

    item_handlers: dict[str, str] | str | None = None
    item_metadata: Any | None = None
    metrics: dict[str, Any] = dataclasses.field(default_factory=dict)
    performance_metrics: StepStatistics = dataclasses.field(
        default_factory=StepStatistics
    )
    init_timestamp_nsecs: int | None = None
    commit_timestamp_nsecs: int | None = None
    custom_metadata: dict[str, Any] = dataclasses.field(default_factory=dict)


def _check_type(value: Any, *kinds: type) -> None:
    if isinstance(value, kinds):
        return
    if len(kinds) == 1:
        raise ValueError(
            f"Object must be of type {kinds[0]}, got {type(value)}."
        )
    raise ValueError(
        f"Object must be any one of types {list(kinds)}, got {type(value)}."
    )


def check_json_object(value: Any) -> dict[str, Any]:
    """Copies a dict with str keys; returns {} for None.

    Raises:
        ValueError: the value is not such a dict.
    """
    if value is None:
        return {}
    _check_type(value, dict)
    for key in value:
        _check_type(key, str)
    return dict(value)


def _statistics(data: Any) -> StepStatistics:
    if data is None:
        return StepStatistics()
    _check_type(data, dict, StepStatistics)
    names = {field.name for field in dataclasses.fields(StepStatistics)}
    kept: dict[str, Any] = {
        name: value
        for name, value in data.items()
        if name in names and isinstance(value, float)
    }
    return StepStatistics(**kept)


def unknown_fields(data: dict[str, Any], kind: type) -> dict[str, Any]:
    """Returns the fields of a metadata file that its dataclass lacks.

    These fields count as the user's metadata.

    Raises:
        ValueError: the file also has the user's metadata in its own field.
    """
    known = {field.name for field in dataclasses.fields(kind)}
    unknown = {k: v for k, v in data.items() if k not in known}
    if unknown and data.get("custom_metadata"):
        raise ValueError(
            f"Provided metadata contains unknown key {next(iter(unknown))}, and"
            " the custom_metadata field is already defined."
        )
    return unknown


def _unknown_fields(data: dict[str, Any]) -> dict[str, Any]:
    unknown = unknown_fields(data, StepMetadata)
    for name in unknown:
        log.warning(
            "Provided metadata contains unknown key %s. Adding it to"
            " custom_metadata.",
            name,
        )
    return unknown


def deserialize(data: Any, item_metadata: Any | None = None) -> StepMetadata:
    """Converts the parsed file to StepMetadata.

    Raises:
        ValueError: a field has a type that Orbax does not write.
    """
    if not isinstance(data, dict):
        raise ValueError(
            f"Metadata dict must be a dictionary, but got {type(data).__name__}"
        )
    handlers = data.get("item_handlers")
    if handlers is not None:
        _check_type(handlers, dict, str)
    for name in ("init_timestamp_nsecs", "commit_timestamp_nsecs"):
        if data.get(name) is not None:
            _check_type(data[name], int)
    custom = {
        name: value
        for name, value in check_json_object(
            data.get("custom_metadata")
        ).items()
        if not _engine.is_own_document(name)
    }
    return StepMetadata(
        item_handlers=handlers,
        item_metadata=item_metadata,
        metrics=check_json_object(data.get("metrics") or {}),
        performance_metrics=_statistics(data.get("performance_metrics")),
        init_timestamp_nsecs=data.get("init_timestamp_nsecs"),
        commit_timestamp_nsecs=data.get("commit_timestamp_nsecs"),
        custom_metadata=custom | _unknown_fields(data),
    )


def read_step_metadata(directory: str) -> Any | None:
    """Returns the parsed `_CHECKPOINT_METADATA`; logs and returns None if it is
    unusable.

    Raises:
        DataLossError: the file does not match the checkpoint's checksums.
        NotADirectoryError: `directory` is a file.
    """
    # In a bucket, nothing exists below a file.
    may_be_file = not _files.is_url(directory)
    if may_be_file and os.path.exists(directory):
        if not os.path.isdir(directory):
            raise NotADirectoryError(f"Path is not a directory: {directory}")
    file = os.path.join(directory, STEP_METADATA_FILENAME)
    try:
        return json.loads(_files.read_checked(file).decode())
    except errors.DataLossError:
        raise
    except FileNotFoundError:
        log.warning("Metadata file does not exist: %s", file)
    except (OSError, ValueError) as error:
        log.error("Failed to read Metadata file: %s, error: %s", file, error)
    return None


def check_none_is_gone(directory: Any, existing: Sequence[str]) -> None:
    """Checks that all items with which a checkpoint was saved still exist.

    Args:
        directory: the checkpoint's directory.
        existing: names of the checkpoint's subdirectories.

    Raises:
        DataLossError: an item is missing.
    """
    path = os.fspath(directory)
    handlers = (read_step_metadata(path) or {}).get("item_handlers")
    if not isinstance(handlers, dict):
        return
    for name in handlers:
        if name in existing:
            continue
        if not _files.exists(os.path.join(path, DELETION_RECORD_FILENAME)):
            raise errors.DataLossError(
                f'item "{name}" of {path} is gone: {STEP_METADATA_FILENAME}'
                " says that the checkpoint was saved with it; name the"
                " items to read if the others are enough"
            )


def get_step_metadata(path: str | os.PathLike[str]) -> StepMetadata:
    """Returns the metadata of the checkpoint at `path`, without its items'
    metadata.

    Raises:
        ValueError: there is no readable metadata.
    """
    directory = os.fspath(path)
    data = read_step_metadata(directory)
    if data is None:
        raise ValueError(
            "Step metadata not found at"
            f" {os.path.join(directory, STEP_METADATA_FILENAME)}"
        )
    return deserialize(data)
