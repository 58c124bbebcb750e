"""Options of `Context`: `orbax.checkpoint.v1.options`.

The options have Orbax's names and defaults. While a context is entered, its
options cannot be changed.
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

# Ids of the option objects in all entered contexts.
FROZEN_IDS: contextvars.ContextVar[frozenset[int]] = contextvars.ContextVar(
    "holdfast_frozen_option_ids", default=frozenset()
)


class _Options:
    """Options that cannot be changed while their context is entered."""

    def __setattr__(self, name: str, value: Any) -> None:
        if id(self) in FROZEN_IDS.get():
            raise RuntimeError(
                "Cannot mutate options of an active context. Configure before "
                "entering the `with` block."
            )
        object.__setattr__(self, name, value)


class _SharedOptions(_Options):
    """Options that have the same name in the older interface."""

    def v0(self) -> Any:
        """Returns the older interface's options with the same values."""
        names = (kind.__name__ for kind in type(self).__mro__)
        older = next(vars(options)[k] for k in names if k in vars(options))
        shared = vars(self).keys() & {f.name for f in dataclasses.fields(older)}
        return older(**{name: getattr(self, name) for name in shared})


@dataclasses.dataclass(kw_only=True)
class AsyncOptions(_SharedOptions):
    """Options for the background work of `save_async`.

    Attributes:
        timeout_secs: how long a process waits for the other processes to
            finish writing.
        post_finalization_callback: called in the background once the
            checkpoint exists.
        create_directories_asynchronously: if True, directories are created
            when the first item is written; if False, before `save_async`
            returns.
    """

    timeout_secs: int = 1200
    post_finalization_callback: Callable[[], None] | None = None
    create_directories_asynchronously: bool = True


@dataclasses.dataclass(kw_only=True)
class AtomicityOptions(_SharedOptions):
    """How a checkpoint is committed and recognized as complete.

    Attributes:
        mode: AUTO and ATOMIC_RENAME commit by a rename. With COMMIT_FILE,
            checkpoints are written at their final path, and only directories
            that contain `commit_success.txt` count as complete.
        allow_legacy_atomic_rename: with COMMIT_FILE, also accepts complete
            directories without that file.
    """

    mode: AtomicityMode = AtomicityMode.AUTO
    allow_legacy_atomic_rename: bool = False


@dataclasses.dataclass(kw_only=True)
class MultiprocessingOptions(_SharedOptions):
    """Which processes take part, and which process writes shared files."""

    primary_host: int | None = 0
    active_processes: set[int] | None = None
    barrier_sync_key_prefix: str | None = None


def path_of(file: FileOptions, path: Any) -> Any:
    """Converts a path to `file.path_class`, or a URL to a RemotePath.

    If the program set `path_class` itself, that class gets URLs too.
    """
    is_default = file.path_class is _path_class()
    return as_path(path) if is_default else file.path_class(path)


def _path_class() -> type[Any]:
    """Returns `epath.Path` if the program imported it, else `pathlib.Path`."""
    epath = sys.modules.get("etils.epath")
    return epath.Path if epath is not None else pathlib.Path


@dataclasses.dataclass(kw_only=True)
class FileOptions(_SharedOptions):
    """How files and directories are created.

    Attributes:
        path_permission_mode: mode of the checkpoint's directory, e.g. 0o750.
        path_class: the class of the paths that calls return.
        skip_sync_file_validations: does not check whether the destination
            exists before the background save starts.
    """

    path_permission_mode: int | None = None
    path_class: type[Any] = dataclasses.field(default_factory=_path_class)
    skip_sync_file_validations: bool = False


@dataclasses.dataclass(kw_only=True)
class PyTreeOptions(_Options):
    """How trees are saved and loaded."""

    @dataclasses.dataclass(kw_only=True)
    class Saving(_Options):
        """Which containers `_METADATA` records."""

        pytree_metadata_options: PyTreeMetadataOptions = dataclasses.field(
            default_factory=PyTreeMetadataOptions
        )

    @dataclasses.dataclass(kw_only=True)
    class Loading(_Options):
        """`partial_load` loads only the leaves of the abstract tree."""

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
            storage_options: apply to every leaf.
            use_ocdbt: stores arrays in one database instead of one directory
                per array.
            use_zarr3: uses zarr format 3 instead of 2.
            use_compression: True selects the codec that the environment
                variable HOLDFAST_COMPRESSION names, or zstd if it is not set;
                "planes" and "fast" work as for `PyTreeCheckpointHandler`.
            ocdbt_target_data_file_size: target size of data files in bytes; 0
                means no limit, and None means 2 GiB.
            enable_pinned_host_transfer: ignored; accepted because Orbax has it.
            enable_post_merge_validation: ignored; accepted because Orbax has
                it.
            use_replica_parallel: lets each device of a replicated array write
                a slice; None means True unless JAX_PLATFORMS names a GPU.
            min_slice_bytes_for_replica_parallel: minimum size of a slice in
                bytes.
            max_replicas_for_replica_parallel: maximum number of devices that
                write slices of an array.
            enable_replica_parallel_separate_folder: stores replicated arrays
                in a separate database.
            enable_write_sharding_file: writes `_sharding`.
            array_metadata_store: writes `array_metadatas`. If None, that file
                is not written, and typed PRNG keys are restored as plain
                numbers.
            scoped_storage_options_creator: called with a leaf's key path and
                value; the StorageOptions it returns override
                `storage_options`.
        """

        class ScopedStorageOptionsCreator(Protocol):
            """Chooses how a leaf is stored."""

            def __call__(
                self, key: Any, value: Any
            ) -> ArrayOptions.Saving.StorageOptions | None:
                """Returns the options for a leaf.

                Args:
                    key: the leaf's key path, passed by position.
                    value: the leaf.
                """

        @dataclasses.dataclass(kw_only=True)
        class StorageOptions(_Options):
            """A leaf's stored dtype, its chunk size and the axes to split."""

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
            enable_padding_and_truncation: pads an array with zeros, or
                truncates it, if its abstract shape differs from its stored
                shape.
            raise_array_data_missing_error: if True, a chunk that is not stored
                is an error; if False, it is read as zeros.
            use_load_and_broadcast: one replica reads and broadcasts to the
                other replicas; abstract arrays need a shape, a dtype and a
                sharding over a mesh.
            load_and_broadcast_options: which replica reads, and how it
                broadcasts.
        """

        @dataclasses.dataclass(kw_only=True)
        class LoadAndBroadcastOptions(_Options):
            """Which replica reads, and how many bytes it sends at a time."""

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
    """The handlers that save and load checkpointables."""

    registry: CheckpointableHandlerRegistry = dataclasses.field(
        default_factory=lambda: ReadOnlyRegistry(local_registry())
    )


@dataclasses.dataclass(kw_only=True)
class PathwaysOptions(_Options):
    """Accepted but ignored: there is no Pathways backend."""

    checkpointing_impl: Any | None = None


@dataclasses.dataclass(kw_only=True)
class DeletionOptions(_Options):
    """Where deleted checkpoints go; only object stores support this."""

    @dataclasses.dataclass(kw_only=True)
    class GcsDeletionOptions(_Options):
        """Where deleted checkpoints go."""

        todelete_full_path: str | None = None

    gcs_deletion_options: GcsDeletionOptions = dataclasses.field(
        default_factory=GcsDeletionOptions
    )


@dataclasses.dataclass(kw_only=True)
class MemoryOptions(_Options):
    """Limits on host memory, in bytes; None means the engine's default.

    Attributes:
        write_concurrent_bytes: bytes encoded but not yet written.
        read_concurrent_bytes: bytes read but not yet decoded.
        transfer_concurrent_bytes: bytes of jax.Arrays that are copied from
            devices at the same time; has an effect only with a
            `serialization_status_callback`.
        regulator_options: options of a limit that is adjusted before each save
            to the memory that the previous save used; replaces
            `transfer_concurrent_bytes`.
        expected_surge_bytes: memory that the regulator leaves free during this
            save.
        is_prioritized_key_fn: ignored; accepted because Orbax has it.
        serialization_status_callback: called for each jax.Array. Arrays whose
            priority is not SYNCHRONOUS are copied from devices in the
            background, as many at a time as the limit permits.
        deepcopy_host_arrays: copies numpy arrays before `save_async` returns.
    """

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class RegulatorOptions:
        """Options of the limit's PID controller; copies share the controller.

        Attributes:
            max_memory_limit_gib: the largest limit, in GiB.
            profiler: a MemoryProfiler, which measures each save.
            target_ratio: the fraction of the machine's memory to use.
            min_memory_limit_gib: the smallest limit, in GiB, which is also the
                initial limit.
            kp: proportional coefficient.
            ki: integral coefficient.
            kd: derivative coefficient.

        Raises:
            ValueError: `profiler` is None, or `MemoryRegulator` refuses the
                limits.
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
            """The controller shared by all saves with these options."""
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
    """How safetensors files are read.

    Attributes:
        max_over_read_ratio: ignored; accepted because Orbax has it. Only the
            needed bytes are read.
        read_chunk_bytes: must be positive, but the engine chooses its own read
            sizes. `MemoryOptions.read_concurrent_bytes` limits the total of
            all concurrent reads (None means 2 GiB).
    """

    max_over_read_ratio: float | None = None
    read_chunk_bytes: int | None = None


class CheckpointLayout(enum.Enum):
    """The kind of checkpoint that a path is expected to hold."""

    ORBAX = "orbax"
    SAFETENSORS = "safetensors"
    AUTO = "auto"
