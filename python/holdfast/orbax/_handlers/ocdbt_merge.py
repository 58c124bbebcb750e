"""Merges the databases that processes wrote into the item's database."""

from __future__ import annotations

import os
from typing import Any

from holdfast import _engine, _files, errors
from holdfast._log import log
from holdfast.orbax._compat.errors import reading_error
from holdfast.orbax._restore.source import MANIFEST_FILE
from holdfast.orbax.multihost import process_index

_PROCESS_PREFIX = "ocdbt.process_"


async def merge_ocdbt_per_process_files(
    directory: Any,
    ts_context: Any | None = None,
    use_zarr3: bool = False,
    enable_validation: bool = True,
    *,
    store_ocdbt_metadata_and_values_separately: bool = False,
) -> None:
    """Merges the databases `ocdbt.process_*` into the directory's database.

    The merged database refers to values in these databases, which must not be
    deleted. Does nothing if the directory does not have such databases.

    Args:
        directory: the item's directory.
        ts_context: ignored; accepted because Orbax has it.
        use_zarr3: whether arrays are zarr 3, which are not validated.
        enable_validation: refuse arrays without metadata or without chunks.
        store_ocdbt_metadata_and_values_separately: not supported.

    Raises:
        ValueError: an array is incomplete, or a database is damaged.
        NotImplementedError: `store_ocdbt_metadata_and_values_separately` is
            set.
    """
    del ts_context
    if store_ocdbt_metadata_and_values_separately:
        raise NotImplementedError(
            "store_ocdbt_metadata_and_values_separately is not part of this"
            " release yet"
        )
    if not _process_directories(directory):
        log.warning(
            "Skipping merge of OCDBT checkpoints: No per-process OCDBT"
            " checkpoint subdirs found in %s, ",
            directory,
        )
        return
    merge_now(directory, enable_validation and not use_zarr3)


def merge_now(directory: Any, validate: bool) -> None:
    """Merges the databases of all processes.

    Args:
        directory: the item's directory.
        validate: refuse zarr 2 arrays without metadata or without chunks.

    Raises:
        ValueError: an array is incomplete, or a database is damaged.
    """
    path = os.fspath(directory)
    try:
        _engine.merge_process_databases(path, enable_validation=validate)
    except errors.InvalidArgumentError:
        raise
    except errors.HoldfastError as error:
        raise reading_error(error) from error


def has_unmerged(directory: Any) -> bool:
    """Returns whether process databases exist without a merged database."""
    path = os.fspath(directory)
    if _files.exists(os.path.join(path, MANIFEST_FILE)):
        return False
    return bool(_process_directories(path))


def _process_directories(directory: Any) -> list[str]:
    names = _files.listdir(os.fspath(directory))
    return [name for name in names if name.startswith(_PROCESS_PREFIX)]


def get_process_index_for_subdir(
    use_ocdbt: bool, override_ocdbt_process_id: str | None = None
) -> int | str | None:
    """Returns the id of this process's database; None if there is no database.

    Args:
        use_ocdbt: whether arrays are stored in databases.
        override_ocdbt_process_id: replaces the process's index.
    """
    if not use_ocdbt:
        return None
    return override_ocdbt_process_id or process_index()
