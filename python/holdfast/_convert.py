"""`holdfast.convert`: converts checkpoints from one format to another."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from holdfast import _engine
from holdfast._progress import ProgressArgument, reporting
from holdfast._results import ConvertedLeaf, ConvertResult
from holdfast._run_options import CHUNK_BYTES, run_options

__all__ = ["convert", "recipes"]

PathLike = str | os.PathLike[str]
Format = Literal[
    "orbax",
    "orbax-v1",
    "megatron-zarr",
    "safetensors",
    "dcp",
    "torch-dist",
    "npz",
]


def _texts(texts: str | Sequence[str]) -> list[str]:
    return [texts] if isinstance(texts, str) else list(texts)


def _renames(
    rename: Mapping[str, str] | Sequence[tuple[str, str]],
) -> list[tuple[str, str, bool]]:
    if isinstance(rename, Mapping):
        return [(old, new, True) for old, new in rename.items()]
    return [(pattern, new, False) for pattern, new in rename]


def _recipe(
    recipe: PathLike | None, reverse: bool, sizes: Mapping[str, int] | None
) -> dict[str, Any]:
    arguments: dict[str, Any] = {"reverse": reverse, "sizes": dict(sizes or {})}
    if recipe is None:
        return arguments
    name = os.fspath(recipe)
    if name in _engine.recipe_names() or not os.path.exists(name):
        return arguments | {"recipe_name": name}
    with open(name, encoding="utf-8") as file:
        return arguments | {"recipe_text": file.read()}


def _rules(
    select: str | Sequence[str],
    drop: str | Sequence[str],
    rename: Mapping[str, str] | Sequence[tuple[str, str]],
    cast: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """Returns the engine's arguments for the leaf rules of `convert` and
    `view`."""
    return {
        "select": _texts(select),
        "drop": _texts(drop),
        "rename": _renames(rename),
        "cast": [
            (glob, _dtype_name(dtype)) for glob, dtype in (cast or {}).items()
        ],
    }


def recipes() -> list[str]:
    """Returns the names of the recipes shipped with holdfast, for `convert`
    and `view`."""
    return _engine.recipe_names()


def _dtype_name(dtype: Any) -> str:
    if isinstance(dtype, str):
        return dtype
    return str(np.dtype(dtype).name)


def convert(
    source: PathLike,
    target: PathLike,
    *,
    format: Format | None = None,
    step: int | None = None,
    item: str | None = None,
    select: str | Sequence[str] = (),
    drop: str | Sequence[str] = (),
    rename: Mapping[str, str] | Sequence[tuple[str, str]] = (),
    cast: Mapping[str, Any] | None = None,
    shards: Mapping[str, Sequence[int]] | None = None,
    nest: bool = False,
    strict: bool = False,
    recipe: PathLike | None = None,
    reverse: bool = False,
    sizes: Mapping[str, int] | None = None,
    zarr_format: int | None = None,
    ocdbt: bool | None = None,
    compression: Literal["planes", "zstd", "fast"] | None = "zstd",
    chunk_bytes: int = CHUNK_BYTES,
    data_file_bytes: int | None = None,
    also: Literal["safetensors"] | None = None,
    overwrite: bool = False,
    restart: bool = False,
    compare: bool = True,
    progress: ProgressArgument = False,
    threads: int | None = None,
    memory_bytes: int | None = None,
    durable: bool = True,
) -> ConvertResult:
    """Converts any checkpoint that `open` can read to another format.

    Arrays stream from file to file, with at most `memory_bytes` of them in
    memory. The target appears complete or not at all. An interrupted call
    leaves `<target>.holdfast-convert-tmp`; repeating the call continues from
    there. A sidecar stores everything that the new format cannot express, so
    converting back restores every leaf with its keys, kind, dtype and bits.

    Args:
      source: a checkpoint of any format.
      target: the exact path of the new checkpoint: a directory, or one file if
        it ends in ".safetensors" or ".npz". Suffixes of formats that holdfast
        does not write (".pt") are refused.
      format: "orbax", "orbax-v1", "megatron-zarr", "safetensors", "dcp",
        "torch-dist" or "npz". None derives the format from the target's name,
        or else uses the source's format.
      step: a step of a directory of steps; None means the newest committed one.
      item: only this item of a composite checkpoint.
      select: globs over names (keys joined with "."); empty means all leaves.
      drop: globs that choose leaves to leave out.
      rename: {old name: new name}, as plain text; or [(pattern, replacement)],
        regular expressions in Python's syntax that must match all of a leaf's
        keys joined with "/", or else its complete name. The first matching
        pattern counts.
      cast: {glob: dtype} for arrays of any shape; a dtype is a name or a numpy
        dtype. The last matching glob counts.
      shards: {glob: (n, ...)}: the number of chunks along each axis, for
        "megatron-zarr", "dcp" and "torch-dist". Other formats refuse this
        option.
      nest: split names at their dots into nested dicts.
      strict: treat a rule that matches no leaf as an error.
      recipe: describes how to build new arrays from old ones: the name of a
        shipped recipe (`holdfast.recipes()`), or a file. All other rules apply
        to the leaves that the recipe builds.
      reverse: run the recipe backwards; needs `recipe`.
      sizes: sizes of the recipe's axes by name; they override the sizes in the
        model's config.json and in shapes. Needs `recipe`.
      zarr_format: 2 or 3; None uses the source's. Only Orbax's formats accept
        this, `ocdbt` and `compression`; other formats refuse them.
      ocdbt: True stores one database, False a directory for each array; None
        does as the source does.
      compression: as for `save`.
      chunk_bytes: larger arrays are split into chunks of about this many bytes,
        in Orbax's formats and "megatron-zarr". Other formats refuse this
        option.
      data_file_bytes: begin a new data file when one reaches this size; None
        means the format's default. Only for "safetensors", "dcp" and
        "torch-dist", and with `also`.
      also: as for `save`, for Orbax's formats. If the call is interrupted, the
        next call starts over.
      overwrite: replace a checkpoint at `target` once the new one is complete.
      restart: start over, discarding what an earlier call left.
      compare: read the new checkpoint back and compare it.
      progress: True for a bar, or f(phase, done_bytes, total_bytes).
      threads: None means one per CPU.
      memory_bytes: the most bytes of arrays held at a time; None means 256 MiB.
      durable: wait until everything is on disk.

    Raises:
      ValueError: rules contradict each other, or give two leaves the same name;
        the target's name implies a format other than `format`; the format does
        not support an option.
      holdfast.errors.AlreadyExistsError: `target` exists.
      holdfast.errors.DataLossError: bytes are damaged, or the target differs
        from its source.
    """
    new = os.fspath(target)
    with reporting(progress, "convert") as progress_fn:
        values = _engine.convert(
            os.fspath(source),
            new,
            format=format,
            step=step,
            item=item or "",
            **_rules(select, drop, rename, cast),
            shards=[
                (glob, list(counts)) for glob, counts in (shards or {}).items()
            ],
            nest=nest,
            strict=strict,
            **_recipe(recipe, reverse, sizes),
            zarr_format=zarr_format,
            use_ocdbt=ocdbt,
            compression=compression,
            chunk_bytes=chunk_bytes,
            shard_bytes_max=data_file_bytes or 0,
            also=also,
            overwrite=overwrite,
            restart=restart,
            check=compare,
            sync=durable,
            **run_options(threads, memory_bytes),
            progress=progress_fn,
        )
    return _result(new, values)


def _converted_leaves(report: dict[str, Any]) -> list[ConvertedLeaf]:
    return [
        ConvertedLeaf(leaf["leaf"], leaf.get("new_name"), leaf["what"])
        for leaf in report["leaves"]
    ]


def _result(target: str, values: dict[str, Any]) -> ConvertResult:
    report = json.loads(values.pop("report"))
    return ConvertResult(
        target=target,
        leaves=_converted_leaves(report),
        notes=report["notes"],
        resumed=report["resumed"],
        resume_text=report["resume_text"],
        kept_bytes=report["kept_bytes"],
        **values,
    )
