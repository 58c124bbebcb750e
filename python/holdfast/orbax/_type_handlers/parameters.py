"""The stored parameters of one directory, found only by their names."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from holdfast._dtypes import numpy_dtype
from holdfast.orbax._compat.errors import reading_error
from holdfast.orbax._leaves.args import RestoreArgs
from holdfast.orbax._leaves.files import common_ocdbt_setting
from holdfast.orbax._leaves.param_info import ParamInfo
from holdfast.orbax._leaves.plan import Kind, LeafPlan
from holdfast.orbax._leaves.reader import ArraysAt, read_leaves
from holdfast.orbax._restore.source import StoredLeaf, open_arrays
from holdfast.orbax.metadata.value import (
    ArrayMetadata,
    StorageMetadata,
    ZarrMetadata,
)


class Parameters:
    """n parameters of one directory.

    Args:
        infos: the ParamInfos of the parameters.
        metadata_key: name of array metadata files; None means the format's
            default.

    Raises:
        ValueError: the parameters have different formats, or a database is
            damaged.
    """

    def __init__(
        self, infos: Sequence[ParamInfo], metadata_key: str | None = None
    ) -> None:
        use_ocdbt = common_ocdbt_setting(infos)
        self._infos = infos
        self._arrays = open_arrays(
            infos[0].parent_dir,
            [info.name for info in infos],
            bool(infos[0].use_zarr3),
            use_ocdbt=use_ocdbt,
            metadata_key=metadata_key,
            refuses_missing=bool(infos[0].raise_array_data_missing_error),
        )
        self._where = ArraysAt(
            self._arrays.path, use_ocdbt, self._arrays.metadata_key
        )

    def read(self, kind: Kind, args: Sequence[RestoreArgs]) -> list[Any]:
        """Returns the values.

        Args:
            kind: the kind of value that the parameters become.
            args: n arguments.

        Raises:
            ValueError: a value cannot be read as requested.
            FileNotFoundError: files of an array are missing.
        """
        plans = [
            LeafPlan(kind, info.name, self._arrays.by_name.get(info.name), arg)
            for info, arg in zip(self._infos, args, strict=True)
        ]
        return read_leaves(plans, self._where)

    def array_metadata(
        self, shardings: Sequence[Any] | None = None
    ) -> list[ArrayMetadata]:
        """Returns the metadata of the stored parameters.

        Args:
            shardings: n ShardingMetadata or None.

        Raises:
            ValueError: an array cannot be opened.
        """
        leaves = [self._opened(info) for info in self._infos]
        return [
            describe_array(
                leaf,
                info.parent_dir,
                None if shardings is None else shardings[i],
                info.write_shape,
            )
            for i, (leaf, info) in enumerate(
                zip(leaves, self._infos, strict=True)
            )
        ]

    def _opened(self, info: ParamInfo) -> StoredLeaf:
        leaf = self._arrays.by_name.get(info.name)
        if leaf is None:
            key = f"{info.name}/{self._where.metadata_key}".lstrip("/")
            driver = "zarr3" if info.use_zarr3 else "zarr"
            raise ValueError(
                f'NOT_FOUND: Error opening "{driver}" driver: Metadata at'
                f' "{key}" in "{self._where.path}/" does not exist'
            )
        if leaf.info.problem is not None:
            raise reading_error(leaf.info.problem) from leaf.info.problem
        return leaf


def describe_array(
    leaf: StoredLeaf,
    directory: Any,
    sharding: Any | None,
    write_shape: tuple[int, ...] | None,
) -> ArrayMetadata:
    """Returns the metadata of an array that could be opened."""
    info = leaf.info
    return ArrayMetadata(
        name=leaf.name,
        directory=directory,
        shape=tuple(info.shape),
        sharding=sharding,
        dtype=numpy_dtype(info.dtype, leaf.name),
        storage=StorageMetadata(
            chunk_shape=tuple(info.chunk_shape),
            write_shape=write_shape,
            zarr_metadata=ZarrMetadata.from_json(
                json.loads(info.array_metadata)
            ),
        ),
    )
