"""TieredManager: a run's steps on the hosts themselves (`doc/tiers.md`)."""

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
    """The directory of this rank only.

    Attributes:
      directory: on a tmpfs or a disk of this machine; made when absent.
      save_every: steps. A step of the shared tier is saved, too.
      max_to_keep: protected steps.
      bytes_max: of all steps of the run here; older ones go. The last protected
        step stays, whatever its size. 0: no bound.
    """

    directory: PathLike
    save_every: int = 1
    max_to_keep: int = 1
    bytes_max: int = 0


@dataclasses.dataclass(frozen=True)
class SharedTierOptions:
    """A directory or URL of all ranks.

    Attributes:
      directory: plain checkpoints are copied there: a root of steps.
      save_every: steps; 0: nothing is copied there.
      max_to_keep: newest steps; None: all.
      bytes_per_second_max: of this rank; 0: no bound.
    """

    directory: PathLike
    save_every: int = 0
    max_to_keep: int | None = None
    bytes_per_second_max: float = 0.0


@dataclasses.dataclass(frozen=True)
class ParityOptions:
    """How many ranks may be lost.

    Attributes:
      data_shards, parity_shards: in each group of so many ranks together, any
        `parity_shards` may be lost. 0 of them: none. A single rank has none.
      failure_domain: ranks of one name may be lost together, so they go into
        groups apart; "": this machine's name.
      block_bytes: what is coded, checked and sent at once.
      bytes_per_second_max: that this rank receives for parity; 0: no bound.
    """

    data_shards: int = 7
    parity_shards: int = 1
    failure_domain: str = ""
    block_bytes: int = 1 << 20
    bytes_per_second_max: float = 0.0


class Tiers:
    """The common part of the managers: all but what a state is."""

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
        thread_count: int = 2,
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
        """Meets the other ranks.

        Args:
          local: this rank's own directory, by itself or with its options.
          shared: the directory of all ranks, likewise; None: no such directory.
          parity: None: as `ParityOptions()`.
          run: steps of other runs in the same directory are neither seen nor
            touched.
          item: the name of the tree in a step of the shared tier.
          group: the processes whose steps these are, as of `holdfast.save`;
            "auto": all of `jax.distributed` or `torch.distributed`, whichever
            is initialised; None: only this process. Afterwards the ranks talk
            over TCP connections of their own, but for `check_replicas`.
          host: where other ranks reach this one; "": this machine's name.
          listen_address, port: where it listens; 0: any port.
          timeout_seconds: for the slowest of the others at a meeting.
          answer_seconds_max: for one answer of another rank.
          thread_count: that move blocks while the program works; a restore,
            which it waits for, takes a thread a processor, and six at least.
          warn: is told, by any thread, of problems that are not errors; None:
            the logger.
          zarr_format, ocdbt, compression, chunk_bytes, data_file_bytes,
            durable, fingerprints, threads, memory_bytes: how trees are stored,
            as of `holdfast.save`.
          check_replicas: before a step is saved, compare what several ranks
            hold, as `holdfast.check_replicas` does. Each rank writes a share of
            that: replicas that differ would be mixed.

        Raises:
          errors.InvalidArgumentError: an option.
          errors.FailedPreconditionError: too few ranks for the parity.
          errors.AlreadyExistsError: another process uses the directory.
          errors.DeadlineExceededError, errors.UnavailableError: naming the
            rank that does not answer.
        """
        if not isinstance(local, LocalTierOptions):
            local = LocalTierOptions(local)
        if shared is not None and not isinstance(shared, SharedTierOptions):
            shared = SharedTierOptions(shared)
        # Copies of this rank's directory need no other place's file sizes.
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
        options.thread_count = thread_count
        options.set_save(
            zarr_format=0 if zarr_format is None else zarr_format,
            use_ocdbt=ocdbt,
            compression=compression,
            chunk_bytes_target=chunk_bytes,
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
            # Ranks meet about what is the same on all: no directory is.
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
        """This rank's own."""
        return self._directory

    @property
    def restored(self) -> TierRestore | None:
        """The step that `restore` has given last; None: none yet."""
        return self._restored

    @property
    def next_step(self) -> int:
        """The one after that which was restored last; 0: none was."""
        return 0 if self._restored is None else self._restored.step + 1

    def should_save(self, step: int) -> bool:
        """True when `save` would save this step."""
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
        """`state` gives the tree; a failure of it is one of the save.

        `is_shared`: whether it is copied to the shared tier; None: as
        `save_every` there says.
        """
        number = operator.index(step)
        with self._lock:
            if not force and not self._engine.should_save(number):
                return False
            # Before the copy: two are never held.
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
                adapt=make_adapt(self._group, all_write=True),
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
        """Waits until the last save is protected; raises its error."""
        with self._lock:
            self._engine.wait_protected()

    def wait(self) -> None:
        """Waits for copies to the shared tier, too; raises their errors."""
        with self._lock:
            self._engine.wait()

    def _restore(
        self, read: Callable[[_engine.Checkpoint], T], step: int | None
    ) -> T:
        """The result of `read` for the newest step that it can read."""
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
        strict: bool,
    ) -> Any:
        """A step like the target that is made for what it holds."""

        def read(checkpoint: _engine.Checkpoint) -> Any:
            return _target.restore(
                lambda: checkpoint,
                target_of(checkpoint),
                strict=strict,
                keys=None,
                progress=None,
                **self._run_options,
            )[0]

        return self._restore(read, step)

    def read_file(self, path: str) -> bytes:
        """A small file of the step that was restored last, of any rank."""
        with self._lock:
            return self._engine.read_file(path)

    def steps(self) -> list[TierStep]:
        """Those of this rank's directory and the shared tier, newest first."""
        with self._lock:
            return [_answer(TierStep, step) for step in self._engine.steps()]

    def stats(self) -> TierStats:
        """The counts of this rank so far."""
        return _answer(TierStats, self._engine.stats())

    def close(self) -> None:
        """Waits for all that has begun, and for the other ranks to close.

        Raises the error of the last save. Again: does nothing. At the end of
        the program whatever is open is closed.
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
    """Steps on the disks, or in the memory, of the hosts themselves, with
    parity between them, and now and then one on shared storage.

        with holdfast.TieredManager(
            holdfast.LocalTierOptions("/dev/shm/ckpt", save_every=10),
            shared=holdfast.SharedTierOptions("/checkpoints/run", 1000),
        ) as tiers:
            with contextlib.suppress(holdfast.errors.NotFoundError):
                state = tiers.restore(state)
            for step in range(tiers.next_step, last):
                state = train(state)
                tiers.save(step, state)

    Every rank makes the same calls in the same order. A rank that fails in one
    says so to the others, which then fail as well.
    Thread-safety: one call at a time; a second waits.
    """

    def save(
        self,
        step: int,
        tree: Any,
        *,
        force: bool = False,
        files: Mapping[str, bytes] | None = None,
    ) -> bool:
        """Begins to save a step that is due; a thread goes on with it.

        Waits for the save before. Whatever may change is copied before the call
        returns, as by `holdfast.save(background=True)`.

        Args:
          step: its number.
          tree: as of `holdfast.save`, of the same structure on all ranks.
            Leaves that are not spread over them (jax.Arrays of one process,
            numpy arrays, plain tensors) are the same on all, and each rank
            writes a share.
          force: save, whatever `save_every` says.
          files: more files of the step, of only this rank: bytes by paths
            relative to the step, which no other rank gives with other bytes.
            Paths in the directory of the tree (`item`) and names that a
            checkpoint has for itself (`_METADATA`, `manifest.ocdbt`) make the
            save fail on all ranks.

        Returns:
          True when a save has begun.

        Raises:
          errors.InvalidArgumentError: a leaf that cannot be saved. The save
            fails on all ranks; the next call on each raises that.
          errors.DataLossError: `check_replicas` found some that differ, on all
            ranks, naming tensors and ranks; nothing is saved.
          Exception: the error of the save before, instead of saving.
        """
        return self._save(step, lambda: tree, force, files)

    def restore(
        self,
        target: Any = None,
        step: int | None = None,
        *,
        arrays: ArrayKind = "numpy",
        strict: bool = True,
    ) -> Any:
        """The newest step that verifies, wherever it is.

        Lost and damaged parts are made again first. A step of which too much is
        lost is passed over; `restored` says which, and why.

        Args:
          target, arrays, strict: as of `holdfast.load`. Each rank has a target
            of its own.
          step: only this one.

        Returns:
          The tree, as of `holdfast.load`; `restored` has its step.

        Raises:
          errors.NotFoundError: there is no step, or not this one.
          errors.DataLossError: there is, and none can be restored; why of each.
          errors.InvalidArgumentError: a target that does not fit.
        """

        def read(checkpoint: _engine.Checkpoint) -> Any:
            return _read(checkpoint, arrays, self._run_options)

        if target is None:
            return self._restore(read, step)
        return self._restore_as(lambda _: target, step, strict=strict)


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
    """The engine's options with the members of these."""
    for field in dataclasses.fields(given):
        setattr(made, field.name, getattr(given, field.name))
    return made


def _answer(cls: type[T], found: Any) -> T:
    """The engine's answer as a dataclass with the same members."""
    names = [field.name for field in dataclasses.fields(cls)]  # type: ignore[arg-type]
    return cls(**{name: getattr(found, name) for name in names})


_open_managers: weakref.WeakSet[Tiers] = weakref.WeakSet()
# They are the parent's.
os.register_at_fork(after_in_child=_open_managers.clear)


@atexit.register
def _close_all() -> None:
    # While threads of the engine can still give their memory back.
    for manager in list(_open_managers):
        try:
            manager.close()
        except errors.HoldfastError as error:
            log.error("closing %s failed: %s", manager.directory, error)
