"""Saves a pytree item: check what Orbax refuses, take a snapshot, write it."""

from __future__ import annotations

import dataclasses
import json
import os
from typing import Any

import numpy as np

from holdfast import _engine
from holdfast._adapt import adapt
from holdfast.orbax import _structure
from holdfast.orbax._jax import is_jax_array
from holdfast.orbax.type_handlers import ParamInfo, SaveArgs

_DATA_FILE_BYTES = 2 << 30

# dtype name, chunk_byte_size, shard_axes
EngineSaveArgs = tuple[str | None, int | None, tuple[int, ...]]


@dataclasses.dataclass(frozen=True)
class SaveOptions:
    """How the item is stored; each as the handler's option of that name."""

    use_ocdbt: bool = True
    use_zarr3: bool = False
    use_compression: bool = True
    ocdbt_target_data_file_size: int | None = None


@dataclasses.dataclass(frozen=True)
class PreparedSave:
    """A tree that can be written without looking at the caller's again."""

    tree: Any
    options: dict[str, Any]

    def write(self, directory: Any) -> None:
        """Writes the item's files into an existing directory.

        Raises:
            OSError: the files cannot be written.
            ValueError: the path is relative, or the tree cannot be stored.
        """
        path = os.fspath(directory)
        if not os.path.isabs(path):
            raise ValueError(f"Checkpoint path should be absolute. Got {path}")
        _engine.save_item(path, self.tree, **self.options)


def prepare_save(
    item: Any,
    save_args: Any = None,
    custom_metadata: Any = None,
    options: SaveOptions | None = None,
    *,
    snapshot: bool = False,
) -> PreparedSave:
    """Checks a tree and takes hold of its arrays.

    Args:
        item: the tree.
        save_args: a tree like `item` of SaveArgs.
        custom_metadata: a JSON value for `_METADATA`.
        options: how to store it.
        snapshot: copy what the caller may change afterwards.

    Raises:
        ValueError: leaves or a structure that cannot be saved.
        TypeError: `custom_metadata` is no JSON value.
    """
    options = options or SaveOptions()
    flat = _structure.flatten(item)
    _refuse_empty(item, flat)
    args = _args_of_leaves(flat, save_args)
    _check_leaves(flat, args)
    engine_options = {
        "zarr_format": 3 if options.use_zarr3 else 2,
        "use_ocdbt": options.use_ocdbt,
        "compression": "zstd" if options.use_compression else None,
        "chunk_bytes_target": 0,
        "ocdbt_target_data_file_bytes": _data_file_bytes(options),
        "item_custom_metadata": _json_text(custom_metadata),
        "save_args": args,
    }
    tree = _engine.build_tree(item, adapt=adapt, snapshot=snapshot)
    return PreparedSave(tree, engine_options)


def _refuse_empty(item: Any, flat: _structure.FlatTree) -> None:
    if flat.leaves:
        return
    # An empty namedtuple or registered node may have a truth of its own.
    if not item:
        raise ValueError("Found empty item.")


def _json_text(custom_metadata: Any) -> str:
    if custom_metadata is None:
        return ""
    try:
        return json.dumps(custom_metadata)
    except TypeError as error:
        raise TypeError(
            "Failed to encode `custom_metadata` metadata as JSON object. Please"
            " ensure your `custom_metadata` is JSON-serializable."
        ) from error


def _data_file_bytes(options: SaveOptions) -> int:
    size = options.ocdbt_target_data_file_size
    if size is None:
        return _DATA_FILE_BYTES
    if options.use_ocdbt and size < 0:
        raise ValueError(
            "OCDBT target_data_file_size must be >= 0, where 0 means no limit;"
            f" got {size}"
        )
    return size


def _args_of_leaves(
    flat: _structure.FlatTree, save_args: Any
) -> dict[str, EngineSaveArgs]:
    """Parameter name -> arguments, of leaves that have any.

    Raises:
        ValueError: `save_args` has another structure.
        AttributeError: a dtype that is no numpy dtype.
    """
    if save_args is None:
        return {}
    given = _structure.match_up_to(flat.tree, save_args)
    return {
        ".".join(names): _engine_args(args)
        for names, args in zip(flat.paths, given, strict=True)
        if isinstance(args, SaveArgs) and _is_set(args)
    }


def _is_set(args: SaveArgs) -> bool:
    # Not by ==: numpy's float64 equals None.
    return (
        args.dtype is not None
        or args.chunk_byte_size is not None
        or bool(args.shard_axes)
    )


def _engine_args(args: SaveArgs) -> EngineSaveArgs:
    dtype = args.dtype
    name = None
    if dtype is not None:
        # As Orbax, which asks the dtype for its size: classes have none.
        _ = dtype.itemsize
        name = np.dtype(dtype).name
    return name, args.chunk_byte_size, tuple(args.shard_axes)


def _is_saved_type(kind: type) -> bool:
    """Whether leaves of that class can be saved at all."""
    saved = (int, float, bytes, np.number, np.ndarray, str, type(...))
    return issubclass(kind, saved)


def _check_leaves(
    flat: _structure.FlatTree, args: dict[str, EngineSaveArgs]
) -> None:
    """Refuses leaves as Orbax does, in its words.

    Raises:
        ValueError: a type that cannot be saved; an array of zero size.
    """
    known: dict[type, bool] = {}
    for names, leaf in zip(flat.paths, flat.leaves, strict=True):
        kind = type(leaf)
        is_array = known.get(kind)
        if is_array is None:
            if not _is_saved_type(kind) and not is_jax_array(leaf):
                raise _unsupported_type(flat, names, leaf)
            is_array = issubclass(kind, np.ndarray) or is_jax_array(leaf)
            known[kind] = is_array
        if is_array and leaf.size == 0:
            typestr = "jax.Array" if is_jax_array(leaf) else "np.ndarray"
            raise ValueError(
                "Cannot save arrays with zero size: ParamInfo:"
                f" [name={'.'.join(names)},value_typestr={typestr}]"
            )


def _unsupported_type(
    flat: _structure.FlatTree, names: _structure.Names, leaf: Any
) -> ValueError:
    name = ".".join(names)
    keypath = _structure.describe_keypath(flat.tree, names)
    return ValueError(
        f"TypeHandler lookup failed for: type={type(leaf)}, keypath={keypath},"
        f" ParamInfo={ParamInfo(name)!r}, RestoreArgs={SaveArgs()},"
        f" value={leaf}"
    )
