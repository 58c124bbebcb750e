"""The names that `import holdfast` offers: save, load, open, digest, verify,
steps."""

from __future__ import annotations

import contextlib
import os
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, overload

from holdfast import (
    _array_kinds,
    _engine,
    _files,
    _fingerprint,
    _mapping,
    _process_group,
    _stats,
    _target,
    errors,
)
from holdfast._adapt import make_adapt
from holdfast._delta import DeltaPolicy
from holdfast._future import Future, raise_earlier_failure
from holdfast._json_values import json_text
from holdfast._log import log
from holdfast._process_group import GroupArgument, telling
from holdfast._progress import (
    ProgressArgument,
    ProgressFn,
    cancelling,
    reporting,
)
from holdfast._results import VerifyReport
from holdfast._run_options import CHUNK_BYTES, byte_count, run_options
from holdfast._spread import has_spread
from holdfast._stats import Stats

__all__ = [
    "digest",
    "load",
    "open",
    "save",
    "steps",
    "verify",
]

PathLike = str | os.PathLike[str]
Compression = Literal["planes", "zstd", "fast"] | None
ArrayKind = Literal["numpy", "torch", "jax"]
MapArgument = bool | Literal["require"]

if TYPE_CHECKING:
    from typing_extensions import TypedDict, Unpack

    class _SaveOptions(TypedDict, total=False):
        format: str
        zarr_format: int | None
        ocdbt: bool
        compression: Compression
        also: Literal["safetensors"] | None
        overwrite: bool
        base: PathLike | int | None
        deltas: DeltaPolicy | None
        progress: ProgressArgument
        custom_metadata: Mapping[str, Any] | None
        chunk_bytes: int
        data_file_bytes: int | None
        threads: int | None
        memory_bytes: int | None
        durable: bool
        fingerprints: bool
        check_replicas: bool
        group: GroupArgument
        timeout: float


@overload
def save(
    path: PathLike,
    tree: Any,
    *,
    background: Literal[False] = ...,
    **options: Unpack[_SaveOptions],
) -> Stats: ...


@overload
def save(
    path: PathLike,
    tree: Any,
    *,
    background: Literal[True],
    **options: Unpack[_SaveOptions],
) -> Future[Stats]: ...


def save(
    path: PathLike,
    tree: Any,
    *,
    format: str = "orbax",
    zarr_format: int | None = None,
    ocdbt: bool = True,
    compression: Compression = "planes",
    also: Literal["safetensors"] | None = None,
    overwrite: bool = False,
    base: PathLike | int | None = None,
    deltas: DeltaPolicy | None = None,
    background: bool = False,
    progress: ProgressArgument = False,
    custom_metadata: Mapping[str, Any] | None = None,
    chunk_bytes: int = CHUNK_BYTES,
    data_file_bytes: int | None = None,
    threads: int | None = None,
    memory_bytes: int | None = None,
    durable: bool = True,
    fingerprints: bool = False,
    check_replicas: bool = False,
    group: GroupArgument = "auto",
    timeout: float = 600.0,
) -> Stats | Future[Stats]:
    """Writes a pytree as a checkpoint that Orbax reads too.

    The checkpoint exists at `path` all at once or not at all: a failed or
    interrupted save leaves whatever was there before.

    Args:
      path: the directory to make.
      tree: dicts, lists, tuples, named tuples, dataclasses, attrs classes and
        whatever is registered with JAX, with leaves of numpy arrays and
        scalars, jax.Arrays (sharded ones and typed PRNG keys too), torch CPU
        tensors, bool, int, float, complex, str, None.
      format: "orbax" (the tree at `path` itself) or "orbax-v1" (in
        `path/state`).
      zarr_format: 2 or 3; None: 2 for "orbax" and 3 for "orbax-v1", as Orbax.
      ocdbt: one database; False: a directory for each array.
      compression: "planes" (zstd of byte planes in blosc: smallest, loads
        fastest; Orbax, TensorStore and zarr-python read it), "zstd" (the same
        metadata as Orbax's), "fast" (lz4 with bit shuffle) or None.
      also: "safetensors": the arrays lie, uncompressed, in safetensors files
        (`model.safetensors`, or shards and their index), which are written once
        and committed with the rest: the directory opens as either format, names
        being the keys joined with ".". Needs `ocdbt`, a file system, and the
        default compression, which then compresses nothing.
      overwrite: replace what is at `path`, after the new one is complete.
      base: an earlier step: a delta is written, what has changed since then
        (`doc/deltas.md`). A path, or a number: the step beside `path`. The
        delta needs its base; `materialize` makes a whole step of it. One
        process only; not with `also`, another format than "orbax",
        `compression`, `chunk_bytes` or `fingerprints`, which differences have
        no place for.
      deltas: choose the base: the newest step before `path`, or none where a
        whole step is due. A damaged base counts as missing, with a warning: the
        run goes on from a new whole step. `compression`, `chunk_bytes` and
        `fingerprints` are those of whole steps. Neither with `also` nor with
        another format than "orbax".
      background: copy everything that may change, continue in a thread and
        return a Future. Writing to the arrays afterwards does not change the
        checkpoint.
      progress: True for a bar, or f(phase, done_bytes, total_bytes).
      custom_metadata: a JSON object stored beside the tree.
      chunk_bytes: larger arrays are cut into chunks of about this many bytes;
        0: not at all, as Orbax does.
      data_file_bytes: data files are closed at this size; 0: never; None: 2
        GiB, in buckets 400 MiB, of `also` 5 GB. Wants `ocdbt`.
      threads: None: one a CPU.
      memory_bytes: the most bytes between memory and disk at once; None: 256
        MiB.
      durable: wait until the disk has everything.
      fingerprints: store 128 bits for the elements of each array
        (`doc/fingerprints.md`), by which a load checks them in memory and
        `holdfast diff --fingerprint` compares steps. Only whole steps have
        them.
      check_replicas: before anything is written, and before a background save
        returns, compare the copies of each tensor that devices and processes of
        the group hold, as `holdfast.check_replicas` does. With it "auto" is all
        of `torch.distributed` for plain tensors too.
      group: the processes that save this checkpoint together: all of them make
        this call, with trees of the same structure. Each writes its own parts
        of jax.Arrays and DTensors that are spread over them; rank 0 writes
        everything else. "jax" or "torch": those of `jax.distributed` or
        `torch.distributed`; one of torch's process groups; a
        `holdfast.ProcessGroup`; None: only this process. "auto": all of
        `jax.distributed` where that is initialised; all of `torch.distributed`
        when the tree holds DTensors, so that rank 0 may save plain tensors by
        itself; else None.
      timeout: seconds that a rank waits for the others at each meeting.

    Returns:
      What was moved, by this process, and how long it took; a Future of that
      in background.

    Raises:
      errors.InvalidArgumentError: a leaf or an argument that cannot be saved.
      errors.AlreadyExistsError: something is at `path` and not `overwrite`.
      errors.ResourceExhaustedError, errors.PermissionDeniedError: the disk.
      errors.DeadlineExceededError: ranks that did not come, naming them.
      errors.DataLossError: replicas that differ, naming ranks and tensors.
      KeyboardInterrupt: within moments of the signal, nothing being left.
      Exception: the error of an earlier background save, if nobody has asked
        its Future for it; it is raised once, and this save does not begin.
    """
    if base is not None and deltas is not None:
        raise errors.InvalidArgumentError("base and deltas: want one")
    if data_file_bytes is not None and not ocdbt:
        raise errors.InvalidArgumentError(
            "data_file_bytes and ocdbt=False: data files are a database's, and "
            "without one each chunk is a file; want one of the two"
        )
    options: dict[str, Any] = {
        "format": format,
        "zarr_format": 0 if zarr_format is None else zarr_format,
        "use_ocdbt": ocdbt,
        "compression": compression,
        "overwrite": overwrite,
        "custom_metadata": _json_object(custom_metadata),
        "chunk_bytes_target": byte_count("chunk_bytes", chunk_bytes),
        "ocdbt_target_data_file_bytes": (
            _files.data_file_bytes(path)
            if data_file_bytes is None
            else data_file_bytes
        ),
        "also": also,
        "also_shard_bytes_max": max(data_file_bytes or 0, 0),
        "base": _base_path(path, base),
        "anchor_every": None if deltas is None else deltas.anchor_every,
        "sync": durable,
        "fingerprints": fingerprints,
        **run_options(threads, memory_bytes),
    }
    destination = os.fspath(path)
    processes = _process_group.chosen(
        group,
        takes_all_jax=True,
        has_spread=lambda kind: check_replicas or has_spread(tree, kind),
    )
    if check_replicas:
        _fingerprint.check(tree, processes, _seconds("timeout", timeout))
    call = None
    if processes is not None:
        call = processes.begin(
            destination, _seconds("timeout", timeout), overlaps=background
        )
        if call.rank != 0:
            progress = False
    start = time.perf_counter()
    with telling(call):
        raise_earlier_failure()
        built = _engine.build_tree(
            tree,
            adapt=make_adapt(processes),
            snapshot=background,
            int_keys=True,
        )
        built.item_documents = getattr(tree, "item_documents", "")
    snapshot_seconds = time.perf_counter() - start

    def run(progress_fn: ProgressFn | None) -> Stats:
        log.info("saving %s", destination)
        try:
            with call or contextlib.nullcontext():
                engine_stats = _engine.save(
                    destination,
                    built,
                    progress=progress_fn,
                    group=None if call is None else call.engine,
                    **options,
                )
        except BaseException as error:
            log.error("saving %s failed: %s", destination, error)
            raise
        stats = _stats.from_engine(
            engine_stats,
            snapshot_seconds=snapshot_seconds,
            copied_bytes=built.copied_bytes,
        )
        log.info("saved %s: %s", destination, stats)
        return stats

    def run_in_background(is_cancelled: Callable[[], bool]) -> Stats:
        with reporting(progress, "save") as progress_fn:
            return run(cancelling(progress_fn, is_cancelled))

    if background:
        with telling(call):
            return Future(
                run_in_background,
                what=f"save to {destination}",
                raises_at_next_save=True,
            )
    with telling(call), reporting(progress, "save") as progress_fn:
        return _stats.remember(run(progress_fn))


def load(
    path: PathLike,
    target: Any = None,
    *,
    keys: Sequence[str] | str | None = None,
    arrays: ArrayKind = "numpy",
    step: int | None = None,
    item: str | None = None,
    strict: bool = True,
    progress: ProgressArgument = False,
    threads: int | None = None,
    memory_bytes: int | None = None,
    mmap: MapArgument = False,
    verify: bool | None = None,
    fingerprints: bool = False,
    group: GroupArgument = "auto",
    timeout: float = 600.0,
) -> Any:
    """Reads a checkpoint: Orbax's, holdfast's, or of a foreign format.

    Foreign formats are safetensors (a file, or a directory of shards), npz,
    files of torch.save, and the directories of torch.distributed.checkpoint and
    of Megatron; load recognises them by their files. It gives their tensors by
    name, or as the tree that holdfast has kept with them. A pickled object in
    them becomes the plain value that it stands for; no code of it runs.

    Args:
      path: a checkpoint, a step, a manager's directory of steps, an OCDBT
        database, a zarr array or a directory of such.
      target: a tree that says what to return: its containers, with leaves of
        its leaves' kinds, shapes and dtypes. numpy arrays, numbers and strings,
        jax.Array and jax.ShapeDtypeStruct (with their shardings: each device's
        part is read once), torch tensors, DTensors (each rank reads its own
        part); `...` for leaves that should not be read. None: dicts and lists
        with numpy arrays.
      keys: names, or the beginnings of names ("params" selects "params.w"),
        of the leaves to read; None: all.
      arrays: the kind of arrays to return without a target: "numpy", "torch"
        (tensors on the CPU) or "jax" (on jax's default device); the library
        adopts the memory that was read into, if it can.
      step: of a manager's directory; None: the newest.
      item: of a composite checkpoint; None: all, as a dict.
      strict: refuse dtypes other than the target's; False casts them.
      progress: True for a bar, or f(phase, done_bytes, total_bytes).
      threads: None: one a CPU.
      memory_bytes: the most bytes between disk and memory at once; None: 256
        MiB.
      mmap: give arrays where they lie in their files, without reading them:
        a page comes from the disk when it is first touched. That can be where
        an array is one uncompressed, little-endian, aligned range of a local
        file in C order, not of bools; others are read, and
        `open(path).why_not_mmap()` says why. "require" makes them an error.
        numpy arrays are then read-only; torch tensors may be written to, which
        never changes the file. The files must stay as they are: cutting one
        short makes the next touch end the process (SIGBUS). Not with a target.
      verify: check the checksums of all bytes that are read. None: yes, but
        mapped arrays are not verified; True: they are, by reading them once.
      fingerprints: also check whole arrays where they lie in memory, when all
        are read, if the checkpoint was saved with fingerprints
        (`Stats.fingerprint_count` says how many). Parts of arrays, casts and
        mapped arrays are not. Not without `verify`.
      group: as for `save`; the processes that make this call together, each
        with a target of its own. Chunks that several processes of one host want
        are read once. "auto": all of `jax.distributed` or `torch.distributed`
        when the target has arrays that are spread over processes, else None.
        Without a target each process reads by itself.
      timeout: seconds that a rank waits for the others at each meeting.

    Returns:
      The tree. Its arrays own their memory and may be written to, but for
      numpy arrays that are mapped.

    Raises:
      errors.NotFoundError: no checkpoint at `path`, or no leaf for `keys`.
      errors.DataLossError: damaged bytes, naming tensor, file and offset; or
        the newest step was committed and is damaged; the error names the newest
        whole step, and `step` reads that one.
      errors.InvalidArgumentError: a target of another structure, or a leaf of
        another shape or dtype, naming it; with mmap="require" an array that
        cannot be mapped, and why; mmap with a target.

    Warns:
      errors.HoldfastWarning: the list of checksums that the checkpoint was
        saved with is gone.
    """
    names = [keys] if isinstance(keys, str) else keys
    options: dict[str, Any] = run_options(threads, memory_bytes)
    source = os.fspath(path)
    call = None
    if target is not None:
        if mmap:
            raise errors.InvalidArgumentError(
                "load: mmap gives arrays as they are stored, and takes no"
                " target; load without one"
            )
        processes = _process_group.chosen(
            group, takes_all_jax=False, has_spread=partial(has_spread, target)
        )
        if processes is not None:
            call = processes.begin(source, _seconds("timeout", timeout))
            if call.rank != 0:
                progress = False
    notes: list[str] = []

    def opened() -> _engine.Checkpoint:
        checkpoint = _engine.Checkpoint(
            source,
            step=step,
            item=item or "",
            verify=verify is not False,
            fingerprints=fingerprints,
        )
        notes.extend(checkpoint.notes)
        return checkpoint

    with (
        call or contextlib.nullcontext(),
        reporting(progress, "load") as progress_fn,
    ):
        if target is None:
            convert = _array_kinds.converter(arrays)
            tree, stats, notes = _engine.load(
                source,
                step=step,
                item=item or "",
                names=names or (),
                verify=verify is not False,
                map=_map_mode(mmap),
                copy_on_write=arrays == "torch",
                verify_mapped=verify is True,
                fingerprints=fingerprints,
                progress=progress_fn,
                **options,
            )
            if convert is not None:
                tree = _array_kinds.with_arrays(tree, convert)
        else:
            tree, stats = _target.restore(
                opened,
                target,
                strict=strict,
                keys=names,
                call=call,
                progress=progress_fn,
                **options,
            )
    log.info(
        "loaded %s: %s",
        os.fspath(path),
        _stats.remember(_stats.from_engine(stats)),
    )
    _warn(notes)
    return tree


def open(
    path: PathLike,
    *,
    step: int | None = None,
    item: str | None = None,
    verify: bool = True,
) -> _mapping.Checkpoint:
    """Opens a checkpoint without reading its arrays.

    Returns a read-only mapping: `holdfast.open(path)["params.w"][0:10]` reads
    ten rows. It is a context manager, and can be pickled: a worker of a loader
    opens it again. Arguments and errors as of `load`.
    """
    checkpoint = _mapping.Checkpoint(
        os.fspath(path), step=step, item=item or "", verify=verify
    )
    _warn(checkpoint.notes)
    return checkpoint


def _map_mode(mmap: MapArgument) -> str:
    if mmap == "require":
        return "required"
    if mmap is True or mmap is False:
        return "where_possible" if mmap else "never"
    raise errors.InvalidArgumentError(
        f'mmap: got {mmap!r}, want True, False or "require"'
    )


def _warn(notes: Sequence[str]) -> None:
    """Warns the caller of `load` or `open` of all that the engine noted."""
    for note in notes:
        warnings.warn(note, errors.HoldfastWarning, stacklevel=3)


@overload
def digest(
    path: PathLike,
    name: None = None,
    *,
    step: int | None = None,
    item: str | None = None,
) -> dict[str, str]: ...


@overload
def digest(
    path: PathLike,
    name: str,
    *,
    step: int | None = None,
    item: str | None = None,
) -> str: ...


def digest(
    path: PathLike,
    name: str | None = None,
    *,
    step: int | None = None,
    item: str | None = None,
) -> str | dict[str, str]:
    """Hex sha256 of one leaf's value, or of each leaf's by name.

    Over the elements in C order, little endian: equal values have equal
    digests, whatever the format.

    Raises NotFoundError when there is no leaf `name`; others as `load`.
    """
    checkpoint = _engine.Checkpoint(os.fspath(path), step=step, item=item or "")
    leaves = checkpoint.leaves
    if name is None:
        return {
            leaf.name: checkpoint.digest(i) for i, leaf in enumerate(leaves)
        }
    for i, leaf in enumerate(leaves):
        if leaf.name == name:
            return checkpoint.digest(i)
    raise errors.NotFoundError(f"{checkpoint.path}: no leaf {name!r}")


def verify(
    path: PathLike,
    *,
    step: int | None = None,
    item: str | None = None,
    progress: ProgressArgument = False,
    threads: int | None = None,
    memory_bytes: int | None = None,
) -> VerifyReport:
    """Reads and checks every byte that a restore could depend on.

    The report lists all damage, and what is not supported; verify raises only
    if `path` is not a checkpoint at all (NotFoundError). Arguments as for
    `load`.
    """
    source = os.fspath(path)
    with reporting(progress, "verify") as progress_fn:
        damages, not_supported, notes, leaf_count, stats = _engine.verify(
            source,
            step=step,
            item=item or "",
            progress=progress_fn,
            **run_options(threads, memory_bytes),
        )
    return VerifyReport(
        source,
        damages,
        not_supported,
        notes,
        leaf_count,
        _stats.remember(_stats.from_engine(stats)),
    )


def steps(path: PathLike) -> list[int]:
    """The committed steps of a manager's directory, ascending.

    A step that was committed and is damaged is one of them. Raises
    NotFoundError when it has no step.
    """
    found = [
        info.step
        for info in _engine.list_steps(os.fspath(path))
        if info.committed and info.step is not None
    ]
    if not found:
        raise errors.NotFoundError(f"no committed steps in {os.fspath(path)}")
    return found


def _seconds(name: str, value: float) -> float:
    if not value >= 0:
        raise errors.InvalidArgumentError(f"{name}: got {value}, want >= 0")
    return float(value)


def _base_path(path: PathLike, base: PathLike | int | None) -> str | None:
    """A number is the step beside `path`."""
    if base is None:
        return None
    if isinstance(base, int):
        parent = os.fspath(path).rstrip("/").rpartition("/")[0]
        return f"{parent or '.'}/{base}"
    return os.fspath(base)


def _json_object(metadata: Mapping[str, Any] | None) -> str:
    if metadata is None:
        return ""
    try:
        return json_text(dict(metadata), "custom_metadata")
    except (TypeError, ValueError) as error:
        raise TypeError(
            "Failed to encode `custom_metadata` metadata as JSON object."
            " Please ensure your `custom_metadata` is JSON-serializable."
            f" {error}"
        ) from error
