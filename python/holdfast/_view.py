"""`holdfast.view`: presents a checkpoint of any format as an Orbax checkpoint,
without copying."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from holdfast import _engine
from holdfast._convert import (
    PathLike,
    _converted_leaves,
    _recipe,
    _result,
    _rules,
)
from holdfast._progress import ProgressArgument, reporting
from holdfast._results import ConvertResult, CopiedLeaf, ViewResult
from holdfast._run_options import CHUNK_BYTES, run_options

__all__ = ["materialize", "view"]


def view(
    source: PathLike,
    target: PathLike,
    *,
    format: Literal["orbax", "orbax-v1", "safetensors"] = "orbax",
    step: int | None = None,
    item: str | None = None,
    select: str | Sequence[str] = (),
    drop: str | Sequence[str] = (),
    rename: Mapping[str, str] | Sequence[tuple[str, str]] = (),
    cast: Mapping[str, Any] | None = None,
    nest: bool = False,
    strict: bool = False,
    recipe: PathLike | None = None,
    reverse: bool = False,
    sizes: Mapping[str, int] | None = None,
    zarr_format: int = 3,
    link: Literal["symlink", "hard", "reflink", "copy"] = "symlink",
    checksums: bool = False,
    copy: bool = True,
    compression: Literal["planes", "zstd", "fast"] | None = "zstd",
    chunk_bytes: int = CHUNK_BYTES,
    overwrite: bool = False,
    progress: ProgressArgument = False,
    threads: int | None = None,
    memory_bytes: int | None = None,
    durable: bool = True,
) -> ViewResult:
    """Makes an Orbax checkpoint that refers to the source's bytes.

    Orbax, TensorStore and `load` read the view like any other checkpoint.
    Making it neither reads nor writes tensor bytes. Safetensors files keep
    their names in the view, next to copies of config.json and similar files, so
    the view is also a Hugging Face model. A tensor is copied only if it cannot
    be referred to: if it is compressed or cast, or its elements are not
    contiguous.

    The source must not change. Each open compares the sizes and modification
    times of the source's files with those recorded when the view was made.

    Args:
      source: a checkpoint of any format.
      target: the exact path of the view, in the source's file system or bucket.
      format: "orbax", or "orbax-v1"; "safetensors" makes a model from the files
        of a checkpoint that was saved as both (`save(...,
        also="safetensors")`), or of a view of safetensors. It refuses options
        that would change leaves or files.
      step: a step of a directory of steps; None means the newest committed one.
      item: only this item of a composite checkpoint.
      select, drop, rename, cast, nest, strict, recipe, reverse, sizes: as for
        `convert`.
      zarr_format: 3; or 2, which supports only C and Fortran order.
      link: how the source's files get into the view's directory: symbolic or
        hard links, copies that share their blocks, or full copies. A bucket
        allows only "copy": the server copies the files within the bucket.
      checksums: record checksums of all bytes that the view refers to, so every
        later read is checked. This reads the bytes if the source has no
        checksums. If the source has all checksums, the view always adopts them.
      copy: copy tensors that cannot be referred to. If False, they are errors.
      compression: compression of copied tensors, as for `save`.
      chunk_bytes: larger tensors are referred to in chunks of at most this many
        bytes, if their rows can be divided like that. If the source has all
        checksums, the view uses the source's chunks, which these checksums
        cover.
      overwrite: replace a checkpoint at `target` once the view is complete.
      progress: True for a bar, or f(phase, done_bytes, total_bytes).
      threads: None means one per CPU.
      memory_bytes: the most bytes held at a time; None means 256 MiB.
      durable: wait until everything is on disk.

    Raises:
      ValueError: a tensor would be copied with `copy=False`; files in a bucket
        would be copied and `link` is not "copy"; the target is the source or
        contains it; rules contradict each other.
      NotImplementedError: source and target are not in the same file system or
        bucket; the file system does not support this kind of link.
      holdfast.errors.AlreadyExistsError: `target` exists.
    """
    new = os.fspath(target)
    with reporting(progress, "view") as progress_fn:
        values = _engine.view(
            os.fspath(source),
            new,
            format=format,
            step=step,
            item=item or "",
            **_rules(select, drop, rename, cast),
            nest=nest,
            strict=strict,
            **_recipe(recipe, reverse, sizes),
            zarr_format=zarr_format,
            link=link,
            checksums=checksums,
            must_refer=not copy,
            compression=compression,
            chunk_bytes=chunk_bytes,
            overwrite=overwrite,
            sync=durable,
            **run_options(threads, memory_bytes),
            progress=progress_fn,
        )
    report = json.loads(values.pop("report"))
    copied = [CopiedLeaf(*row) for row in values.pop("copied")]
    return ViewResult(
        target=new,
        copied=copied,
        leaves=_converted_leaves(report),
        notes=report["notes"],
        **values,
    )


def materialize(
    source: PathLike,
    target: PathLike | None = None,
    *,
    step: int | None = None,
    zarr_format: int | None = None,
    ocdbt: bool | None = None,
    compression: Literal["planes", "zstd", "fast"] | None = "zstd",
    chunk_bytes: int = CHUNK_BYTES,
    overwrite: bool = False,
    restart: bool = False,
    compare: bool = True,
    progress: ProgressArgument = False,
    threads: int | None = None,
    memory_bytes: int | None = None,
    durable: bool = True,
) -> ConvertResult:
    """Turns a view or a delta into a checkpoint that has its own bytes.

    The sources do not change, and may be deleted afterwards. Deltas that were
    made from the view or delta still find their base.

    Args:
      source: a view, which refers to another checkpoint's files, or a delta.
      target: the exact path of the new checkpoint. None replaces the view
        itself once the new checkpoint is complete and has been compared.
      overwrite: replace a checkpoint at `target` once the new one is complete.
      step, zarr_format, ocdbt, compression, chunk_bytes, restart, compare,
        progress, threads, memory_bytes, durable: as for `convert`.

    Raises:
      ValueError: the checkpoint is neither a view nor a delta.
      holdfast.errors.AlreadyExistsError: `target` exists.
      holdfast.errors.DataLossError: a source has changed or is missing; bytes
        are damaged.
    """
    new = None if target is None else os.fspath(target)
    with reporting(progress, "materialize") as progress_fn:
        values = _engine.materialize(
            os.fspath(source),
            new,
            step=step,
            zarr_format=zarr_format,
            use_ocdbt=ocdbt,
            compression=compression,
            chunk_bytes=chunk_bytes,
            overwrite=overwrite,
            restart=restart,
            check=compare,
            sync=durable,
            **run_options(threads, memory_bytes),
            progress=progress_fn,
        )
    return _result(os.fspath(source) if new is None else new, values)
