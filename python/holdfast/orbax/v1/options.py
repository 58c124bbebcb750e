"""Options of `Context`: `orbax.checkpoint.v1.options`.

Plain values with Orbax's names and defaults. While a context is entered, its
options refuse to change.
"""

from __future__ import annotations

import contextvars
import copy
import dataclasses
import enum
import pathlib
import sys
from collections.abc import Callable
from typing import Any, Protocol

from holdfast._remote_path import as_path
from holdfast.orbax import options
from holdfast.orbax._devices.memory_regulator import (
    MemoryProfiler,
    MemoryRegulator,
)
from holdfast.orbax._leaves.param_info import IsPrioritizedKeyFn
from holdfast.orbax._type_handlers.array_metadata import Store
from holdfast.orbax._type_handlers.base import SerializationStatusCallback
from holdfast.orbax.options import AtomicityMode, PyTreeMetadataOptions
from holdfast.orbax.v1._registry import (
    CheckpointableHandlerRegistry,
    ReadOnlyRegistry,
    local_registry,
)

__all__ = [
    "ArrayOptions",
    "AsyncOptions",
    "AtomicityMode",
    "AtomicityOptions",
    "CheckpointLayout",
    "CheckpointablesOptions",
    "DeletionOptions",
    "FileOptions",
    "MemoryOptions",
    "MultiprocessingOptions",
    "PathwaysOptions",
    "PyTreeOptions",
    "SafetensorsOptions",
]

# Ids of the option objects of the contexts that are entered.
FROZEN_IDS: contextvars.ContextVar[frozenset[int]] = contextvars.ContextVar(
    "holdfast_frozen_option_ids", default=frozenset()
)


class _Options:
    """Refuses changes while its context is entered."""

    def __setattr__(self, name: str, value: Any) -> None:
        if id(self) in FROZEN_IDS.get():
            raise RuntimeError(
                "Cannot mutate options of an active context. Configure before "
                "entering the `with` block."
            )
        object.__setattr__(self, name, value)


class _SharedOptions(_Options):
    """Options that the older interface has by the same name."""

    def v0(self) -> Any:
        """The older interface's options of the same values."""
        names = (kind.__name__ for kind in type(self).__mro__)
        older = next(vars(options)[k] for k in names if k in vars(options))
        shared = vars(self).keys() & {f.name for f in dataclasses.fields(older)}
        return older(**{name: getattr(self, name) for name in shared})


@dataclasses.dataclass(kw_only=True)
class AsyncOptions(_SharedOptions):
    """How `save_async` works in the background.

    Attributes:
        timeout_secs: how long a process waits for the others to have written.
        post_finalization_callback: called in the background once the
            checkpoint exists.
        create_directories_asynchronously: make directories when the first item
            is written; False: before `save_async` returns.
    """

    timeout_secs: int = 1200
    post_finalization_callback: Callable[[], None] | None = None
    create_directories_asynchronously: bool = True


@dataclasses.dataclass(kw_only=True)
class AtomicityOptions(_SharedOptions):
    """How a checkpoint is committed and recognised as complete.

    Attributes:
        mode: AUTO and ATOMIC_RENAME commit by a rename; with COMMIT_FILE
            checkpoints are written where they stay, and only directories
            holding `commit_success.txt` count as complete.
        allow_legacy_atomic_rename: with COMMIT_FILE, also take complete
            directories without that file.
    """

    mode: AtomicityMode = AtomicityMode.AUTO
    allow_legacy_atomic_rename: bool = False


@dataclasses.dataclass(kw_only=True)
class MultiprocessingOptions(_SharedOptions):
    """Which processes take part, and which of them writes shared files."""

    primary_host: int | None = 0
    active_processes: set[int] | None = None
    barrier_sync_key_prefix: str | None = None


def path_of(file: FileOptions, path: Any) -> Any:
    """An object of the options' class; of a URL a RemotePath.

    A class that the program has chosen itself gets URLs too.
    """
    is_default = file.path_class is _path_class()
    return as_path(path) if is_default else file.path_class(path)


def _path_class() -> type[Any]:
    """`epath.Path` in programs that use it, else `pathlib.Path`."""
    epath = sys.modules.get("etils.epath")
    return epath.Path if epath is not None else pathlib.Path


@dataclasses.dataclass(kw_only=True)
class FileOptions(_SharedOptions):
    """How files and directories are made.

    Attributes:
        path_permission_mode: mode of the checkpoint's directory, e.g. 0o750.
        path_class: of the paths that calls return.
        skip_sync_file_validations: do not look for an existing destination
            before the background save starts.
    """

    path_permission_mode: int | None = None
    path_class: type[Any] = dataclasses.field(default_factory=_path_class)
    skip_sync_file_validations: bool = False


@dataclasses.dataclass(kw_only=True)
class PyTreeOptions(_Options):
    """How trees are saved and loaded."""

    @dataclasses.dataclass(kw_only=True)
    class Saving(_Options):
        """The containers that `_METADATA` records."""

        pytree_metadata_options: PyTreeMetadataOptions = dataclasses.field(
            default_factory=PyTreeMetadataOptions
        )

    @dataclasses.dataclass(kw_only=True)
    class Loading(_Options):
        """With `partial_load`, only the leaves of the abstract tree are loaded.
        """

        partial_load: bool = False

    saving: Saving = dataclasses.field(default_factory=Saving)
    loading: Loading = dataclasses.field(default_factory=Loading)


@dataclasses.dataclass(kw_only=True)
class ArrayOptions(_Options):
    """How arrays are saved and loaded."""

    @dataclasses.dataclass(kw_only=True)
    class Saving(_Options):
        """How arrays are stored.

        Attributes:
            storage_options: of every leaf.
            use_ocdbt: one database instead of a directory for each array.
            use_zarr3: zarr format 3 instead of 2.
            use_compression: True: with what the environment's
                HOLDFAST_COMPRESSION names, else zstd; or "planes" or "fast", as
                for `PyTreeCheckpointHandler`.
            ocdbt_target_data_file_size: bytes; 0: unlimited; None: 2 GiB.
            enable_pinned_host_transfer: ignored; accepted because Orbax has it.
            enable_post_merge_validation: ignored; accepted because Orbax has
                it.
            use_replica_parallel: let each device of a replicated array write
                a slice; None: yes unless JAX_PLATFORMS names a GPU.
            min_slice_bytes_for_replica_parallel: smallest such slice.
            max_replicas_for_replica_parallel: most devices that share one.
            enable_replica_parallel_separate_folder: replicated arrays have a
                database of their own.
            enable_write_sharding_file: write `_sharding`.
            array_metadata_store: writes `array_metadatas`; None: nobody does,
                and typed PRNG keys come back as numbers.
            scoped_storage_options_creator: called with a leaf's key path and
                value; its StorageOptions go before `storage_options`.
        """

        class ScopedStorageOptionsCreator(Protocol):
            """Says how a leaf is stored."""

            def __call__(
                self, key: Any, value: Any
            ) -> ArrayOptions.Saving.StorageOptions | None:
                """The options of a leaf.

                Args:
                    key: its key path, called with as the first argument.
                    value: the leaf.
                """

        @dataclasses.dataclass(kw_only=True)
        class StorageOptions(_Options):
            """Storage of one leaf: dtype, bytes of a chunk, axes to split."""

            dtype: Any | None = None
            chunk_byte_size: int | None = None
            shard_axes: tuple[int, ...] | None = None

        storage_options: StorageOptions = dataclasses.field(
            default_factory=StorageOptions
        )
        use_ocdbt: bool = True
        use_zarr3: bool = True
        use_compression: bool | str = True
        ocdbt_target_data_file_size: int | None = None
        enable_pinned_host_transfer: bool | None = None
        enable_post_merge_validation: bool = True
        use_replica_parallel: bool | None = None
        min_slice_bytes_for_replica_parallel: int | None = None
        max_replicas_for_replica_parallel: int | None = None
        enable_replica_parallel_separate_folder: bool = False
        enable_write_sharding_file: bool = True
        array_metadata_store: Any | None = dataclasses.field(
            default_factory=Store
        )
        scoped_storage_options_creator: ScopedStorageOptionsCreator | None = (
            None
        )

    @dataclasses.dataclass(kw_only=True)
    class Loading(_Options):
        """How arrays are restored.

        Attributes:
            enable_padding_and_truncation: pad with zeros, or cut, where the
                abstract shape differs from the stored one.
            raise_array_data_missing_error: a chunk that is not stored is an
                error, else zeros.
            use_load_and_broadcast: one replica reads, for all; abstract
                arrays need a shape, a dtype and a sharding over a mesh.
            load_and_broadcast_options: which replica, and how.
        """

        @dataclasses.dataclass(kw_only=True)
        class LoadAndBroadcastOptions(_Options):
            """Which replica reads, and how much is broadcast at once."""

            replica_axis_index: int | None = 0
            primary_replica_id: int | None = 0
            broadcast_memory_limit_bytes: int | None = None
            broadcast_memory_scaling_factor: float | None = 0.75

        enable_padding_and_truncation: bool = False
        raise_array_data_missing_error: bool = True
        use_load_and_broadcast: bool = False
        load_and_broadcast_options: LoadAndBroadcastOptions = dataclasses.field(
            default_factory=LoadAndBroadcastOptions
        )

    saving: Saving = dataclasses.field(default_factory=Saving)
    loading: Loading = dataclasses.field(default_factory=Loading)


@dataclasses.dataclass(kw_only=True)
class CheckpointablesOptions(_Options):
    """The handlers that save and load objects other than trees."""

    registry: CheckpointableHandlerRegistry = dataclasses.field(
        default_factory=lambda: ReadOnlyRegistry(local_registry())
    )


@dataclasses.dataclass(kw_only=True)
class PathwaysOptions(_Options):
    """Accepted; there is no Pathways backend."""

    checkpointing_impl: Any | None = None


@dataclasses.dataclass(kw_only=True)
class DeletionOptions(_Options):
    """The place for deleted checkpoints: only object stores have one."""

    @dataclasses.dataclass(kw_only=True)
    class GcsDeletionOptions(_Options):
        """Where deleted checkpoints go."""

        todelete_full_path: str | None = None

    gcs_deletion_options: GcsDeletionOptions = dataclasses.field(
        default_factory=GcsDeletionOptions
    )


@dataclasses.dataclass(kw_only=True)
class MemoryOptions(_Options):
    """Limits of host memory, in bytes; None: the engine's default.

    Attributes:
        write_concurrent_bytes: encoded and not yet written.
        read_concurrent_bytes: read and not yet decoded.
        transfer_concurrent_bytes: ignored; accepted because Orbax has it. Host
            arrays are borrowed, not transferred.
        regulator_options: a limit that each save changes by what the one
            before has used; it counts instead of `transfer_concurrent_bytes`.
        expected_surge_bytes: room that the regulator leaves in this save.
        is_prioritized_key_fn: ignored; accepted because Orbax has it.
            Everything is copied before `save_async` returns.
        serialization_status_callback: told of each jax.Array; of those that
            it does not call SYNCHRONOUS, as many are copied from devices at
            once as the limit lets.
        deepcopy_host_arrays: copy numpy arrays before `save_async` returns.
    """

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class RegulatorOptions:
        """A PID controller of the limit; copies share its state.

        Attributes:
            max_memory_limit_gib: upper end of the limit, GiB.
            profiler: a MemoryProfiler, which measures each save.
            target_ratio: the part of the machine's memory to be used.
            min_memory_limit_gib: lower end, and the limit to begin with.
            kp: proportional coefficient.
            ki: integral coefficient.
            kd: derivative coefficient.

        Raises:
            ValueError: no profiler; limits that leave no room.
        """

        max_memory_limit_gib: float
        profiler: MemoryProfiler
        target_ratio: float = 0.80
        min_memory_limit_gib: float = 10.0
        kp: float = 0.4
        ki: float = 0.05
        kd: float = 0.1
        _regulator: MemoryRegulator = dataclasses.field(
            init=False, repr=False, compare=False
        )

        def __post_init__(self) -> None:
            if self.profiler is None:
                raise ValueError("RegulatorOptions requires a `profiler`.")
            names = [f.name for f in dataclasses.fields(self) if f.init]
            given = {name: getattr(self, name) for name in names}
            object.__setattr__(self, "_regulator", MemoryRegulator(**given))

        def __deepcopy__(
            self, memo: dict[int, Any]
        ) -> MemoryOptions.RegulatorOptions:
            result = copy.copy(self)
            memo[id(self)] = result
            return result

        @property
        def regulator(self) -> MemoryRegulator:
            """The controller, which saves with these options share."""
            return self._regulator

    write_concurrent_bytes: int | None = None
    read_concurrent_bytes: int | None = None
    transfer_concurrent_bytes: int | None = None
    regulator_options: RegulatorOptions | None = None
    expected_surge_bytes: int | float | None = None
    is_prioritized_key_fn: IsPrioritizedKeyFn | None = None
    serialization_status_callback: SerializationStatusCallback | None = None
    deepcopy_host_arrays: bool = True


@dataclasses.dataclass(kw_only=True)
class SafetensorsOptions(_Options):
    """How safetensors are read.

    Attributes:
        max_over_read_ratio: ignored; accepted because Orbax has it. Only the
            needed bytes are read.
        read_chunk_bytes: must be positive; the engine chooses the sizes of its
            reads. `MemoryOptions.read_concurrent_bytes` bounds them together
            (None: 2 GiB).
    """

    max_over_read_ratio: float | None = None
    read_chunk_bytes: int | None = None


class CheckpointLayout(enum.Enum):
    """The kind of checkpoint that a path is taken for."""

    ORBAX = "orbax"
    SAFETENSORS = "safetensors"
    AUTO = "auto"
