"""The helpers of `test_utils` for handlers and for several processes."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import functools
import inspect
import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, TypeVar
from unittest import mock

import numpy as np

from holdfast import _files
from holdfast._lazy import importing
from holdfast.orbax import multihost, pytree_checkpoint_handler
from holdfast.orbax._checkpointer.paths import PathLike, is_path_temporary
from holdfast.orbax._devices import multislice
from holdfast.orbax._devices.optional_jax import require_jax
from holdfast.orbax._handlers.base import AsyncCheckpointHandler
from holdfast.orbax._leaves.args import (
    ArrayRestoreArgs,
    SingleReplicaArrayRestoreArgs,
)
from holdfast.orbax._leaves.limits import LimitInFlightBytes
from holdfast.orbax._processes.coroutines import run_sync
from holdfast.orbax._type_handlers.registry import (
    GLOBAL_TYPE_HANDLER_REGISTRY,
    get_type_handler,
    register_standard_handlers_with_options,
)
from holdfast.orbax._type_handlers.registry import (
    register_type_handler as _register_type_handler,
)
from holdfast.orbax.atomicity import (
    AtomicRenameTemporaryPath,
    CommitFileTemporaryPath,
    DeferredPath,
    DeferredWritableTemporaryPath,
    TemporaryPathBase,
)
from holdfast.orbax.checkpoint_args import register_with_handler
from holdfast.orbax.composite_checkpoint_handler import CompositeArgs
from holdfast.orbax.metadata.step import STEP_METADATA_FILENAME
from holdfast.orbax.serialization import handles, tensorstore_utils

__all__ = [
    "ErrorCheckpointHandler",
    "ErrorRestoreArgs",
    "ErrorSaveArgs",
    "MockDeferredWritableTemporaryPath",
    "PyTreeCheckpointHandler",
    "TestLimitInFlightBytes",
    "assert_every_n_is_x_apart",
    "barrier_compatible_test",
    "concurrent_gb_test_setup",
    "create_single_replica_restore_args",
    "create_tmp_directory",
    "ensure_atomic_save",
    "get_byte_limiter",
    "get_composite_save_args",
    "get_fake_global_mesh_for_slices",
    "global_type_handler_registry_context",
    "is_compression_used",
    "ocdbt_checkpoint_context",
    "register_type_handler",
    "select_single_replica",
    "set_tensorstore_driver_for_test",
    "swap_slices_in_mesh",
    "sync_global_processes",
]

T = TypeVar("T")


def sync_global_processes(name: str) -> None:
    """Waits until every process has made this call."""
    if multihost.process_count() == 1:
        return
    with importing:
        from jax.experimental import multihost_utils

    multihost_utils.sync_global_devices(name)


def create_tmp_directory(
    tmp_dir: Any,
    final_dir: Any,
    *,
    primary_host: int | None = 0,
    active_processes: set[int] | None = None,
    barrier_sync_key_prefix: str | None = None,
    path_permission_mode: int | None = None,
    metadata_store: Any | None = None,
) -> Any:
    """Creates a temporary directory as a save does; all processes call it.

    Args:
        tmp_dir: the path of the directory.
        final_dir: the path of the future checkpoint.
        primary_host: the process that creates it; None means every process.
        active_processes: the processes that wait for it; None means all.
        barrier_sync_key_prefix: prefix of the barriers' names.
        path_permission_mode: the mode of the directory.
        metadata_store: writes `_CHECKPOINT_METADATA`; None means no such file.

    Returns:
        `tmp_dir`.

    Raises:
        FileExistsError: `tmp_dir` is a finalized checkpoint.
    """

    def wait(place: str) -> None:
        name = multihost.unique_barrier_key(
            f"create_tmp_directory:{place}",
            prefix=barrier_sync_key_prefix,
            suffix=os.path.basename(final_dir),
        )
        multihost.sync_global_processes(name, processes=active_processes)

    wait("pre")
    if multihost.is_primary_host(primary_host):
        if _files.exists(tmp_dir):
            if not is_path_temporary(tmp_dir):
                raise FileExistsError(
                    f"Attempted to create temporary directory {tmp_dir} which"
                    " already exists but appears to be a finalized checkpoint."
                )
            _files.rmtree(tmp_dir)
        mode = 0o777 if path_permission_mode is None else path_permission_mode
        _files.makedirs(tmp_dir, mode=mode)
        if metadata_store is not None:
            metadata_store.write(
                file_path=os.path.join(tmp_dir, STEP_METADATA_FILENAME),
                metadata={"init_timestamp_nsecs": time.time_ns()},
            )
    wait("post")
    return tmp_dir


def ensure_atomic_save(
    temp_ckpt_dir: Any, final_ckpt_dir: Any, metadata_store: Any | None = None
) -> None:
    """Commits a temporary directory as a checkpoint.

    Args:
        temp_ckpt_dir: the temporary directory.
        final_ckpt_dir: the checkpoint's path; if it equals `temp_ckpt_dir`, the
            directory is not renamed but marked as complete.
        metadata_store: writes the commit time into `_CHECKPOINT_METADATA`.
    """
    kind: type[TemporaryPathBase] = AtomicRenameTemporaryPath
    if temp_ckpt_dir == final_ckpt_dir:
        kind = CommitFileTemporaryPath
    temporary = kind(
        temp_ckpt_dir, final_ckpt_dir, checkpoint_metadata_store=metadata_store
    )
    run_sync(temporary.finalize())


def set_tensorstore_driver_for_test() -> None:
    """Makes "file" the driver in the specs of local paths.

    This changes nothing, because holdfast always uses that driver.
    """
    tensorstore_utils.DEFAULT_DRIVER = tensorstore_utils.FILE_DRIVER


class PyTreeCheckpointHandler(
    pytree_checkpoint_handler.PyTreeCheckpointHandler
):
    """A handler whose `save` leaves a complete item, without a Checkpointer."""

    def save(
        self, directory: Any, *args: Any, **kwargs: Any
    ) -> None:
        """Writes the item; all processes call it."""
        super().save(directory, *args, **kwargs)
        sync_global_processes("PyTreeCheckpointHandler:save")
        if multihost.process_index() == 0:
            self.finalize(directory)
        sync_global_processes("PyTreeCheckpointHandler:finalize")


class ErrorCheckpointHandler(AsyncCheckpointHandler):
    """A handler whose background saves fail with a SystemError after 3 s."""

    def __init__(
        self,
        handler: Any,
        executor: concurrent.futures.ThreadPoolExecutor,
    ) -> None:
        """Creates the handler.

        Args:
            handler: a PyTreeCheckpointHandler, which does the work.
            executor: runs the failing work.
        """
        self._handler = handler
        self._executor = executor

    def save(
        self, directory: Any, args: ErrorSaveArgs
    ) -> None:
        """Saves without an error."""
        self._handler.save(directory, args=args)

    def restore(
        self, directory: Any, args: ErrorRestoreArgs
    ) -> Any:
        """Restores without an error."""
        return self._handler.restore(directory, args=args)

    async def async_save(
        self, directory: Any, args: ErrorSaveArgs
    ) -> Any:
        """Starts a save that fails."""
        futures = await self._handler.async_save(directory, args=args)
        return [*(futures or ()), self._executor.submit(_fail_slowly)]

    def finalize(self, directory: Any) -> None:
        """Completes the item."""
        self._handler.finalize(directory)


def _fail_slowly() -> None:
    time.sleep(3)
    raise SystemError()


@register_with_handler(ErrorCheckpointHandler, for_save=True)
class ErrorSaveArgs(pytree_checkpoint_handler.PyTreeSaveArgs):
    """The arguments of `save`."""


@register_with_handler(ErrorCheckpointHandler, for_restore=True)
class ErrorRestoreArgs(pytree_checkpoint_handler.PyTreeRestoreArgs):
    """The arguments of `restore`."""


@contextlib.contextmanager
def register_type_handler(ty: Any, handler: Any, func: Any) -> Iterator[None]:
    """Replaces the handler of a type within the block."""
    before = get_type_handler(ty)
    _register_type_handler(ty, handler, func=func, override=True)
    try:
        yield
    finally:
        _register_type_handler(ty, before, func=func, override=True)


@contextlib.contextmanager
def global_type_handler_registry_context() -> Iterator[None]:
    """Undoes the block's changes to the global registry at its end."""
    registry: Any = GLOBAL_TYPE_HANDLER_REGISTRY
    rows, texts = registry._type_registry, registry._typestr_registry
    before = list(rows), dict(texts)
    try:
        yield
    finally:
        rows[:] = before[0]
        texts.clear()
        texts.update(before[1])


@contextlib.contextmanager
def ocdbt_checkpoint_context(
    use_ocdbt: bool, ts_context: Any
) -> Iterator[None]:
    """Registers the standard handlers again for the duration of the block.

    Args:
        use_ocdbt: if False, the handlers are not registered again.
        ts_context: ignored; accepted because Orbax has it.
    """
    with global_type_handler_registry_context():
        if use_ocdbt:
            register_standard_handlers_with_options(
                use_ocdbt=use_ocdbt, ts_context=ts_context
            )
        yield


def barrier_compatible_test(cls: T) -> T:
    """Gives the barriers in each test method of a class their own names.

    Several processes can then run the class's tests in different orders.

    Args:
        cls: a test class with a method `id`, as unittest.TestCase has.

    Returns:
        The class; each test method appends the test's id to the names of its
        barriers.
    """
    for name, method in inspect.getmembers(cls, inspect.isfunction):
        if name.startswith("test"):
            setattr(cls, name, _with_own_barriers(method))
    return cls


def _with_own_barriers(method: Callable[..., Any]) -> Callable[..., Any]:
    def patch(test: Any) -> Any:
        return mock.patch.object(
            multihost, "_unique_barrier_key", lambda key: f"{key}.{test.id()}"
        )

    if inspect.iscoroutinefunction(method):

        @functools.wraps(method)
        async def run_async(self: Any, *args: Any, **kwargs: Any) -> Any:
            with patch(self):
                return await method(self, *args, **kwargs)

        return run_async

    @functools.wraps(method)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        with patch(self):
            return method(self, *args, **kwargs)

    return run


class TestLimitInFlightBytes(LimitInFlightBytes):
    """A limiter that sleeps before and after each use.

    Attributes:
        sleep_time: seconds, half before and half after each use.
        completion_times: `time.monotonic` times at which uses have ended.
    """

    __test__ = False  # not a test for pytest

    def __init__(self, limit_bytes: int, sleep_time: float) -> None:
        """Creates a limiter.

        Args:
            limit_bytes: the limit.
            sleep_time: seconds.
        """
        super().__init__(limit_bytes)
        self.sleep_time = sleep_time
        self.completion_times: list[float] = []

    async def wait_for_bytes(self, requested_bytes: int) -> None:
        await super().wait_for_bytes(requested_bytes)
        await asyncio.sleep(self.sleep_time / 2)

    async def release_bytes(self, requested_bytes: int) -> None:
        await asyncio.sleep(self.sleep_time / 2)
        self.completion_times.append(time.monotonic())
        await super().release_bytes(requested_bytes)


def get_byte_limiter(
    concurrent_bytes: int, sleep_time: float
) -> TestLimitInFlightBytes:
    """Returns a TestLimitInFlightBytes."""
    return TestLimitInFlightBytes(concurrent_bytes, sleep_time)


def concurrent_gb_test_setup() -> tuple[Any, Any, Any]:
    """Returns a handler with limits of 1 GB, a tree of four 4-byte arrays on
    all devices, and the arguments that restore the tree."""
    jax = require_jax("arrays on devices")
    handler = PyTreeCheckpointHandler(
        save_concurrent_gb=1, restore_concurrent_gb=1, use_ocdbt=False
    )
    mesh = jax.sharding.Mesh(jax.devices(), ("x",))
    spec = jax.sharding.PartitionSpec(None)
    sharding = jax.sharding.NamedSharding(mesh, spec)
    tree = {
        name: jax.device_put(np.arange(1, dtype=np.int32), sharding)
        for name in "abcd"
    }
    args = {name: ArrayRestoreArgs(sharding=sharding) for name in tree}
    return handler, tree, args


def assert_every_n_is_x_apart(
    testclass: Any, values: Sequence[float], n: int, x: float
) -> None:
    """Asserts that each value exceeds the n-th value before it by `x`.

    Args:
        testclass: a `unittest.TestCase`.
        values: in any order; their number must be a multiple of `n`.
        n: how many values may be close together.
        x: the minimum distance, with a tolerance of 5 %.
    """
    ordered = sorted(values)
    assert len(ordered) % n == 0
    for earlier, later in zip(ordered, ordered[n:], strict=False):
        testclass.assertGreaterEqual(later, earlier + x * 0.95)


def create_single_replica_restore_args(
    arr: Any, mesh: Any, pspec: Any
) -> SingleReplicaArrayRestoreArgs:
    """Returns arguments that restore an array like `arr` over a mesh."""
    jax = require_jax("a sharding")
    return SingleReplicaArrayRestoreArgs(
        sharding=jax.sharding.NamedSharding(mesh, pspec),
        global_shape=arr.shape,
        dtype=arr.dtype,
    )


def get_fake_global_mesh_for_slices(
    slice_processes: list[set[int]], replica_axis_index: int = 0
) -> Any:
    """Returns a mesh that divides all devices into simulated slices.

    Args:
        slice_processes: the `jax.distributed` ids of each slice's processes.
        replica_axis_index: the mesh axis of the slices: 0 or 1.

    Raises:
        ValueError: slices have different sizes, a process is in no slice, or
            the processes' ids are unknown because
            `initialize_runtime_to_distributed_ids` was not called.
    """
    assert replica_axis_index in (0, 1)
    jax = require_jax("a mesh")
    id_of = multihost.runtime_to_distributed_process_id
    slices = [
        [d for d in jax.devices() if id_of(d.process_index) in processes]
        for processes in slice_processes
    ]
    if len({len(devices) for devices in slices}) > 1:
        raise ValueError("All slices must have the same number of devices.")
    if len(set().union(*slice_processes)) != jax.process_count():
        raise ValueError("All processes must be accounted for.")
    if replica_axis_index == 1:
        return jax.sharding.Mesh(np.asarray(slices).T, ("data", "replica"))
    return jax.sharding.Mesh(np.asarray(slices), ("replica", "data"))


def select_single_replica(arrays: list[Any], global_mesh: Any) -> list[Any]:
    """Returns the copies of arrays that lie on this process's slice.

    Args:
        arrays: jax.Arrays; each slice has a complete copy of each array.
        global_mesh: a mesh whose first axis is the axis of slices.
    """
    jax = require_jax("arrays on devices")
    devices = _local_slice(global_mesh)
    mesh = jax.sharding.Mesh(devices, global_mesh.axis_names[1:])

    def select(array: Any) -> Any:
        spec = jax.sharding.PartitionSpec(*array.sharding.spec)
        count = len(array.addressable_shards)
        return jax.make_array_from_single_device_arrays(
            array.shape,
            jax.sharding.NamedSharding(mesh, spec),
            [array.addressable_data(i) for i in range(count)],
        )

    return [select(array) for array in arrays]


def _local_slice(mesh: Any) -> Any:
    for index in range(mesh.devices.shape[0]):
        devices = multislice.replica_devices(mesh, index, 0)
        owners = multihost.unique_processes_from_devices(devices)
        if multihost.process_index() in owners:
            return devices
    raise ValueError(
        f"process {multihost.process_index()} has no devices in the mesh"
    )


def swap_slices_in_mesh(mesh: Any, *, replica_axis_index: int = 0) -> Any:
    """Returns the mesh with its slices in reverse order."""
    jax = require_jax("a mesh")
    devices = np.flip(mesh.devices, axis=replica_axis_index)
    return jax.sharding.Mesh(devices, mesh.axis_names)


def is_compression_used(
    checkpoint_directory: PathLike,
    param_name: str,
    use_zarr3: bool,
    use_ocdbt: bool,
) -> bool:
    """Returns whether a parameter's chunks are compressed.

    Args:
        checkpoint_directory: the item's directory.
        param_name: the parameter's name.
        use_zarr3: whether the arrays are zarr 3.
        use_ocdbt: whether the arrays are in an OCDBT database.
    """
    path = os.fspath(checkpoint_directory)
    kvstore: dict[str, Any] = {
        "driver": "file",
        "path": os.path.join(path, param_name),
    }
    if use_ocdbt:
        kvstore = {
            "driver": "ocdbt",
            "base": f"file://{path}",
            "path": param_name,
        }
    driver = "zarr3" if use_zarr3 else "zarr"
    opened: Any = handles.open_spec({"driver": driver, "kvstore": kvstore})
    metadata = opened.spec().to_json()["metadata"]
    if not use_zarr3:
        return metadata["compressor"] is not None
    codecs = metadata["codecs"][0]["configuration"]["codecs"]
    return any(codec["name"] == "zstd" for codec in codecs)


def get_composite_save_args(pytree: Any) -> CompositeArgs:
    """Returns the arguments that save a tree as the item `state`."""
    return CompositeArgs(
        state=pytree_checkpoint_handler.PyTreeSaveArgs(pytree)
    )


class MockDeferredWritableTemporaryPath(DeferredWritableTemporaryPath):
    """A temporary path that the test supplies through `deferred_path`.

    Attributes:
        instances: all instances that were created.
    """

    instances: ClassVar[list[Any]] = []

    def __init__(
        self,
        final_path: Any,
        *,
        checkpoint_metadata_store: Any | None = None,
        file_options: Any | None = None,
    ) -> None:
        """Creates no directory yet; see TemporaryPathBase."""
        self._deferred_path = DeferredPath()
        super().__init__(
            None,
            final_path,
            checkpoint_metadata_store=checkpoint_metadata_store,
            file_options=file_options,
        )
        MockDeferredWritableTemporaryPath.instances.append(self)

    @property
    def deferred_path(self) -> DeferredPath:
        """The path that the test sets."""
        return self._deferred_path

    def get_awaitable_path(self) -> DeferredPath:
        return self._deferred_path

    async def create(self) -> Any:
        """Waits for the path, and creates the directory."""
        self._tmp_path = await self._deferred_path.await_creation()
        _files.makedirs(self._tmp_path, exist_ok=True)
        return self._tmp_path

    async def finalize(self, **kwargs: Any) -> None:
        """Does nothing."""

    @classmethod
    def _final_of(cls, temporary_path: Any) -> Any:
        raise NotImplementedError

    @classmethod
    def _of(cls, temporary_path: Any, final_path: Any, **options: Any) -> Any:
        options.pop("snapshot_type")
        return cls(final_path, **options)

    @classmethod
    async def validate(cls, temporary_path: Any) -> None:
        """Accepts any path."""

    @classmethod
    async def validate_final(cls, final_path: Any) -> None:
        """Accepts any path."""
