"""Arrays whose metadata files have names of their own (`metadata_key`)."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np

from holdfast import _engine
from holdfast.orbax._errors import reading


@dataclasses.dataclass
class KeyedArray:
    """An array that was found by the name of its metadata file.

    Stands for a checkpoint of one leaf, and for that leaf's info.
    """

    handle: Any
    shape: tuple[int, ...]
    dtype: str
    chunk_shape: tuple[int, ...]
    array_metadata: str
    kind: str = "array"
    problem: Exception | None = None
    prng_impl: str = ""
    sharding_json: str = ""
    skip_deserialize: bool = False
    write_shape: tuple[int, ...] | None = None

    def read_leaves(self, requests: Any, **budget: Any) -> list[Any]:
        """The whole array for each (0, dtype or None)."""
        del budget
        origin = (0,) * len(self.shape)
        whole = self.handle.read(origin, self.shape)
        return [np.array(whole, dtype) for _, dtype in requests]

    def read_into(self, requests: Any, **budget: Any) -> None:
        """Fills the targets of (0, origin, target)."""
        del budget
        for _, origin, target in requests:
            target[...] = self.handle.read(origin, target.shape)


def open_with_key(
    path: str,
    name: str,
    metadata_key: str,
    *,
    use_zarr3: bool,
    use_ocdbt: bool,
    fill_missing: bool,
) -> KeyedArray | None:
    """An array whose metadata has a name of its own; None: there is none.

    Raises:
        ValueError: a damaged array.
    """
    spec = _engine.array_read_spec(
        directory=path,
        name=name,
        use_zarr3=use_zarr3,
        use_ocdbt=use_ocdbt,
        metadata_key=metadata_key,
        raise_array_data_missing_error=not fill_missing,
        target_dtype=None,
    )
    try:
        with reading():
            context = _engine.TsContext(use_ocdbt, None, None)
            handle = _engine.open_spec(spec, context, open=True)
    except ValueError as error:
        if str(error).startswith("NOT_FOUND"):
            return None
        raise
    metadata = json.loads(handle.spec_json()).get("metadata", {})
    metadata.setdefault("zarr_format", 3 if use_zarr3 else 2)
    return KeyedArray(
        handle,
        tuple(handle.shape),
        handle.dtype,
        tuple(handle.read_chunk_shape),
        json.dumps(metadata),
    )
