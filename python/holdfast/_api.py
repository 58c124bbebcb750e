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
    _device_load,
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
from holdfast._snapshots import SnapshotMode, Snapshots
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
        snapshot: SnapshotMode
        threads: int | None
        memory_bytes: int | None
        durable: bool
        fingerprints: bool
        check_replicas: bool
        group: GroupArgument
        timeout_seconds: float


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
    snapshot: SnapshotMode = "auto",
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
    timeout_seconds: float = 600.0,
) -> Stats | Future[Stats]:
    """Writes a pytree as a checkpoint that Orbax reads too.

    The checkpoint appears at `path` complete or not at all: a failed or
    interrupted save leaves what was there before unchanged.

    Args:
      path: the directory to create.
      tree: dicts, lists, tuples, named tuples, dataclasses, attrs classes and
        any type registered with JAX. Leaves may be numpy arrays and scalars,
        jax.Arrays (also sharded ones and typed PRNG keys), torch tensors,
        arrays with a `__cuda_array_interface__` (cupy's), bool, int, float,
        complex, str or None. Elements on a CUDA device are read there in
        pieces (`doc/accelerators.md`).
      format: "orbax" (stores the tree at `path` itself) or "orbax-v1" (stores
        it in `path/state`).
      zarr_format: 2 or 3. None means Orbax's default: 2 for "orbax", 3 for
        "orbax-v1".
      ocdbt: store all arrays in one database. If False, each array gets its own
        directory.
      compression: "planes" (zstd of byte planes in blosc: the smallest and the
        fastest to load; Orbax, TensorStore and zarr-python read it), "zstd"
        (writes the same metadata as Orbax), "fast" (lz4 with bit shuffle) or
        None.
      also: "safetensors" stores the arrays uncompressed in safetensors files
        (`model.safetensors`, or shards and their index). The files are written
        once and committed with the checkpoint, so the directory opens as either
        format; tensor names are the keys joined with ".". Needs `ocdbt`, a file
        system, and the default `compression`, which then has no effect.
      overwrite: replace what is at `path` once the new checkpoint is complete.
      base: an earlier step, given as a path or as the number of a step next to
        `path`. The save then writes a delta, which stores only what has changed
        since that step (`doc/deltas.md`) and needs its base to be read.
        `materialize` turns a delta into a full step. One process only. Cannot
        be combined with `also`, a format other than "orbax", `compression`,
        `chunk_bytes` or `fingerprints`, which a delta cannot store.
      deltas: choose the base automatically: the newest step before `path`, or
        no base when a full step is due. A damaged base counts as missing: the
        save warns and writes a new full step. `compression`, `chunk_bytes` and
        `fingerprints` then apply to full steps. Cannot be combined with `also`
        or a format other than "orbax".
      background: copy everything that may change, continue in a thread and
        return a Future. The caller may then change the arrays; the checkpoint
        stays the same.
      snapshot: where a background save copies torch tensors that are on a CUDA
        device. "device" (in milliseconds; raises if the device has no room),
        "host", or "auto": the device if it has room beside what the program has
        used at its peak, and else the host. If the host has no room either, the
        save ends before the call returns. Host arrays are copied in host
        memory. jax.Arrays are not copied, unless this is "device" or "host":
        the save keeps their buffers, so that a donated argument cannot reuse
        them until it has ended. Needs `background`.
      progress: True for a bar, or f(phase, done_bytes, total_bytes).
      custom_metadata: a JSON object stored next to the tree.
      chunk_bytes: larger arrays are split into chunks of about this many bytes.
        0 splits none, like Orbax.
      data_file_bytes: a data file is closed when it reaches this size; 0 means
        never. None means 2 GiB, or 400 MiB in buckets, or 5 GB for the files of
        `also`. Needs `ocdbt`.
      threads: None means one per CPU.
      memory_bytes: the most bytes in flight between memory and disk; None means
        256 MiB.
      durable: wait until everything is on disk.
      fingerprints: store a 128-bit fingerprint of each array's elements
        (`doc/fingerprints.md`). A load can check arrays in memory against
        them, and `holdfast diff --fingerprint` compares steps by them. Only
        full steps store fingerprints.
      check_replicas: compare the copies of each tensor on the group's devices
        and processes, as `holdfast.check_replicas` does. This happens before
        anything is written, and before a background save returns. The group
        "auto" then means all of `torch.distributed` for plain tensors too.
      group: the processes that save this checkpoint together. All of them make
        this call, with trees of the same structure. Each process writes its own
        parts of the jax.Arrays and DTensors that are spread over them; rank 0
        writes everything else. "jax" or "torch" means all processes of
        `jax.distributed` or `torch.distributed`; a torch process group or a
        `holdfast.ProcessGroup` is accepted too; None means only this process.
        "auto" means all of `jax.distributed` if it is initialised, all of
        `torch.distributed` if the tree holds DTensors (so rank 0 may save
        plain tensors by itself), and otherwise None.
      timeout_seconds: how long a rank waits for the others at each barrier.

    Returns:
      What this process moved and how long it took; with `background`, a Future
      of these Stats.

    Raises:
      errors.InvalidArgumentError: a leaf or argument cannot be saved.
      errors.AlreadyExistsError: `path` exists and `overwrite` is False.
      errors.ResourceExhaustedError, errors.PermissionDeniedError: the disk is
        full, a device has no room for a `snapshot`, or the system refused
        access.
      errors.DeadlineExceededError: ranks did not arrive in time; the error
        names them.
      errors.DataLossError: replicas differ; the error names ranks and tensors.
      KeyboardInterrupt: soon after the signal; the save leaves nothing behind.
      Exception: an earlier background save failed and its Future was never
        asked for the result. That error is raised once, and this save does not
        begin.
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
        "chunk_bytes": byte_count("chunk_bytes", chunk_bytes),
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
    if snapshot != "auto" and not background:
        raise errors.InvalidArgumentError(
            f"snapshot: got {snapshot!r} without background=True; only a save"
            " in the background copies tensors first"
        )
    destination = os.fspath(path)
    snapshots = Snapshots(snapshot) if background else None
    processes = _process_group.chosen(
        group,
        takes_all_jax=True,
        has_spread=lambda kind: check_replicas or has_spread(tree, kind),
    )
    if check_replicas:
        _fingerprint.check(
            tree, processes, _seconds("timeout_seconds", timeout_seconds)
        )
    call = None
    if processes is not None:
        call = processes.begin(
            destination,
            _seconds("timeout_seconds", timeout_seconds),
            overlaps=background,
        )
        if call.rank != 0:
            progress = False
    start = time.perf_counter()
    with telling(call):
        raise_earlier_failure()
        built = _engine.build_tree(
            tree,
            adapt=make_adapt(processes, snapshots=snapshots),
            snapshot=background,
            int_keys=True,
        )
        built.item_documents = getattr(tree, "item_documents", "")
    snapshot_seconds = time.perf_counter() - start
    copied_bytes = built.copied_bytes
    # Only a running save keeps the tree: the traceback of its error must not
    # keep copies of the tensors.
    to_save = [built]
    del built

    def run(progress_fn: ProgressFn | None) -> Stats:
        log.info("saving %s", destination)
        try:
            with call or contextlib.nullcontext():
                engine_stats = _engine.save(
                    destination,
                    to_save.pop(),
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
            copied_bytes=copied_bytes,
        )
        log.info("saved %s: %s", destination, stats)
        return stats

    def run_in_background(is_cancelled: Callable[[], bool]) -> Stats:
        with reporting(progress, "save") as progress_fn:
            return run(cancelling(progress_fn, is_cancelled))

    if snapshots is not None:
        with telling(call):
            future = Future(
                run_in_background,
                what=f"save to {destination}",
                raises_at_next_save=True,
                snapshot_seconds=snapshot_seconds,
            )
        if snapshots.must_wait:
            log.warning(
                "saving %s: neither the devices nor the host have room for"
                " copies of all tensors, so the save ends before the program"
                " continues",
                destination,
            )
            future.wait()
        return future
    with telling(call), reporting(progress, "save") as progress_fn:
        return _stats.remember(run(progress_fn))


def load(
    path: PathLike,
    target: Any = None,
    *,
    select: Sequence[str] | str | None = None,
    arrays: ArrayKind = "numpy",
    device: Any = None,
    step: int | None = None,
    item: str | None = None,
    cast: bool = False,
    progress: ProgressArgument = False,
    threads: int | None = None,
    memory_bytes: int | None = None,
    mmap: MapArgument = False,
    verify: bool | None = None,
    fingerprints: bool = False,
    group: GroupArgument = "auto",
    timeout_seconds: float = 600.0,
) -> Any:
    """Reads a checkpoint written by Orbax or holdfast, or in a foreign format.

    Foreign formats are safetensors (a file, or a directory of shards), npz,
    torch.save files, and directories written by torch.distributed.checkpoint
    and Megatron. The format is detected from the files. The result is the
    tensors by name, or the tree if holdfast stored one with them. A pickled
    object in a foreign file becomes the plain value that it represents; none of
    its code runs.

    Args:
      path: a checkpoint, a step, a manager's directory of steps, an OCDBT
        database, a zarr array or a directory of zarr arrays.
      target: a tree that determines the result: its containers, and for each
        leaf the kind, shape and dtype. Leaves may be numpy arrays, numbers and
        strings, jax.Array and jax.ShapeDtypeStruct (with their shardings; each
        device's part is read once), torch tensors, DTensors (each rank reads
        its own part), or `...` for leaves to skip. If None, the result is dicts
        and lists of numpy arrays.
      select: the leaves to read, given by name or by a prefix of the name
        ("params" selects "params.w"); None means all.
      arrays: the kind of arrays to return when there is no target: "numpy",
        "torch" (tensors on the CPU) or "jax" (on jax's default device). The
        arrays adopt the memory that was read into, if the library can.
      device: the device that torch tensors or jax.Arrays are put on: the
        library's own device, or its name ("cuda:0"). The elements for a CUDA
        device, here and of a target, are read through a few page-locked buffers
        (`doc/accelerators.md`) and need no other host memory.
      step: the step of a manager's directory; None means the newest.
      item: the item of a composite checkpoint; None returns all, as a dict.
      cast: cast leaves whose dtype is not the target's. If False, they are
        errors.
      progress: True for a bar, or f(phase, done_bytes, total_bytes).
      threads: None means one per CPU.
      memory_bytes: the most bytes in flight between disk and memory; None means
        256 MiB.
      mmap: return arrays that are mapped from their files instead of read: a
        page is read from disk when it is first touched. An array can be mapped
        if it is one uncompressed, little-endian, aligned range of a local file
        in C order, and its dtype is not bool. Other arrays are read, and
        `open(path).why_not_mmap()` says why; "require" makes them an error.
        Mapped numpy arrays are read-only. Mapped torch tensors may be written
        to, which never changes the file. The files must not change: if a file
        is truncated, the next access ends the process (SIGBUS). Cannot be
        combined with a target.
      verify: check the checksums of all bytes that are read. None checks
        everything except mapped arrays; True also checks mapped arrays, by
        reading them once.
      fingerprints: also check complete arrays in memory after the read, if the
        checkpoint was saved with fingerprints (`Stats.fingerprint_count`
        reports how many were checked). Partly read, cast and mapped arrays are
        not checked. Needs `verify`.
      group: the processes that make this call together, each with its own
        target; values as for `save`. If several processes of a host need the
        same chunk, it is read once. "auto" means all of `jax.distributed` or
        `torch.distributed` if the target has arrays that are spread over
        processes, and otherwise None. Without a target each process reads by
        itself.
      timeout_seconds: how long a rank waits for the others at each barrier.

    Returns:
      The tree. Its arrays own their memory and may be written to, except mapped
      numpy arrays.

    Raises:
      errors.NotFoundError: there is no checkpoint at `path`, or no leaf for
        `select`.
      errors.DataLossError: bytes are damaged; the error names tensor, file and
        offset. Also raised if the newest step was committed and is damaged: the
        error then names the newest undamaged step, to pass as `step`.
      errors.InvalidArgumentError: the target has a different structure, or a
        leaf has a different shape or dtype (the error names the leaf); with
        mmap="require", an array cannot be mapped (the error says why); `mmap`
        was combined with a target.

    Warns:
      errors.HoldfastWarning: the list of checksums that the checkpoint was
        saved with is missing.
    """
    if device is not None and (target is not None or mmap):
        raise errors.InvalidArgumentError(
            "load: device is for arrays that are read without a target, which"
            " has its own devices, and without mmap; want one of them"
        )
    names = [select] if isinstance(select, str) else select
    if names is not None:
        names = list(names)
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
            call = processes.begin(
                source, _seconds("timeout_seconds", timeout_seconds)
            )
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

    on_device = None
    if device is not None:
        on_device = _device_load.device_of(arrays, device)
        names = names or None

    def target_of(checkpoint: _engine.Checkpoint) -> Any:
        if on_device is None:
            return target
        return _device_load.target_of(checkpoint, names, on_device)

    with (
        call or contextlib.nullcontext(),
        reporting(progress, "load") as progress_fn,
    ):
        if target is None and on_device is None:
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
                target_of,
                cast=cast,
                select=names,
                call=call,
                progress=progress_fn,
                **options,
            )
            if on_device is not None and names is not None:
                tree = _target.without_rest(tree)
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
    ten rows. The mapping is a context manager. It can be pickled; a data-loader
    worker that unpickles it opens the checkpoint again. Arguments and errors
    are the same as for `load`.
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
    """Issues the engine's notes as warnings to the caller of `load`/`open`."""
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
    """Returns the hex sha256 of one leaf's value, or of every leaf's by name.

    The digest covers the elements in C order, little endian, so equal values
    have equal digests in every format.

    Raises NotFoundError if no leaf is called `name`, and the errors of `load`.
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

    The report lists all damage and everything that is not supported. verify
    raises only if `path` is not a checkpoint (NotFoundError). Arguments are
    the same as for `load`.
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


def steps(root: PathLike) -> list[int]:
    """Returns the committed steps of a manager's directory, in ascending order.

    Includes steps that were damaged after their commit. Raises NotFoundError if
    there is no step.
    """
    found = [
        info.step
        for info in _engine.list_steps(os.fspath(root))
        if info.committed and info.step is not None
    ]
    if not found:
        raise errors.NotFoundError(f"no committed steps in {os.fspath(root)}")
    return found


def _seconds(name: str, value: float) -> float:
    if not value >= 0:
        raise errors.InvalidArgumentError(f"{name}: got {value}, want >= 0")
    return float(value)


def _base_path(path: PathLike, base: PathLike | int | None) -> str | None:
    """Returns the base's path; a number means the step next to `path`."""
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
