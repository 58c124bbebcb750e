"""Databases that processes wrote, merged into the item's."""

from __future__ import annotations

import json
import os
import re
from typing import Any

from holdfast import _engine, _files
from holdfast._log import log
from holdfast.orbax._errors import reading
from holdfast.orbax._source import MANIFEST_FILE
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
    """Merges `ocdbt.process_*` into the database of the directory.

    The merged database refers to their values, so they must stay. If there are
    none, nothing is done.

    Args:
        directory: the item's.
        ts_context: ignored; accepted because Orbax has it.
        use_zarr3: arrays are zarr 3, which are not validated.
        enable_validation: refuse arrays without metadata or without chunks.
        store_ocdbt_metadata_and_values_separately: not part of this release.

    Raises:
        ValueError: an incomplete array, or a damaged database.
        NotImplementedError: the last option.
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
        directory: the item's.
        validate: refuse zarr 2 arrays without metadata or without chunks.

    Raises:
        ValueError: an incomplete array, or a damaged database.
    """
    path = os.fspath(directory)
    with reading():
        if validate:
            _check_arrays(path)
        _engine.merge_process_databases(path)


_METADATA_SUFFIX = re.compile(r"(?:^|/)\.zarray$")
_CHUNK_SUFFIX = re.compile(r"(?:^|/)\d+(\.\d+)*$")


def _check_arrays(path: str) -> None:
    """Refuses arrays that lack a part.

    Raises:
        ValueError: naming them.
    """
    described, stored = set(), set()
    context = _engine.TsContext(True, None, None)
    for name in _process_directories(path):
        spec = {
            "driver": "ocdbt",
            "base": _url_of(os.path.join(path, name)) + "/",
        }
        for key in _engine.open_kv_store(json.dumps(spec), context).list(b""):
            text = key.decode()
            if _METADATA_SUFFIX.search(text):
                described.add(_METADATA_SUFFIX.sub("", text))
            else:
                stored.add(_CHUNK_SUFFIX.sub("", text))
    count = len(described | stored)
    for lacking, what in (
        (described - stored, ""),
        (stored - described, " .zarray"),
    ):
        if lacking:
            names = " \n".join(sorted(lacking))
            raise ValueError(
                f"Save failed: {len(lacking)}/{count} params are missing{what}"
                f" in checkpoint:\n{names}.\nTensorstore KvStore: {path}."
            )


def _url_of(path: str) -> str:
    return path if _files.is_url(path) else f"file://{path}"


def has_unmerged(directory: Any) -> bool:
    """Whether there are databases of processes, and none above them."""
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
    """The id of this process's database; None if it has none.

    Args:
        use_ocdbt: arrays lie in databases.
        override_ocdbt_process_id: instead of the process's index.
    """
    if not use_ocdbt:
        return None
    return override_ocdbt_process_id or process_index()
