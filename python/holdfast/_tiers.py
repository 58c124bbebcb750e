"""TieredManager: keeps a run's steps on its hosts (`doc/tiers.md`)."""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import operator
import os
import threading
import weakref
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast import (
    _array_kinds,
    _engine,
    _files,
    _fingerprint,
    _process_group,
    _target,
    errors,
)
from holdfast._adapt import make_adapt
from holdfast._api import ArrayKind, Compression
from holdfast._log import log
from holdfast._process_group import GroupArgument
from holdfast._results import TierRestore, TierStats, TierStep
from holdfast._run_options import CHUNK_BYTES, run_options
from holdfast._snapshots import Snapshots

__all__ = [
    "LocalTierOptions",
    "ParityOptions",
    "SharedTierOptions",
    "TieredManager",
    "Tiers",
]

if TYPE_CHECKING:
    from typing_extensions import Self

PathLike = str | os.PathLike[str]
T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class LocalTierOptions:
    """The local tier: a directory that only this rank uses.

    Attributes:
      directory: on a tmpfs or a disk of this machine; created if absent.
      save_every: save one of this many steps. Steps of the shared tier are
        saved too.
      max_to_keep: number of protected steps to keep.
      bytes_max: limit for all steps of the run in this directory; older steps
        are deleted. The last protected step is never deleted, whatever its
        size. 0 means no limit.
    """

    directory: PathLike
    save_every: int = 1
    max_to_keep: int = 1
    bytes_max: int = 0


@dataclasses.dataclass(frozen=True)
class SharedTierOptions:
    """The shared tier: a directory or URL that all ranks use.

    Attributes:
      directory: a root of steps, which receives plain checkpoints.
      save_every: copy one of this many steps; 0 copies none.
      max_to_keep: number of newest steps to keep; None keeps all.
      bytes_per_second_max: limit for this rank; 0 means no limit.
    """

    directory: PathLike
    save_every: int = 0
    max_to_keep: int | None = None
    bytes_per_second_max: float = 0.0


@dataclasses.dataclass(frozen=True)
class ParityOptions:
    """How many ranks may be lost without losing a step.

    Attributes:
      data_shards, parity_shards: in each group of `data_shards + parity_shards`
        ranks, any `parity_shards` may be lost. 0 parity shards means that no
        rank may be lost. A single rank has no parity.
      failure_domain: ranks with the same name may be lost together, so they are
        put in different groups; "" means this machine's name.
      block_bytes: size of the blocks that are coded, checked and sent.
      bytes_per_second_max: limit for the parity that this rank receives; 0
        means no limit.
    """

    data_shards: int = 7
    parity_shards: int = 1
    failure_domain: str = ""
    block_bytes: int = 1 << 20
    bytes_per_second_max: float = 0.0


class Tiers:
    """The base of all managers; subclasses define what a state is."""

    def __init__(
        self,
        local: LocalTierOptions | PathLike,
        *,
        shared: SharedTierOptions | PathLike | None = None,
        parity: ParityOptions | None = None,
        run: str = "run",
        item: str = "default",
        group: GroupArgument = "auto",
        host: str = "",
        listen_address: str = "0.0.0.0",
        port: int = 0,
        timeout_seconds: float = 600.0,
        answer_seconds_max: float = 60.0,
        peer_threads: int = 2,
        warn: Callable[[str], object] | None = None,
        zarr_format: int | None = None,
        ocdbt: bool = True,
        compression: Compression = "planes",
        chunk_bytes: int = CHUNK_BYTES,
        data_file_bytes: int | None = None,
        durable: bool = True,
        fingerprints: bool = False,
        check_replicas: bool = False,
        threads: int | None = None,
        memory_bytes: int | None = None,
    ) -> None:
        """Creates the manager and waits for the other ranks.

        Args:
          local: this rank's own directory, or its options.
          shared: the directory of all ranks, or its options; None means no
            shared tier.
          parity: None means `ParityOptions()`.
          run: the run's name; the manager ignores the steps of other runs in
            the same directory.
          item: the name of the tree in a step of the shared tier.
          group: the processes that save the steps together, as for
            `holdfast.save`; "auto" means all of `jax.distributed` or
            `torch.distributed`, whichever is initialised; None means only this
            process. After the first barrier the ranks communicate over their
            own TCP connections, except in `check_replicas`.
          host: the address where other ranks reach this one; "" means this
            machine's name.
          listen_address, port: where this rank listens; port 0 means any port.
          timeout_seconds: how long to wait for the slowest rank at a barrier.
          answer_seconds_max: how long to wait for one response from a rank.
          peer_threads: threads that move blocks while the program works. A
            restore, which blocks the program, uses one thread per processor,
            and at least six.
          warn: called on any thread with problems that are not errors; None
            means the logger.
          zarr_format, ocdbt, compression, chunk_bytes, data_file_bytes,
            durable, fingerprints, threads, memory_bytes: how trees are stored,
            as for `holdfast.save`.
          check_replicas: before a step is saved, compare data that several
            ranks hold, as `holdfast.check_replicas` does. Each rank writes a
            share of this data, so different replicas would be mixed.

        Raises:
          errors.InvalidArgumentError: an option is invalid.
          errors.FailedPreconditionError: there are too few ranks for the
            parity.
          errors.AlreadyExistsError: the directory is in use by another process.
          errors.DeadlineExceededError, errors.UnavailableError: a rank does not
            respond; the error names it.
        """
        if not isinstance(local, LocalTierOptions):
            local = LocalTierOptions(local)
        if shared is not None and not isinstance(shared, SharedTierOptions):
            shared = SharedTierOptions(shared)
        # With a shared tier, data files must have the size that suits it.
        place = local.directory if shared is None else shared.directory
        self._run_options: dict[str, Any] = run_options(threads, memory_bytes)
        options = _engine.TieredManagerOptions()
        options.local = _filled(_engine.LocalTierOptions(), local)
        if shared is not None:
            options.shared = _filled(_engine.SharedTierOptions(), shared)
        options.parity = _filled(
            _engine.ParityOptions(), parity or ParityOptions()
        )
        options.run = run
        options.item = item
        options.host = host
        options.listen_address = listen_address
        options.port = port
        options.timeout_seconds = timeout_seconds
        options.answer_seconds_max = answer_seconds_max
        options.peer_threads = peer_threads
        options.set_save(
            zarr_format=0 if zarr_format is None else zarr_format,
            use_ocdbt=ocdbt,
            compression=compression,
            chunk_bytes=chunk_bytes,
            ocdbt_target_data_file_bytes=(
                _files.data_file_bytes(place)
                if data_file_bytes is None
                else data_file_bytes
            ),
            sync=durable,
            fingerprints=fingerprints,
            **self._run_options,
        )
        self._directory = os.fspath(local.directory)
        self._group = _process_group.process_group(group)
        self._check_replicas = check_replicas
        self._timeout_seconds = timeout_seconds
        self._lock = threading.RLock()
        self._restored: TierRestore | None = None
        call = None
        if self._group is not None:
            # The call needs a name that is the same on all ranks, and their
            # directories differ.
            call = self._group.begin(f"tiers of {run}", timeout_seconds)
        with call or contextlib.nullcontext():
            self._engine = _engine.TieredManager(
                options,
                group=None if call is None else call.engine,
                warn=log.warning if warn is None else warn,
            )
        _open_managers.add(self)

    @property
    def directory(self) -> str:
        """This rank's own directory."""
        return self._directory

    @property
    def restored(self) -> TierRestore | None:
        """The last step that `restore` returned; None before the first."""
        return self._restored

    @property
    def next_step(self) -> int:
        """The step after the restored one; 0 if nothing was restored."""
        return 0 if self._restored is None else self._restored.step + 1

    def should_save(self, step: int) -> bool:
        """Returns whether `save` would save this step."""
        return self._engine.should_save(operator.index(step))

    def _save(
        self,
        step: int,
        state: Callable[[], Any],
        force: bool,
        files: Mapping[str, bytes] | None,
        *,
        is_shared: bool | None = None,
    ) -> bool:
        """Saves the tree that `state` returns; if `state` fails, the save
        fails.

        `is_shared` decides whether the step is copied to the shared tier; None
        follows that tier's `save_every`.
        """
        number = operator.index(step)
        with self._lock:
            if not force and not self._engine.should_save(number):
                return False
            # Wait before copying, so memory never holds two copies.
            self._engine.wait_protected()
            if not self._check_replicas:
                return self._begin(number, state, files, is_shared)
            # Raises on all ranks, or on none.
            tree, _ = _fingerprint.check_made(
                state, self._group, self._timeout_seconds
            )
            return self._begin(number, lambda: tree, files, is_shared)

    def _begin(
        self,
        step: int,
        state: Callable[[], Any],
        files: Mapping[str, bytes] | None,
        is_shared: bool | None,
    ) -> bool:
        try:
            given = {
                path: bytes(memoryview(content))
                for path, content in (files or {}).items()
            }
            built = _engine.build_tree(
                state(),
                adapt=make_adapt(
                    self._group, all_write=True, snapshots=Snapshots()
                ),
                snapshot=True,
                int_keys=True,
            )
        except BaseException as error:
            self._engine.fail_save(step, error)
            raise
        log.info("saving step %d in %s", step, self._directory)
        return self._engine.save(
            step, built, force=True, is_shared=is_shared, files=given
        )

    def wait_protected(self) -> None:
        """Waits until the last save is protected; raises that save's error."""
        with self._lock:
            self._engine.wait_protected()

    def wait(self) -> None:
        """Does what `wait_protected` does, and waits for the copies to the
        shared tier; raises their errors too."""
        with self._lock:
            self._engine.wait()

    def _restore(
        self, read: Callable[[_engine.Checkpoint], T], step: int | None
    ) -> T:
        """Returns the result of `read` for the newest step that can be read."""
        results: list[T] = []

        def call(_: _engine.TierRestore, opened: _engine.Checkpoint) -> None:
            results[:] = [read(opened)]

        with self._lock:
            found = self._engine.restore(
                call, None if step is None else operator.index(step)
            )
            self._restored = _answer(TierRestore, found)
        log.info("restored step %d of the %s tier", found.step, found.source)
        (result,) = results
        return result

    def _restore_as(
        self,
        target_of: Callable[[_engine.Checkpoint], Any],
        step: int | None,
        *,
        cast: bool,
    ) -> Any:
        """Restores a step into the target that `target_of` makes for it."""

        def read(checkpoint: _engine.Checkpoint) -> Any:
            return _target.restore(
                lambda: checkpoint,
                target_of,
                cast=cast,
                select=None,
                progress=None,
                **self._run_options,
            )[0]

        return self._restore(read, step)

    def read_file(self, path: str) -> bytes:
        """Returns a small file of the last restored step, saved by any rank."""
        with self._lock:
            return self._engine.read_file(path)

    def steps(self) -> list[TierStep]:
        """Returns the steps in this rank's directory and the shared tier,
        newest first."""
        with self._lock:
            return [_answer(TierStep, step) for step in self._engine.steps()]

    def stats(self) -> TierStats:
        """Returns the counts of this rank so far."""
        return _answer(TierStats, self._engine.stats())

    def close(self) -> None:
        """Waits for all running work, and for the other ranks to close.

        Raises the error of the last save. Closing twice does nothing. All open
        managers are closed when the program ends.
        """
        with self._lock:
            _open_managers.discard(self)
            self._engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: object, error: BaseException | None, _trace: object
    ) -> None:
        try:
            self.close()
        except errors.HoldfastError as failure:
            if error is None:
                raise
            log.error("closing %s failed: %s", self._directory, failure)

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.TieredManager {self._directory}>"


class TieredManager(Tiers):
    """Saves steps on the hosts' own disks or in their memory, with parity
    between hosts, and copies some steps to shared storage.

        with holdfast.TieredManager(
            holdfast.LocalTierOptions("/dev/shm/ckpt", save_every=10),
            shared=holdfast.SharedTierOptions("/checkpoints/run", 1000),
        ) as tiers:
            with contextlib.suppress(holdfast.errors.NotFoundError):
                state = tiers.restore(state)
            for step in range(tiers.next_step, last):
                state = train(state)
                tiers.save(step, state)

    Every rank makes the same calls in the same order. If a call fails on one
    rank, it fails on all ranks.
    Thread-safety: one call at a time; a second call waits.
    """

    def save(
        self,
        step: int,
        tree: Any,
        *,
        force: bool = False,
        files: Mapping[str, bytes] | None = None,
    ) -> bool:
        """Begins to save a step that is due; a thread continues the save.

        Waits for the previous save. Everything that may change is copied before
        the call returns, as in `holdfast.save(background=True)`.

        Args:
          step: the step's number.
          tree: as for `holdfast.save`, with the same structure on all ranks.
            Leaves that are not spread over the ranks (jax.Arrays of one
            process, numpy arrays, plain tensors) must be the same on all
            ranks, and each rank writes a share of them.
          force: save even if `save_every` skips the step.
          files: additional files that only this rank adds to the step: their
            contents by path relative to the step. A different rank must not
            supply the same path with different contents. Paths in the tree's
            directory (`item`) and names that a checkpoint reserves
            (`_METADATA`, `manifest.ocdbt`) make the save fail on all ranks.

        Returns:
          Whether a save has begun.

        Raises:
          errors.InvalidArgumentError: a leaf cannot be saved. The save fails on
            all ranks; the next call on each of them raises this error.
          errors.DataLossError: `check_replicas` found replicas that differ.
            Raised on all ranks, naming tensors and ranks; nothing is saved.
          Exception: the previous save failed; this save does not begin.
        """
        return self._save(step, lambda: tree, force, files)

    def restore(
        self,
        target: Any = None,
        step: int | None = None,
        *,
        arrays: ArrayKind = "numpy",
        cast: bool = False,
    ) -> Any:
        """Restores the newest step that passes verification, from whichever
        tier has it.

        Lost and damaged parts are rebuilt first. If a step has lost too much,
        it is skipped; `restored` says which steps were skipped, and why.

        Args:
          target, arrays, cast: as for `holdfast.load`. Each rank has its own
            target.
          step: restore only this step.

        Returns:
          The tree, as for `holdfast.load`; `restored` describes its step.

        Raises:
          errors.NotFoundError: there is no step, or `step` does not exist.
          errors.DataLossError: steps exist and none can be restored; the error
            gives the reason for each.
          errors.InvalidArgumentError: the target does not fit.
        """

        def read(checkpoint: _engine.Checkpoint) -> Any:
            return _read(checkpoint, arrays, self._run_options)

        if target is None:
            return self._restore(read, step)
        return self._restore_as(lambda _: target, step, cast=cast)


def _read(
    checkpoint: _engine.Checkpoint, arrays: ArrayKind, options: dict[str, Any]
) -> Any:
    convert = _array_kinds.converter(arrays)
    leaves = checkpoint.leaves
    places = [i for i, leaf in enumerate(leaves) if leaf.kind == "array"]
    found = checkpoint.read_leaves([(i, None) for i in places], **options)
    values = dict(
        zip(places, found if convert is None else convert(found), strict=True)
    )

    def made(node: Any) -> Any:
        if isinstance(node, dict):
            return {key: made(child) for key, child in node.items()}
        if isinstance(node, list):
            return [made(child) for child in node]
        if not isinstance(node, int):
            return node  # None, (), ...
        return values[node] if node in values else checkpoint.read(node)

    return made(checkpoint.structure())


def _filled(made: T, given: Any) -> T:
    """Copies the members of `given` into the engine's options."""
    for field in dataclasses.fields(given):
        setattr(made, field.name, getattr(given, field.name))
    return made


def _answer(cls: type[T], found: Any) -> T:
    """Returns the engine's result as a dataclass with the same members."""
    names = [field.name for field in dataclasses.fields(cls)]  # type: ignore[arg-type]
    return cls(**{name: getattr(found, name) for name in names})


_open_managers: weakref.WeakSet[Tiers] = weakref.WeakSet()
# A forked child must not close its parent's managers.
os.register_at_fork(after_in_child=_open_managers.clear)


@atexit.register
def _close_all() -> None:
    # Close while the engine's threads can still free their memory.
    for manager in list(_open_managers):
        try:
            manager.close()
        except errors.HoldfastError as error:
            log.error("closing %s failed: %s", manager.directory, error)
