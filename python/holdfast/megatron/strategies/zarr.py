"""The zarr back end: one zarr v2 array per key, one chunk per shard.

The engine reads and writes all tensors of a call together, with several
threads, directly in the tensors' memory. The rank with a key's first shard
creates the array. Every main replica then writes its own bytes, without reading
existing bytes or locking.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from logging import getLogger
from typing import Any

import numpy as np

from holdfast import _engine
from holdfast._lazy import importing
from holdfast._remote_path import plain_path
from holdfast.megatron import _tensors, ranks
from holdfast.megatron._errors import coded, from_engine
from holdfast.megatron._rows import row_of
from holdfast.megatron.core import CheckpointingException
from holdfast.megatron.dict_utils import dict_list_map_inplace, nested_values
from holdfast.megatron.mapping import (
    ShardedStateDict,
    ShardedTensor,
    StateDict,
    adopt_megatron_core,
    is_main_replica,
)
from holdfast.megatron.strategies._zarr_array import ZarrArray
from holdfast.megatron.strategies._zarr_read import (
    AbsentChunksWarning,
    load_tensors,
)
from holdfast.megatron.strategies.base import (
    CheckpointDir,
    LoadShardedStrategy,
    SaveShardedStrategy,
    StrategyAction,
    register_default_strategy,
)

__all__ = [
    "AbsentChunksWarning",
    "ZarrArray",
    "ZarrLoadShardedStrategy",
    "ZarrSaveShardedStrategy",
    "flatten_range",
    "load_zarr_based_sharded_metadata",
    "numpy_to_torch_dtype_dict",
    "pad_to_expected_shape",
    "postprocess_numpy_array",
    "register_default_zarr_strategies",
    "torch_to_numpy_dtype_dict",
]

logger = getLogger(__name__)

# In the order of the original's table.
_DTYPE_NAMES = (
    "bool",
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
)

# The two tables, {numpy dtype: torch dtype} and its inverse, built on first
# use. Without torch, they contain numpy dtypes instead of torch dtypes.
numpy_to_torch_dtype_dict: dict[np.dtype[Any], Any]
torch_to_numpy_dtype_dict: dict[Any, np.dtype[Any]]


def __getattr__(name: str) -> Any:
    if name not in ("numpy_to_torch_dtype_dict", "torch_to_numpy_dtype_dict"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    table = {
        np.dtype(each): _tensors.default_dtype(each) for each in _DTYPE_NAMES
    }
    try:
        with importing:
            import ml_dtypes

        bfloat16: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        table[bfloat16] = _tensors.default_dtype("bfloat16")
    except ImportError:
        pass
    globals()["numpy_to_torch_dtype_dict"] = table
    globals()["torch_to_numpy_dtype_dict"] = {v: k for k, v in table.items()}
    return globals()[name]


def register_default_zarr_strategies() -> None:
    """Makes ZarrSaveShardedStrategy the default for zarr version 1."""
    register_default_strategy(
        StrategyAction.SAVE_SHARDED,
        "zarr",
        1,
        ZarrSaveShardedStrategy("zarr", 1),
    )


class ZarrSaveShardedStrategy(SaveShardedStrategy):
    """Writes zarr arrays.

    Args:
      backend, version: the values for `metadata.json`.
      sync: make everything written durable before `metadata.json` appears.
      scalars: store tensors without axes, which the default loader reads. The
        original never creates arrays for these tensors, and therefore fails.
      threads: 0 means one per core.
    """

    def __init__(
        self,
        backend: str = "zarr",
        version: int = 1,
        *,
        sync: bool = True,
        scalars: bool = False,
        threads: int = 0,
    ) -> None:
        super().__init__(backend, version)
        self.sync = sync
        self.scalars = scalars
        self.threads = threads

    def save(
        self,
        sharded_state_dict: ShardedStateDict,
        checkpoint_dir: CheckpointDir,
    ) -> None:
        """Writes the tensors of the main replicas. All ranks call it.

        Raises CheckpointingException if an array already exists or was not
        created, an axis does not divide, or a key cannot name a directory;
        KeyError for a dtype that the format lacks.
        """
        adopt_megatron_core()
        tensors = list(nested_values(sharded_state_dict))
        rows = [
            row_of(each, with_data=True)
            for each in tensors
            if is_main_replica(each.replica_id)
        ]
        created = [
            row
            for row, each in zip(
                rows,
                (t for t in tensors if is_main_replica(t.replica_id)),
                strict=True,
            )
            if _should_create_array(each) or (self.scalars and _is_0d(each))
        ]
        path = os.fspath(checkpoint_dir)
        with ranks.call(path) as group:
            group.begin()
            with from_engine():
                _engine.megatron_create_arrays(
                    created, path, self.sync, self.scalars
                )
            group.barrier()
            with from_engine():
                _engine.megatron_write_shards(
                    rows, path, self.sync, self.scalars, self.threads
                )
            group.barrier()


def _create_or_open_zarr_arrays(
    sharded_tensors: Sequence[ShardedTensor], checkpoint_dir: CheckpointDir
) -> list[ZarrArray | None]:
    """Returns the array of each tensor. All ranks make the call.

    The rank with the first shard creates the array; other ranks open it. The
    result is None for replicas that are not main.
    """
    directory = plain_path(checkpoint_dir)
    with ranks.call(directory) as group:
        group.begin()
        arrays = [
            _create_zarr_array(each, directory)
            if _should_create_array(each)
            else None
            for each in sharded_tensors
        ]
        group.barrier()
    return [
        _open_zarr_array_verbose(directory / each.key, "r+")
        if made is None and is_main_replica(each.replica_id)
        else made
        for each, made in zip(sharded_tensors, arrays, strict=True)
    ]


def _should_create_array(ten: ShardedTensor) -> bool:
    """Returns whether `ten` is the first shard of a main replica; False without
    axes."""
    flat = ten.flattened_range
    return (
        is_main_replica(ten.replica_id)
        and set(ten.global_offset) == {0}
        and (flat is None or flat.start == 0)
    )


def _is_0d(ten: ShardedTensor) -> bool:
    return len(ten.global_shape) == 0


def _save_to_existing_array(
    sharded_tensor: ShardedTensor, arr: ZarrArray | None
) -> None:
    """Writes a main replica's elements into its array."""
    if not is_main_replica(sharded_tensor.replica_id):
        return
    assert arr is not None
    row = row_of(sharded_tensor, with_data=True)
    with from_engine():
        _engine.megatron_write_shards(
            [row], arr.directory_of(sharded_tensor.key), True, True, 0
        )


def _create_zarr_array(
    sharded_tensor: ShardedTensor, checkpoint_dir: CheckpointDir
) -> ZarrArray:
    """Creates an array with the tensor's global shape.

    Raises CheckpointingException if the array exists, KeyError for a dtype that
    the format lacks.
    """
    directory = os.fspath(checkpoint_dir)
    with from_engine():
        _engine.megatron_create_arrays(
            [row_of(sharded_tensor)], directory, True, True
        )
    return _open_zarr_array_verbose(
        plain_path(directory) / sharded_tensor.key, "r+"
    )


class ZarrLoadShardedStrategy(LoadShardedStrategy):
    """Loads zarr arrays like zarr-python.

    Args:
      backend, version: the values in metadata.json.
      into_buffers: read elements into the `data` of the ShardedTensors, which
        become the results; elements are converted if the dtypes differ.
      threads: 0 means one per core.
    """

    mode = "zarr"

    def __init__(
        self,
        backend: str = "zarr",
        version: int = 1,
        *,
        into_buffers: bool = False,
        threads: int = 0,
    ) -> None:
        self.backend = backend
        self.version = version
        self.into_buffers = into_buffers
        self.threads = threads

    def __str__(self) -> str:
        return f"{type(self).__name__}({self.backend}, {self.version})"

    def load(
        self,
        sharded_state_dict: ShardedStateDict,
        checkpoint_dir: CheckpointDir,
    ) -> StateDict:
        """Replaces the ShardedTensors with tensors of the stored dtypes, in
        place.

        Warns (AbsentChunksWarning) about missing chunks. Raises
        CheckpointingException if an array does not exist or has a different
        global shape; ValueError for a chunk of the wrong length.
        """
        adopt_megatron_core()
        tensors = list(nested_values(sharded_state_dict))
        for each in tensors:
            assert isinstance(each, ShardedTensor), type(each)
        loaded = iter(
            load_tensors(
                tensors,
                checkpoint_dir,
                self.mode,
                into_buffers=self.into_buffers,
                threads=self.threads,
            )
        )
        dict_list_map_inplace(lambda _: next(loaded), sharded_state_dict)
        return sharded_state_dict

    def load_tensors_metadata(
        self, checkpoint_dir: CheckpointDir
    ) -> ShardedStateDict:
        """Returns a complete ShardedTensor without data for each array.

        Raises KeyError for a dtype that the table lacks.
        """
        path = os.fspath(checkpoint_dir)
        with from_engine():
            arrays = _engine.megatron_list(path, self.mode)
        return {
            key: _whole(key, _tensors.default_dtype(dtype), shape)
            for key, dtype, shape in arrays
        }

    def check_backend_compatibility(self, loaded_version: Any) -> None:
        """Raises CheckpointingException for torch_dist; warns for other back
        ends.

        Args:
            loaded_version: the back end; the name is the original's.
        """
        if loaded_version == self.backend:
            return
        text = (
            f"{self} reads zarr checkpoints; this one says it is"
            f" {loaded_version!r}"
        )
        if loaded_version == "torch_dist":
            raise CheckpointingException(
                f"{text}. Load it without `sharded_strategy`, or convert it:"
                " holdfast convert SRC DST --to megatron-zarr",
                code="BACKEND_MISMATCH",
            )
        logger.warning("%s", text)

    def check_version_compatibility(self, loaded_version: Any) -> None:
        """Warns about a different version."""
        if loaded_version != self.version:
            logger.warning(
                "%s reads version %s; this checkpoint says %r",
                self,
                self.version,
                loaded_version,
            )


def _load_from_array(
    sharded_tensor: ShardedTensor, checkpoint_dir: CheckpointDir
) -> Any:
    """Loads the tensor that `sharded_tensor` describes."""
    assert isinstance(sharded_tensor, ShardedTensor), type(sharded_tensor)
    return load_tensors([sharded_tensor], checkpoint_dir, "zarr")[0]


def _open_zarr_array_verbose(
    path: CheckpointDir, mode: str, **open_kwargs: Any
) -> ZarrArray:
    """Opens the array at `path`; `mode` is "r" or "r+".

    Raises CheckpointingException if the array does not exist.
    """
    if mode not in ("r", "r+"):
        raise ValueError(f"mode: got {mode!r}, want 'r' or 'r+'")
    text = os.fspath(path)
    with from_engine():
        shape, chunks, name = _engine.megatron_open_array(text, "zarr")
    return ZarrArray(text, shape, chunks, name, "zarr")


def postprocess_numpy_array(
    loaded_array: Any,
    sharded_tensor: ShardedTensor,
    apply_flattened_range: bool = True,
) -> Any:
    """Returns the loaded box as a tensor of `local_shape`, or its flattened
    range.

    Raises CheckpointingException if the shape differs and
    `allow_shape_mismatch` is False.
    """
    array = np.asarray(loaded_array)
    name = _tensors.dtype_name(array.dtype)
    like = sharded_tensor.dtype
    x = _tensors.wrap(_tensors.array_of(array), name, like)
    if tuple(x.shape) != tuple(sharded_tensor.local_shape):
        if not sharded_tensor.allow_shape_mismatch:
            raise CheckpointingException(
                f"Local shape mismatch for loaded ({x.shape}) and expected"
                f" ({sharded_tensor.local_shape}) tensor for key"
                f" {sharded_tensor.key}",
                code="LOCAL_SHAPE_MISMATCH",
            )
        x = pad_to_expected_shape(x, sharded_tensor)
    if apply_flattened_range and sharded_tensor.flattened_range is not None:
        x = flatten_range(sharded_tensor, x)
    return x


def flatten_range(sharded_tensor: ShardedTensor, x: Any) -> Any:
    """Returns the flattened range of a box, 1-D, without a copy if possible."""
    return x.reshape(-1)[sharded_tensor.flattened_range]


def pad_to_expected_shape(x: Any, expected_sharded_ten: ShardedTensor) -> Any:
    """Pads `x` with zeros at the end of each axis, up to the local shape.

    With DIST_CKPT_PAD_REPLICATE=1 in the environment, repeats the last elements
    instead. Raises AssertionError if `x` is larger, or has different axes.
    """
    expected = tuple(expected_sharded_ten.local_shape)
    shape = tuple(x.shape)
    assert len(shape) == len(expected), (shape, expected)
    for got, want in zip(shape, expected, strict=True):
        assert got <= want, (
            f"Expected shape ({want}) smaller than actual ({got}) for"
            f" {expected_sharded_ten!r}"
        )
    name = _tensors.dtype_name(x.dtype)
    widths = [
        (0, want - got) for got, want in zip(shape, expected, strict=True)
    ]
    replicates = bool(int(os.environ.get("DIST_CKPT_PAD_REPLICATE", 0)))
    padded = np.pad(
        _tensors.array_of(x), widths, mode="edge" if replicates else "constant"
    )
    return _tensors.wrap(padded, name, x)


def _whole(key: str, dtype: Any, shape: tuple[int, ...]) -> ShardedTensor:
    return ShardedTensor(
        key,
        None,
        dtype,
        tuple(shape),
        tuple(shape),
        (0,) * len(shape),
        (1,) * len(shape),
    )


def load_zarr_based_sharded_metadata(
    checkpoint_dir: CheckpointDir,
    get_shape_dtype_fn: Callable[[str], tuple[tuple[int, ...], np.dtype[Any]]],
) -> ShardedStateDict:
    """Returns a complete ShardedTensor without data for each array of the
    directory.

    `get_shape_dtype_fn` is called with an array's path. Raises KeyError for a
    dtype that the table lacks.
    """
    table = __getattr__("numpy_to_torch_dtype_dict")
    tensors = {}
    for each in sorted(plain_path(checkpoint_dir).iterdir()):
        if each.suffix == ".sync" or not (each / ".zarray").exists():
            continue
        shape, dtype = get_shape_dtype_fn(str(each))
        if dtype not in table:
            raise coded("UNSUPPORTED_DTYPE", repr(dtype), KeyError)
        tensors[each.name] = _whole(each.name, table[dtype], shape)
    return tensors
