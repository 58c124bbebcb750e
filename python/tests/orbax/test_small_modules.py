"""multihost, pathways, arrays, atomicity and test_utils, compared with
Orbax's."""

from __future__ import annotations

import asyncio
import concurrent.futures
import importlib
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import holdfast.orbax as ours
from holdfast.orbax import test_utils

jax = pytest.importorskip("jax")
orbax = pytest.importorskip("orbax.checkpoint")

pytestmark = pytest.mark.filterwarnings("ignore")

PACKAGES = [orbax, ours]
both = pytest.mark.parametrize("ocp", PACKAGES, ids=["orbax", "holdfast"])


def result(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Exception as error:
        return type(error).__name__, str(error)


def check_same(call: Callable[[Any], Any]) -> None:
    want, got = (result(lambda ocp=ocp: call(ocp)) for ocp in PACKAGES)
    assert got == want


def sds(shape: tuple[int, ...]) -> Any:
    return jax.ShapeDtypeStruct(shape, np.float32)


@pytest.mark.parametrize(
    "shape",
    [(), (3,), (8,), (8, 4), (4, 8), (16, 6), (7, 9), (12, 10), (24, 8, 2)],
)
@pytest.mark.parametrize("count", [None, 1, 2, 8])
def test_maximal_shardings(shape: Any, count: int | None) -> None:
    devices = None if count is None else jax.devices()[:count]

    def call(ocp: Any) -> Any:
        tree = {"a": sds(shape), "b": [sds((8,))]}
        return ocp.arrays.construct_maximal_shardings(tree, devices)

    check_same(call)


@pytest.mark.parametrize("support_format", [True, False])
def test_abstract_arrays_keep_layouts(support_format: bool) -> None:
    array = jax.numpy.arange(6.0).reshape(2, 3)
    for make in (
        lambda ocp: ocp.arrays.to_shape_dtype_struct,
        lambda ocp: ocp.utils.to_shape_dtype_struct,
        lambda ocp: ocp.v1.arrays.to_shape_dtype_struct,
    ):
        check_same(
            lambda ocp, make=make: make(ocp)(
                array, support_format=support_format
            )
        )
        kept = make(ours)(array, support_format=support_format)
        assert (kept.format.layout is not None) == support_format


def test_multihost_of_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "is_native_pathways_backend",
        "is_proxy_pathways_backend",
        "is_pathways_backend",
        "is_pathways_controller",
        "is_pathways_colocated_runtime_active",
        "is_cloud_pathways_persistence_enabled",
        "is_distributed_to_device_ids_initialized",
        "use_experimental_distributed_process_id",
        "distributed_to_device_ids",
        "initialize_distributed_to_device_ids",
        "process_index",
    ):
        check_same(lambda ocp, name=name: getattr(multihost(ocp), name)())
    check_same(lambda ocp: multihost(ocp).global_max([3, -1, 2]))
    for value in ("1", "0", "yes"):
        monkeypatch.setenv("ENABLE_PATHWAYS_PERSISTENCE", value)
        check_same(
            lambda ocp: multihost(ocp).is_cloud_pathways_persistence_enabled()
        )
    ours.multihost.mark_pathways_colocated_runtime_active()
    assert ours.multihost.is_pathways_colocated_runtime_active()
    monkeypatch.setattr(ours.multihost._State, "is_colocated_runtime", False)


def multihost(ocp: Any) -> Any:
    if ocp is ours:
        return ours.multihost
    return importlib.import_module("orbax.checkpoint._src.multihost.multihost")


def test_the_flags_are_those_of_both() -> None:
    flag = "EXPERIMENTAL_ORBAX_USE_DISTRIBUTED_PROCESS_ID"
    assert getattr(ours.multihost, flag).name == (
        getattr(multihost(orbax), flag).name
    )
    assert getattr(ours.multihost, flag).default is False


def test_pathways_say_that_they_are_missing() -> None:
    impl = ours.pathways.CheckpointingImpl
    assert [member.name for member in impl] == [
        member.name for member in orbax.pathways.CheckpointingImpl
    ]
    for options in ({}, {"use_colocated_python": True}):
        check_same(
            lambda ocp, options=options: (
                ocp.pathways.CheckpointingImpl.from_options(**options).name
            )
        )
    with pytest.raises(NotImplementedError, match="needs a Pathways backend"):
        ours.pathways.register_type_handlers()
    with pytest.raises(ImportError, match="requires pathwaysutils"):
        ours.v1.training.pathways.Snapshotter()


def test_pathways_without_a_dispatcher(tmp_path: Path) -> None:
    tree = {"a": jax.numpy.arange(8.0), "n": np.arange(3), "i": 1}
    with test_utils.global_type_handler_registry_context():
        ours.pathways.register_type_handlers(
            checkpointing_impl=ours.pathways.CheckpointingImpl.NO_DISPATCHER
        )
        with ours.PyTreeCheckpointer() as checkpointer:
            checkpointer.save(tmp_path / "a", tree)
        assert (tmp_path / "a" / "ocdbt.process_pwcontroller").is_dir()
    restored = orbax.PyTreeCheckpointer().restore(tmp_path / "a")
    test_utils.assert_tree_equal(unittest.TestCase(), tree, restored)


@both
def test_paths_that_become_known(ocp: Any, tmp_path: Path) -> None:
    path = ocp.path.atomicity.DeferredPath()
    child = path / "below"
    with pytest.raises(ValueError, match="has not been created yet"):
        _ = child.path

    async def wait() -> Any:
        waiting = asyncio.gather(path.await_creation(), child.await_creation())
        await asyncio.sleep(0)
        path.set_path(tmp_path)
        return await waiting

    assert asyncio.run(wait()) == [tmp_path, tmp_path / "below"]
    assert (path.path, child.path) == (tmp_path, tmp_path / "below")
    assert isinstance(path, ocp.v1.path.PathAwaitingCreation)


def test_validators_of_renamed_paths(tmp_path: Path) -> None:
    from etils import epath

    temporary = epath.Path(tmp_path) / "1.orbax-checkpoint-tmp"
    temporary.mkdir()
    link = epath.Path(tmp_path) / "2.orbax-checkpoint-tmp"
    Path(link).symlink_to(temporary)
    for name in ("temporary", "final"):
        for path in (temporary, link, temporary.parent, temporary / "none"):

            def call(ocp: Any, name: str = name, path: Any = path) -> Any:
                check = getattr(
                    ocp.path.atomicity, f"validate_atomic_rename_{name}_path"
                )
                return asyncio.run(check("Kind", path))

            check_same(call)


@both
def test_temporary_paths_of_checkpointers(ocp: Any, tmp_path: Path) -> None:
    from etils import epath

    with ocp.PyTreeCheckpointer() as checkpointer:
        temporary = checkpointer.get_temporary_path(epath.Path(tmp_path / "a"))
        assert temporary.get_final() == epath.Path(tmp_path / "a")
        asyncio.run(checkpointer.create_temporary_path(temporary))
        assert [path.name for path in tmp_path.iterdir()] == [
            "a.orbax-checkpoint-tmp"
        ]
        assert (temporary.get() / "_CHECKPOINT_METADATA").exists()
        asyncio.run(temporary.finalize())
        assert (tmp_path / "a" / "_CHECKPOINT_METADATA").exists()
        assert checkpointer.structure(tmp_path / "a") is None
        checkpointer.synchronize_next_awaitable_signal_operation_id()


def test_entries_of_leaves() -> None:
    def call(ocp: Any) -> Any:
        entry = ocp.metadata.tree.ValueMetadataEntry
        options = importlib.import_module(
            "orbax.checkpoint._src.metadata.pytree_metadata_options"
        ).PyTreeMetadataOptions
        out = []
        for kind in ("scalar", "NamedTuple", "None"):
            for rich in (True, False):
                data = {"value_type": kind, "skip_deserialize": True}
                read = entry.from_json(data, options(support_rich_types=rich))
                out.append((read.value_type, read.to_json()))
        data = {**data, "write_shape": [2, 3]}
        read = entry.from_json(data, options())
        return [*out, read.write_shape, read.to_json()]

    check_same(call)


@both
def test_composites_that_are_being_saved(ocp: Any, tmp_path: Path) -> None:
    from etils import epath

    handler = ocp.CompositeCheckpointHandler()
    args = ocp.args.Composite(
        j=ocp.args.JsonSave({"a": 1}), s=ocp.args.StandardSave({"b": 2})
    )
    handler.save(epath.Path(tmp_path), args=args)
    found = handler.metadata_from_temporary_paths(epath.Path(tmp_path))
    assert sorted(found.item_handlers) == ["j", "s"]
    assert found.item_handlers["j"].endswith("JsonCheckpointHandler")
    assert found.item_metadata is None
    with pytest.raises(FileNotFoundError, match="Directory does not exist"):
        handler.metadata_from_temporary_paths(epath.Path(tmp_path / "none"))


@both
def test_deletions_are_told(ocp: Any, tmp_path: Path) -> None:
    from etils import epath

    told: list[str] = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, _, **facts: told.append(event)
    )
    (tmp_path / "1").mkdir()
    try:
        deleter = ocp.path.deleter.StandardCheckpointDeleter(
            epath.Path(tmp_path),
            name_format=ocp.step.standard_name_format(),
            duration_metric="/mine",
        )
        deleter.delete(1)
        deleter.close()
    finally:
        jax.monitoring.clear_event_listeners()
    assert told == ["/mine"]
    assert not (tmp_path / "1").exists()


@both
def test_helpers_of_tests(ocp: Any, tmp_path: Path) -> None:
    from etils import epath

    utils = ocp.test_utils
    case = unittest.TestCase()
    utils.assert_every_n_is_x_apart(case, [3.0, 0.0, 1.1, 2.0], 2, 1.5)
    with pytest.raises(AssertionError):
        utils.assert_every_n_is_x_apart(case, [0.0, 0.1, 0.2, 0.3], 2, 1.0)
    handler, tree, args = utils.concurrent_gb_test_setup()
    directory = epath.Path(tmp_path / "a")
    directory.mkdir()
    handler.save(directory, tree)
    test_utils.assert_tree_equal(
        case, tree, handler.restore(directory, restore_args=args)
    )
    assert utils.is_compression_used(directory, "a", False, False)
    temporary = epath.Path(tmp_path / "1.orbax-checkpoint-tmp")
    utils.create_tmp_directory(temporary, epath.Path(tmp_path / "1"))
    utils.create_tmp_directory(temporary, epath.Path(tmp_path / "1"))
    utils.ensure_atomic_save(temporary, epath.Path(tmp_path / "1"))
    assert (tmp_path / "1" / "commit_success.txt").exists()
    with pytest.raises(FileExistsError, match="appears to be a finalized"):
        utils.create_tmp_directory(
            epath.Path(tmp_path / "1"), epath.Path(tmp_path / "1")
        )
    mesh = jax.sharding.Mesh(np.array(jax.devices()).reshape(4, 2), ("r", "d"))
    assert utils.swap_slices_in_mesh(mesh).devices[0, 0] == jax.devices()[6]
    args = utils.get_composite_save_args({"a": 1})
    assert args.state.item == {"a": 1}
    single = utils.create_single_replica_restore_args(
        jax.numpy.ones(8), mesh, jax.sharding.PartitionSpec("d")
    )
    assert single.global_shape == (8,)


@both
def test_handlers_that_fail(
    ocp: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    utils = ocp.test_utils
    with concurrent.futures.ThreadPoolExecutor() as executor:
        handler = utils.ErrorCheckpointHandler(
            ocp.PyTreeCheckpointHandler(), executor
        )
        checkpointer = ocp.AsyncCheckpointer(handler)
        checkpointer.save(
            tmp_path / "a", args=utils.ErrorSaveArgs({"a": np.arange(3)})
        )
        with pytest.raises(SystemError):
            checkpointer.wait_until_finished()
    assert not (tmp_path / "a").exists()


@both
def test_registries_are_put_back(ocp: Any) -> None:
    handlers, utils = ocp.type_handlers, ocp.test_utils
    before = type(handlers.get_type_handler(int))

    class Own(handlers.ScalarHandler):  # type: ignore[misc]
        pass

    # On exit, the old handler is registered with the given function, which may
    # accept fewer types.
    with utils.global_type_handler_registry_context():
        with utils.register_type_handler(int, Own(), lambda kind: kind is int):
            assert type(handlers.get_type_handler(int)) is Own
        assert type(handlers.get_type_handler(int)) is before
    with utils.global_type_handler_registry_context():
        handlers.register_type_handler(int, Own(), override=True)
        assert type(handlers.get_type_handler(int)) is Own
    assert type(handlers.get_type_handler(int)) is before
    with utils.ocdbt_checkpoint_context(True, None):
        assert handlers.has_type_handler(int)


def test_tests_have_barriers_of_their_own() -> None:
    @test_utils.barrier_compatible_test
    class Case(unittest.TestCase):
        def test_key(self) -> None:
            key = ours.multihost._unique_barrier_key("a")
            assert key == f"a.{self.id()}"

        async def test_async(self) -> str:
            return ours.multihost._unique_barrier_key("b")

    outcome = Case("test_key").run()
    assert outcome is not None and outcome.wasSuccessful()
    case = Case("test_async")
    assert asyncio.run(case.test_async()) == f"b.{case.id()}"
    assert ours.multihost._unique_barrier_key("a") == "a"


def test_limiters_that_take_their_time() -> None:
    limiter = test_utils.get_byte_limiter(10, 0.02)

    async def use() -> None:
        await limiter.wait_for_bytes(6)
        await limiter.release_bytes(6)

    async def use_thrice() -> None:
        await asyncio.gather(use(), use(), use())

    asyncio.run(use_thrice())
    case = unittest.TestCase()
    times = limiter.completion_times
    test_utils.assert_every_n_is_x_apart(case, times, 1, 0.01)
    assert len(times) == 3


def test_paths_that_tests_make_known(tmp_path: Path) -> None:
    kind = test_utils.MockDeferredWritableTemporaryPath
    temporary = kind.from_final(tmp_path / "a")
    assert kind.instances[-1] is temporary
    with pytest.raises(ValueError, match="has not been created yet"):
        temporary.get()
    temporary.deferred_path.set_path(tmp_path / "b" / "c")
    assert asyncio.run(temporary.create()) == tmp_path / "b" / "c"
    assert (tmp_path / "b" / "c").is_dir()
    assert temporary.get() == tmp_path / "b" / "c"
