"""`holdfast.diff`, `stats` and `merge`: compare, measure and combine
checkpoints of any formats, piece by piece."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from holdfast import _engine, _stats
from holdfast._convert import Format, PathLike, _renames, _texts
from holdfast._progress import ProgressArgument, reporting
from holdfast._results import (
    DiffResult,
    LeafDiff,
    LeafStats,
    LeafSummary,
    MergeResult,
    StatsResult,
)
from holdfast._run_options import CHUNK_BYTES, run_options

__all__ = [
    "diff",
    "merge",
    "stats",
]


def _summary(side: tuple[Any, ...] | None) -> LeafSummary | None:
    return None if side is None else LeafSummary(*side)


def diff(
    a: PathLike,
    b: PathLike,
    *,
    atol: float = 0.0,
    rtol: float = 0.0,
    equal_nan: bool = True,
    equal_bits: bool = False,
    ignore_dtype: bool = False,
    only_structure: bool = False,
    by_fingerprint: bool = False,
    find_renamed: bool = True,
    rename: Mapping[str, str] | Sequence[tuple[str, str]] = (),
    select: str | Sequence[str] = (),
    drop: str | Sequence[str] = (),
    step_a: int | None = None,
    step_b: int | None = None,
    progress: ProgressArgument = False,
    threads: int | None = None,
    memory_bytes: int | None = None,
) -> DiffResult:
    """Finds the differences between two checkpoints of any formats.

    Leaves are matched by name. Their kinds, shapes and dtypes are compared, and
    then every element exactly: in its dtype, or as a number if the dtypes
    differ.

    Args:
      a, b: checkpoints of any formats.
      atol, rtol: elements may differ by atol + rtol * max(|a|, |b|).
      equal_nan: treat NaN as equal to NaN.
      equal_bits: treat equal values with different bits as different.
      ignore_dtype: compare only values.
      only_structure: compare everything but values.
      by_fingerprint: compare the stored fingerprints of both checkpoints
        instead of arrays. Any different bits then count as a difference
        ("bits"), and renamed leaves are not found.
      find_renamed: look for leaves that were renamed.
      rename: {name in a: name in b}, or [(pattern, replacement)], regular
        expressions as for `convert`.
      select, drop: globs that choose the leaves of `a` to compare.
      step_a, step_b: steps of directories of steps; None means the newest.
      progress, threads, memory_bytes: as for `convert`.

    Returns:
      A DiffResult, which is true if there is no difference. It also lists
      leaves that cannot be read, with the reason.

    Raises:
      ValueError: a tolerance is below 0, or rules contradict each other.
      holdfast.errors.NotFoundError: there is no checkpoint at a path.
      holdfast.errors.FailedPreconditionError: by_fingerprint is set and a leaf
        has no fingerprint.
    """
    with reporting(progress, "diff") as progress_fn:
        rows, worst, engine_stats = _engine.diff(
            os.fspath(a),
            os.fspath(b),
            atol=atol,
            rtol=rtol,
            equal_nan=equal_nan,
            equal_bits=equal_bits,
            ignore_dtype=ignore_dtype,
            only_structure=only_structure,
            by_fingerprint=by_fingerprint,
            find_renamed=find_renamed,
            rename=_renames(rename),
            select=_texts(select),
            drop=_texts(drop),
            step_a=step_a,
            step_b=step_b,
            progress=progress_fn,
            **run_options(threads, memory_bytes),
        )
    leaves = [
        LeafDiff(**{**row, "a": _summary(row["a"]), "b": _summary(row["b"])})
        for row in rows
    ]
    return DiffResult(
        leaves,
        [leaves[i] for i in worst],
        _stats.remember(_stats.from_engine(engine_stats)),
    )


def stats(
    path: PathLike,
    *,
    step: int | None = None,
    progress: ProgressArgument = False,
    threads: int | None = None,
    memory_bytes: int | None = None,
) -> StatsResult:
    """Computes statistics of each tensor of a checkpoint.

    Each tensor is read once, piece by piece; the results do not depend on
    `threads`. Arguments are the same as for `diff`. The result also lists
    leaves that cannot be read.

    Raises:
      holdfast.errors.NotFoundError: there is no checkpoint at `path`.
    """
    with reporting(progress, "stats") as progress_fn:
        rows, l2_norm, absmax, engine_stats = _engine.stats(
            os.fspath(path),
            step=step,
            progress=progress_fn,
            **run_options(threads, memory_bytes),
        )
    return StatsResult(
        [LeafStats(**row) for row in rows],
        l2_norm,
        absmax,
        _stats.remember(_stats.from_engine(engine_stats)),
    )


def merge(
    sources: Sequence[PathLike] | Mapping[str, PathLike],
    target: PathLike,
    *,
    prefer: Literal["first", "last"] | None = None,
    average: bool | Sequence[float] = False,
    take_first: bool = False,
    format: Format | None = None,
    zarr_format: int | None = None,
    ocdbt: bool | None = None,
    compression: Literal["planes", "zstd", "fast"] | None = "zstd",
    chunk_bytes: int = CHUNK_BYTES,
    overwrite: bool = False,
    compare: bool = True,
    progress: ProgressArgument = False,
    threads: int | None = None,
    memory_bytes: int | None = None,
    durable: bool = True,
) -> MergeResult:
    """Merges several checkpoints of any formats into one.

    The result has the leaves of all sources. With `average` it has the mean of
    each float tensor: sum(w * x) / sum(w) in float64, rounded once to the dtype
    of the first source. Leaves that are not floats must then be equal in all
    sources.

    Args:
      sources: paths; or {prefix: path}, which prepends "prefix." to the names
        of a source's leaves ("" leaves the names unchanged).
      target: the exact path of the new checkpoint.
      prefer: the source to use for a name that several sources have; None
        treats such a name as an error. Cannot be combined with `average`.
      average: True, or one weight for each source. Cannot be combined with
        prefixes.
      take_first: take leaves that are not floats from the first source; needs
        `average`.
      format, zarr_format, ocdbt, compression, chunk_bytes, overwrite, compare:
        as for `convert`.
      progress, threads, memory_bytes, durable: as for `convert`.

    Raises:
      ValueError: names collide; or leaves are missing, have different shapes,
        or differ although they must be equal.
      holdfast.errors.AlreadyExistsError: `target` exists.
    """
    pairs = (
        [(os.fspath(path), prefix) for prefix, path in sources.items()]
        if isinstance(sources, Mapping)
        else [(os.fspath(path), "") for path in sources]
    )
    weights = [] if isinstance(average, bool) else [float(w) for w in average]
    new = os.fspath(target)
    with reporting(progress, "merge") as progress_fn:
        values = _engine.merge(
            pairs,
            new,
            prefer=prefer or "",
            average=average if isinstance(average, bool) else True,
            weights=weights,
            take_first=take_first,
            format=format,
            zarr_format=zarr_format,
            use_ocdbt=ocdbt,
            compression=compression,
            chunk_bytes=chunk_bytes,
            overwrite=overwrite,
            check=compare,
            sync=durable,
            progress=progress_fn,
            **run_options(threads, memory_bytes),
        )
    return MergeResult(target=new, **values)
