"""`metadata/_ROOT_METADATA`: the metadata that all steps share."""

from __future__ import annotations

import dataclasses
import json
import os
import uuid
from typing import Any

from holdfast import _files
from holdfast._log import log
from holdfast.orbax._checkpointer.durable import sync, write_text
from holdfast.orbax.metadata.step import check_json_object, unknown_fields

ROOT_METADATA_FILENAME = "_ROOT_METADATA"
# Releases before 0.11 wrote this file.
_LEGACY_FILENAME = "metadata"


@dataclasses.dataclass
class RootMetadata:
    """The metadata that all steps share.

    Attributes:
        internal_metadata: Orbax's internal metadata.
        custom_metadata: the user's JSON object.
    """

    internal_metadata: dict[str, Any] | None = dataclasses.field(
        default_factory=dict
    )
    custom_metadata: dict[str, Any] | None = dataclasses.field(
        default_factory=dict
    )


def read_root_metadata(directory: str) -> RootMetadata:
    """Reads the metadata from the files of `directory`.

    Args:
        directory: the directory `metadata` next to the steps.

    Raises:
        NotADirectoryError: `directory` is a file.
        OSError: the metadata file cannot be read.
        ValueError: a field has a type that Orbax does not write.
    """
    if not _files.isdir(directory):
        raise NotADirectoryError(f"Path is not a directory: {directory}")
    path = os.path.join(directory, ROOT_METADATA_FILENAME)
    if not _files.exists(path):
        log.warning(
            "New root metadata file not found in directory: %s. Will try to"
            " read legacy file.",
            directory,
        )
        path = os.path.join(directory, _LEGACY_FILENAME)
    try:
        with _files.open(path, encoding="utf-8") as file:
            data = json.load(file)
    except (OSError, ValueError) as error:
        raise OSError(f"Failed to read metadata from {path}") from error
    return deserialize_root_metadata(data)


def write_root_metadata(directory: str, custom_metadata: Any) -> None:
    """Writes `_ROOT_METADATA` in `directory`, atomically and durably.

    Args:
        directory: the directory `metadata` next to the steps; it exists.
        custom_metadata: the user's JSON object.

    Raises:
        ValueError: `custom_metadata` has keys that are not str.
        TypeError: `custom_metadata` is not a JSON value.
        OSError: the file cannot be written.
    """
    data = serialize_root_metadata(
        RootMetadata(custom_metadata=custom_metadata)
    )
    path = os.path.join(directory, ROOT_METADATA_FILENAME)
    if _files.is_url(path):
        _files.write_bytes(path, json.dumps(data).encode())
        return
    unnamed = f"{path}.{uuid.uuid4().hex}.tmp"
    write_text(unnamed, json.dumps(data))
    _files.rename(unnamed, path)
    sync(directory)


def serialize_root_metadata(metadata: RootMetadata) -> dict[str, Any]:
    """Returns the document to store in the file.

    Raises:
        ValueError: a field has keys that are not str.
        TypeError: a field is not a JSON value.
    """
    return {
        "internal_metadata": check_json_object(metadata.internal_metadata),
        "custom_metadata": check_json_object(metadata.custom_metadata),
    }


def deserialize_root_metadata(
    metadata_dict: dict[str, Any],
) -> RootMetadata:
    """Converts the parsed file; unknown fields count as the user's metadata.

    Raises:
        ValueError: a field has a type that Orbax does not write.
    """
    data = check_json_object(metadata_dict)
    internal = check_json_object(data.get("internal_metadata"))
    custom = check_json_object(data.get("custom_metadata"))
    unknown = unknown_fields(data, RootMetadata)
    return RootMetadata(internal, unknown or custom)
