"""`array_metadatas/process_N`: what each process wrote of each jax.Array."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

from holdfast import _engine, _files
from holdfast.orbax._leaves.writer import SerializedArrayMetadata
from holdfast.orbax.multihost import process_count

# (param_name, write_shape, chunk_shape, JSON text of ext_metadata)
_Row = tuple[str, tuple[int, ...], tuple[int, ...], str]


def _row_of(array: Any) -> _Row:
    return (
        array.param_name,
        tuple(array.write_shape),
        tuple(array.chunk_shape),
        json.dumps(array.ext_metadata),
    )


def _of_row(row: _Row) -> SerializedArrayMetadata:
    return SerializedArrayMetadata(*row[:3], json.loads(row[3]))


class Store:
    """Writes and reads the `array_metadatas` files.

    An ArrayHandler without a Store writes no `array_metadatas` files, and
    `_METADATA` then has no `write_shape`.
    """

    def __init__(
        self,
        primary_host: int | None = 0,
        write_timeout_secs: int = 600,
    ) -> None:
        """Makes a store.

        Args:
            primary_host: the process that creates the directory; None means
                every process.
            write_timeout_secs: how long other processes wait for the directory.
        """
        self._primary_host = primary_host
        self._write_timeout_secs = write_timeout_secs

    def set_primary_host(self, primary_host: int | None) -> None:
        """Sets the process that creates the directory; None means every
        process."""
        self._primary_host = primary_host

    def write_now(
        self,
        checkpoint_dir: Any,
        array_metadatas: Sequence[Any],
        process_index: int = 0,
    ) -> None:
        """Adds arrays to the process's file.

        Raises:
            OSError: the file cannot be written.
        """
        rows = [_row_of(array) for array in array_metadatas]
        path = os.fspath(checkpoint_dir)
        _engine.add_array_metadatas(path, process_index, rows)

    async def write(
        self,
        checkpoint_dir: Any,
        array_metadatas: Sequence[Any],
        process_index: int,
    ) -> None:
        """Does the same as `write_now`."""
        self.write_now(checkpoint_dir, array_metadatas, process_index)

    def read_now(self, checkpoint_dir: Any) -> dict[int, list[Any]] | None:
        """Returns the arrays by process; None if there are no files.

        Raises:
            ValueError: the directory does not exist, or a file is damaged.
        """
        path = os.fspath(checkpoint_dir)
        if not _files.exists(path):
            raise ValueError(
                f"Checkpoint directory does not exist: {checkpoint_dir}."
            )
        found = _engine.read_array_metadatas(path)
        return {i: [_of_row(row) for row in found[i]] for i in found} or None

    async def read(
        self, checkpoint_dir: Any, process_index: int | None = None
    ) -> dict[int, list[Any]] | list[Any] | None:
        """Returns the result of `read_now`, or only one process's list.

        Args:
            checkpoint_dir: the item's directory.
            process_index: the process; None means all.
        """
        found = self.read_now(checkpoint_dir)
        if process_index is None or found is None:
            return found
        return found.get(process_index)


class Validator:
    """Checks that all processes agree about every array."""

    def validate_all_array_metadatas(
        self, array_metadatas: dict[int, list[Any]]
    ) -> None:
        """Checks what each process wrote.

        Args:
            array_metadatas: arrays by process.

        Raises:
            ValueError: a process wrote no arrays, or processes differ.
        """
        rows = {
            process: [_row_of(array) for array in arrays]
            for process, arrays in array_metadatas.items()
        }
        _engine.validate_array_metadatas(
            rows, process_count=process_count(), reference=next(iter(rows))
        )


def validate_item(validator: Any, store: Any, directory: Any) -> None:
    """Validates the written metadata; does nothing if there is no metadata.

    Raises:
        ValueError: the validator refuses the metadata.
    """
    found = store.read_now(directory)
    if found is not None:
        validator.validate_all_array_metadatas(found)
