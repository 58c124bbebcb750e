"""`array_metadatas/process_N`: what each process wrote of each jax.Array."""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Sequence
from typing import Any

from holdfast import _files
from holdfast.orbax._durable import drop_digests
from holdfast.orbax.multihost import process_count

_DIRECTORY = "array_metadatas"
_FILE_NAME = re.compile(r"process_(\d+)")


@dataclasses.dataclass(frozen=True)
class SerializedArrayMetadata:
    """One array; shapes in elements.

    Attributes:
        param_name: the parameter's.
        write_shape: what one device wrote.
        chunk_shape: of the stored chunks.
        ext_metadata: e.g. {"random_key_impl": "threefry2x32"}, or None.
    """

    param_name: str
    write_shape: tuple[int, ...]
    chunk_shape: tuple[int, ...]
    ext_metadata: dict[str, Any] | None = None


def _as_json(array: Any) -> dict[str, Any]:
    return {
        "array_metadata": {
            "param_name": array.param_name,
            "write_shape": array.write_shape,
            "chunk_shape": array.chunk_shape,
            "ext_metadata": array.ext_metadata,
        }
    }


def _from_json(entry: dict[str, Any]) -> SerializedArrayMetadata:
    array = entry["array_metadata"]
    return SerializedArrayMetadata(
        array["param_name"],
        tuple(array["write_shape"]),
        tuple(array["chunk_shape"]),
        array.get("ext_metadata"),
    )


class Store:
    """Writes and reads those files.

    An ArrayHandler without one writes no such file, and `_METADATA` then has
    no `write_shape`.
    """

    def __init__(
        self,
        primary_host: int | None = 0,
        write_timeout_secs: int = 600,
    ) -> None:
        """Makes a store.

        Args:
            primary_host: the process that makes the directory; None: each.
            write_timeout_secs: how long other processes wait for it.
        """
        self._primary_host = primary_host
        self._write_timeout_secs = write_timeout_secs

    def set_primary_host(self, primary_host: int | None) -> None:
        """Says which process makes the directory; None: each."""
        self._primary_host = primary_host

    def write_now(
        self,
        checkpoint_dir: Any,
        array_metadatas: Sequence[Any],
        process_index: int = 0,
    ) -> None:
        """Adds arrays to the process's file.

        Raises:
            OSError: it cannot be written.
        """
        path = os.fspath(checkpoint_dir)
        _files.makedirs(os.path.join(path, _DIRECTORY), exist_ok=True)
        drop_digests(path)
        file = os.path.join(path, _DIRECTORY, f"process_{process_index}")
        known = _read_file(file) if _files.exists(file) else []
        entries = [_as_json(array) for array in [*known, *array_metadatas]]
        with _files.open(file, "w", encoding="utf-8") as stream:
            stream.write(json.dumps({"array_metadatas": entries}))

    async def write(
        self,
        checkpoint_dir: Any,
        array_metadatas: Sequence[Any],
        process_index: int,
    ) -> None:
        """As `write_now`."""
        self.write_now(checkpoint_dir, array_metadatas, process_index)

    def read_now(self, checkpoint_dir: Any) -> dict[int, list[Any]] | None:
        """Arrays by process; None where there is no file.

        Raises:
            ValueError: there is no such directory, or a damaged file.
        """
        path = os.fspath(checkpoint_dir)
        if not _files.exists(path):
            raise ValueError(
                f"Checkpoint directory does not exist: {checkpoint_dir}."
            )
        directory = os.path.join(path, _DIRECTORY)
        names = _files.listdir(directory) if _files.isdir(directory) else []
        found = {
            int(match[1]): _read_file(os.path.join(directory, match[0]))
            for match in map(_FILE_NAME.fullmatch, sorted(names))
            if match is not None
        }
        return found or None

    async def read(
        self, checkpoint_dir: Any, process_index: int | None = None
    ) -> dict[int, list[Any]] | list[Any] | None:
        """As `read_now`; of one process its list alone."""
        found = self.read_now(checkpoint_dir)
        if process_index is None or found is None:
            return found
        return found.get(process_index)


def _read_file(file: str) -> list[SerializedArrayMetadata]:
    text = _files.read_checked(file)
    try:
        entries = json.loads(text)["array_metadatas"]
        return [_from_json(entry) for entry in entries]
    except (KeyError, TypeError) as error:
        raise ValueError(
            f"{file}: not an array_metadatas file: no {error}"
        ) from error


class Validator:
    """Checks that all processes say the same of every array."""

    def validate_all_array_metadatas(
        self, array_metadatas: dict[int, list[Any]]
    ) -> None:
        """Checks what each process wrote.

        Args:
            array_metadatas: arrays by process.

        Raises:
            ValueError: a process wrote none, or processes differ.
        """
        reference, expected = next(iter(array_metadatas.items()))
        if not expected:
            raise ValueError(
                "ArrayMetadata Store contains no metadata for process_index="
                f"{reference}."
            )
        if len(array_metadatas) == 1 and process_count() != 1:
            raise ValueError(
                "ArrayMetadata Store contains metadata from just one process"
                f" (process_index={reference}), but found"
                f" {process_count()} processes."
            )
        for process, arrays in array_metadatas.items():
            if process != reference:
                _check_same(reference, expected, process, arrays)


def _check_same(
    reference: int, expected: list[Any], process: int, arrays: list[Any]
) -> None:
    """Compares two processes.

    Raises:
        ValueError: naming the first difference.
    """
    wanted = {array.param_name: array for array in expected}
    found = {array.param_name: array for array in arrays}
    lacks = {
        process: wanted.keys() - found.keys(),
        reference: found.keys() - wanted.keys(),
    }
    if len(arrays) != len(expected):
        parts = "".join(
            f" process_index={index} is missing {len(names)} params: {names}."
            for index, names in lacks.items()
            if names
        )
        raise ValueError(
            "ArrayMetadata Store contains different number of params:"
            f" process_index={reference} has {len(expected)}, but"
            f" process_index={process} has {len(arrays)} params. Diff:{parts}"
        )
    for index, names in lacks.items():
        if names:
            other = reference if index == process else process
            raise ValueError(
                "ArrayMetadata Store contains different params: comparing with"
                f" process_index={other}, process_index={index} is missing"
                f" {len(names)} params: {names}."
            )
    for name, array in found.items():
        _check_same_array((reference, wanted[name]), (process, array))


def _check_same_array(
    expected: tuple[int, Any], given: tuple[int, Any]
) -> None:
    (reference, wanted), (process, array) = expected, given
    name = array.param_name

    def differ(start: str, ours: Any, theirs: Any) -> ValueError:
        return ValueError(
            f"{start} param: {name}. process_index={process} has {ours}, but"
            f" process_index={reference} has {theirs}."
        )

    for field in ("chunk_shape", "write_shape"):
        pair = getattr(array, field), getattr(wanted, field)
        if pair[0] != pair[1]:
            start = f"ArrayMetadata Store contains different {field} for"
            raise differ(start, *pair)
    pair = array.ext_metadata, wanted.ext_metadata
    if not isinstance(pair[0], type(pair[1])):
        raise differ("Different ext_metadata types", *pair)
    if isinstance(pair[0], dict) and isinstance(pair[1], dict):
        key = "random_key_impl"
        impls = pair[0].get(key), pair[1].get(key)
        if impls[0] != impls[1]:
            start = f"ArrayMetadata Store contains different ext_metadata.{key}"
            # As Orbax, which swaps the two.
            raise differ(f"{start} for", *reversed(impls))


def validate_item(validator: Any, store: Any, directory: Any) -> None:
    """Shows the validator the written metadata; does nothing if there is none.

    Raises:
        ValueError: what the validator refuses.
    """
    found = store.read_now(directory)
    if found is not None:
        validator.validate_all_array_metadatas(found)
