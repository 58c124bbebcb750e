"""`holdfast.view`: a checkpoint of any format as Orbax's, without copying
it."""

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
    map: PathLike | None = None,
    reverse: bool = False,
    sizes: Mapping[str, int] | None = None,
    zarr_format: int = 3,
    link: Literal["symlink", "hard", "reflink", "copy"] = "symlink",
    checksums: bool = False,
    must_refer: bool = False,
    compression: Literal["planes", "zstd", "fast"] | None = "zstd",
    chunk_bytes: int = CHUNK_BYTES,
    overwrite: bool = False,
    progress: ProgressArgument = False,
    threads: int | None = None,
    memory_bytes: int | None = None,
    durable: bool = True,
) -> ViewResult:
    """Makes a checkpoint of Orbax's format that refers to the source's bytes.

    Orbax, TensorStore and `load` read it as any other; no byte of a tensor is
    read or written for it. Safetensors keep their names in it, beside copies
    of config.json and the like, so that it is a model of Hugging Face, too.
    Only tensors that cannot be referred to (compressed, cast, elements that lie
    apart in their file) are copied.

    The source must stay as it is: each open compares the sizes and times of
    its files with those of the day of the view.

    Args:
      source: a checkpoint of any format.
      target: the exact place of the view: in a file system, as the source, or
        in the source's bucket.
      format: "orbax", or "orbax-v1"; "safetensors" makes a model of the files
        of a checkpoint that was saved so that it is both (`save(...,
        also="safetensors")`), or that is a view of safetensors. It refuses
        options that leaves or files would have to change for.
      step: of a directory of steps; None: the newest committed one.
      item: only this item of a composite checkpoint.
      select, drop, rename, cast, nest, strict, map, reverse, sizes: as of
        `convert`.
      zarr_format: 3; or 2, which knows only C and Fortran order.
      link: how the source's files come into the view's directory: symbolic
        or hard links, copies that share their blocks, or copies. In a bucket
        only "copy": the server copies the files within it.
      checksums: record the checksums of all that is referred to, which every
        later read is checked by: read it, where the source has none. Those of a
        source that has them all are taken over in any case.
      must_refer: fail for a tensor that would have to be copied.
      compression: of what is copied, as for `save`.
      chunk_bytes: larger tensors are referred to in chunks of at most this
        many bytes, where their rows can be divided so; those of a source that
        has all checksums in its own chunks, which these are of.
      overwrite: replace a checkpoint at `target`, once the view is whole.
      progress: True for a bar, or f(phase, done_bytes, total_bytes).
      threads: None: one a CPU.
      memory_bytes: the most bytes held at once; None: 256 MiB.
      durable: wait until the disk has everything.

    Raises:
      ValueError: with `must_refer` a tensor that would be copied; in a bucket
        files that would be, unless `link` is "copy"; a target that is the
        source or holds it; rules that contradict each other.
      NotImplementedError: source and target are not in one file system or one
        bucket; a kind of link that the file system does not have.
      holdfast.errors.AlreadyExistsError: something is at `target`.
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
            **_recipe(map, reverse, sizes),
            zarr_format=zarr_format,
            link=link,
            checksums=checksums,
            must_refer=must_refer,
            compression=compression,
            chunk_bytes_target=chunk_bytes,
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
    view: PathLike,
    target: PathLike | None = None,
    *,
    step: int | None = None,
    zarr_format: int | None = None,
    ocdbt: bool | None = None,
    compression: Literal["planes", "zstd", "fast"] | None = "zstd",
    chunk_bytes: int = CHUNK_BYTES,
    overwrite: bool = False,
    restart: bool = False,
    check: bool = True,
    progress: ProgressArgument = False,
    threads: int | None = None,
    memory_bytes: int | None = None,
    durable: bool = True,
) -> ConvertResult:
    """Gives a view, or a delta, bytes of its own.

    The sources stay as they are, and may go then. Deltas that were made from it
    still find their base.

    Args:
      view: a checkpoint that refers to the files of another; a delta.
      target: the exact place of the new checkpoint; None: the view's own, which
        it takes once it is whole and has been compared.
      overwrite: replace a checkpoint at `target`, once the new one is whole.
      step, zarr_format, ocdbt, compression, chunk_bytes, restart, check,
        progress, threads, memory_bytes, durable: as of `convert`.

    Raises:
      ValueError: a checkpoint that is neither a view nor a delta.
      holdfast.errors.AlreadyExistsError: something is at `target`.
      holdfast.errors.DataLossError: a source that has changed or is gone;
        damaged bytes.
    """
    new = None if target is None else os.fspath(target)
    with reporting(progress, "materialize") as progress_fn:
        values = _engine.materialize(
            os.fspath(view),
            new,
            step=step,
            zarr_format=zarr_format,
            use_ocdbt=ocdbt,
            compression=compression,
            chunk_bytes_target=chunk_bytes,
            overwrite=overwrite,
            restart=restart,
            check=check,
            sync=durable,
            **run_options(threads, memory_bytes),
            progress=progress_fn,
        )
    return _result(os.fspath(view) if new is None else new, values)
