"""Functions that the processes of `test_processes.py` run."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import resource
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np

import holdfast
import holdfast.orbax as ocp
from holdfast import _engine
from holdfast.orbax import multihost, v1
from holdfast.orbax._processes.operations import Operation, Processes

P = jax.sharding.PartitionSpec


def values_of(shape: tuple[int, ...], dtype: Any = np.float32) -> Any:
    return np.arange(int(np.prod(shape)), dtype=dtype).reshape(shape)


def sharding(
    axes: tuple[int, ...], spec: tuple[Any, ...], reverse: bool = False
) -> Any:
    devices = np.array(jax.devices())
    if reverse:
        devices = devices[::-1]
    mesh = jax.sharding.Mesh(devices.reshape(axes), ("x", "y")[: len(axes)])
    return jax.sharding.NamedSharding(mesh, P(*spec))


def place(values: Any, placement: Any) -> Any:
    return jax.make_array_from_callback(
        values.shape,
        placement,
        lambda index: values[index],
        dtype=values.dtype,
    )


def a_tree(dtype: Any = np.float32, reverse: bool = False) -> Any:
    count = len(jax.devices())
    over_all = sharding((count // 2, 2), ("x", "y"), reverse)
    return {
        "w": place(values_of((count * 2, 6), dtype), over_all),
        "copies": place(values_of((8,)), sharding((count,), (), reverse)),
        "numpy": values_of((3,), np.int32),
        "step": 7,
    }


def problems_of(tree: Any) -> list[str]:
    """Returns the differences from `a_tree`, on this process's devices."""
    want = a_tree()
    problems = []
    for name in ("w", "copies"):
        got = tree[name]
        full = values_of(want[name].shape)
        if got.shape != full.shape or got.dtype != full.dtype:
            problems.append(f"{name}: {got.dtype}{got.shape}")
        for shard in got.addressable_shards:
            if not np.array_equal(shard.data, full[shard.index]):
                problems.append(f"{name} at {shard.index}: {shard.data}")
    if not np.array_equal(tree["numpy"], want["numpy"]) or tree["step"] != 7:
        problems.append(f"{tree['numpy']} {tree['step']}")
    return problems


def save(path: str, api: str = "standard", tree: Any = None) -> None:
    tree = a_tree() if tree is None else tree
    if api == "v1":
        v1.save(path, tree)
    elif api == "v1 async":
        v1.save_async(path, tree).result()
    elif api == "standard":
        with ocp.StandardCheckpointer() as ckptr:
            ckptr.save(path, tree)
    else:
        with ocp.PyTreeCheckpointer() as ckptr:
            ckptr.save(path, tree)


def restore(path: str, api: str = "standard", flip: bool = False) -> list[str]:
    """Restores what `save` saved; with `flip`, over another mesh. Returns the
    problems."""
    count = len(jax.devices())
    if flip:
        target_sharding = sharding((2, count // 2), ("y", "x"), reverse=True)
    else:
        target_sharding = sharding((count // 2, 2), ("x", "y"))
    saved = a_tree()
    target = {
        "w": jax.ShapeDtypeStruct(
            saved["w"].shape, np.float32, sharding=target_sharding
        ),
        "copies": jax.ShapeDtypeStruct(
            (8,), np.float32, sharding=sharding((count,), ())
        ),
        "numpy": saved["numpy"],
        "step": 0,
    }
    if api.startswith("v1"):
        return problems_of(v1.load(path, target))
    with ocp.StandardCheckpointer() as ckptr:
        return problems_of(ckptr.restore(path, target))


def much() -> Any:
    """Returns a tree that takes a while to save."""
    count = len(jax.devices())
    over_all = sharding((count,), ("x",))
    values = values_of((1 << 21,)).reshape(-1, 128)
    values = values[: len(values) // count * count]
    return {f"a{i}": place(values + i, over_all) for i in range(8)}


def save_much(path: str, api: str) -> None:
    save(path, api, much())


def restore_much(path: str, api: str) -> list[str]:
    rows = (1 << 21) // 128
    # The rows were cut to a multiple of the number of devices that saved.
    stored = holdfast.load(f"{path}/state" if api == "v1" else path)
    problems = [] if len(stored) == 8 else [f"{len(stored)} arrays"]
    for i in range(8):
        full = stored[f"a{i}"]
        want = values_of((1 << 21,)).reshape(-1, 128)[: len(full)] + i
        if not rows - 8 < len(full) <= rows or not np.array_equal(full, want):
            problems.append(f"a{i}")
    return problems


def save_twice(path: str) -> list[str]:
    """Makes two background saves at once, then overwrites the first."""
    with ocp.StandardCheckpointer() as ckptr:
        ckptr.save(path, {"step": 1})
        ckptr.save(f"{path}-2", a_tree())
        ckptr.save(path, a_tree(), force=True)
    return restore(path) + restore(f"{path}-2")


def save_several(path: str) -> list[str]:
    """Saves v1's checkpointables (two trees and a document), and checks what is
    restored."""
    v1.save_checkpointables(
        path, {"one": a_tree(), "two": a_tree(), "data": {"k": [1, None]}}
    )
    loaded = v1.load_checkpointables(path, {"data": None})
    assert loaded == {"data": {"k": [1, None]}}, loaded
    return restore(f"{path}/one") + restore(f"{path}/two")


def train(path: str) -> list[str]:
    """Tests v1's Checkpointer: background saves, retention, deletion, a
    failure."""
    policies = v1.training.preservation_policies
    decisions = v1.training.save_decision_policies
    me = jax.process_index()
    problems = []
    with v1.training.Checkpointer(
        path,
        preservation_policy=policies.LatestN(2),
        # Only the first process's policy saves these steps, but it decides for
        # all processes.
        save_decision_policy=decisions.SpecificStepsPolicy(
            [1, 2, 3, 4] if me == 0 else []
        ),
        custom_metadata={"run": 1},
    ) as run:
        for step in range(5):
            response = run.save_async(step, a_tree(), metrics={"loss": step})
            if (response is None) != (step == 0):
                problems.append(f"step {step}: {response}")
        run.wait()
        steps = [known.step for known in run.checkpoints]
        if steps != [3, 4] or run.latest.metrics != {"loss": 4}:
            problems.append(f"{steps}")
        # One process cannot save its tree, so the save fails on all.
        failing = a_tree() if me == 0 else {"other": a_tree()}
        try:
            run.save(5, failing, force=True)
            problems.append("step 5 was saved")
        except Exception as error:
            if not str(error):
                problems.append("no reason")
        if [known.step for known in run.checkpoints] != [3, 4]:
            problems.append("step 5 is known")
        if not run.delete(3):
            problems.append("step 3 was not deleted")
    return problems + restore(f"{path}/4/state")


def save_partially(path: str) -> list[str]:
    """Saves two parts, and checks the checkpoint made of both."""
    tree = a_tree()
    v1.partial.save(path, {"first": tree}, custom_metadata={"a": 1})
    v1.partial.save(path, {"second": {"n": 5}})
    v1.partial.finalize(path)
    loaded = v1.load(path)
    assert loaded["second"] == {"n": 5}, loaded["second"]
    target = {"first": jax.tree.map(abstract_of, tree)}
    context = v1.Context()
    context.pytree.loading.partial_load = True
    with context:
        return problems_of(v1.load(path, target)["first"])


def abstract_of(leaf: Any) -> Any:
    """Returns the abstract leaf that restores `leaf` unchanged."""
    if not isinstance(leaf, jax.Array):
        return leaf
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=leaf.sharding)


def save_with_own_handler(path: str) -> list[str]:
    """Saves jax.Arrays through a user's handler, with another metadata key,
    beside the engine's leaves."""
    handlers = ocp.type_handlers
    registry = handlers.create_type_handler_registry(
        (int, handlers.ScalarHandler()),
        (np.ndarray, handlers.NumpyHandler()),
        (jax.Array, handlers.ArrayHandler(metadata_key="meta.json")),
    )
    target = a_tree()
    args = {
        "w": ocp.ArrayRestoreArgs(sharding=target["w"].sharding),
        "copies": ocp.ArrayRestoreArgs(sharding=target["copies"].sharding),
        "numpy": ocp.RestoreArgs(),
        "step": ocp.RestoreArgs(),
    }
    problems = []
    for use_ocdbt in (True, False):
        own = f"{path}-{use_ocdbt}"
        handler = ocp.PyTreeCheckpointHandler(
            type_handler_registry=registry, use_ocdbt=use_ocdbt
        )
        with ocp.Checkpointer(handler) as ckptr:
            ckptr.save(own, args=ocp.args.PyTreeSave(a_tree()))
            problems += problems_of(
                ckptr.restore(
                    own, args=ocp.args.PyTreeRestore(restore_args=args)
                )
            )
    return problems


def save_actively(path: str, active: list[int], primary: int) -> list[str]:
    """Saves and restores with only some of the processes."""
    options = ocp.options.MultiprocessingOptions(
        primary_host=primary,
        active_processes=set(active),
        barrier_sync_key_prefix="some",
    )
    devices = np.array([d for d in jax.devices() if d.process_index in active])
    over = jax.sharding.NamedSharding(
        jax.sharding.Mesh(devices, ("x",)), P("x")
    )
    values = values_of((len(devices) * 2, 3))
    handler = ocp.PyTreeCheckpointHandler(multiprocessing_options=options)
    with ocp.Checkpointer(handler, multiprocessing_options=options) as ckptr:
        tree = {"a": place(values, over), "n": 3}
        ckptr.save(path, args=ocp.args.PyTreeSave(tree))
        args = {"a": ocp.ArrayRestoreArgs(sharding=over)}
        restored = ckptr.restore(
            path,
            args=ocp.args.PyTreeRestore(
                restore_args={**args, "n": ocp.RestoreArgs()}
            ),
        )
    return [] if is_same(restored["a"], values) else ["a"]


def restore_from_manager(path: str) -> list[str]:
    """Restores steps of a recorded manager; the first process lists them for
    all."""
    options = ocp.CheckpointManagerOptions(
        read_only=True, single_host_load_and_broadcast=True
    )
    with ocp.CheckpointManager(path, options=options) as manager:
        steps = list(manager.all_steps())
        stored = ocp.PyTreeCheckpointHandler().metadata(
            Path(path) / str(steps[-1]) / "state"
        )
        count = len(jax.devices())
        names = ("state", "meta")
        args = ocp.args.Composite(
            state=ocp.args.PyTreeRestore(
                restore_args=jax.tree.map(
                    lambda leaf: (
                        ocp.ArrayRestoreArgs(sharding=sharding((count,), ()))
                        if isinstance(leaf, ocp.metadata.ArrayMetadata)
                        else ocp.RestoreArgs()
                    ),
                    stored.tree,
                    is_leaf=lambda leaf: hasattr(leaf, "directory"),
                )
            ),
            meta=ocp.args.JsonRestore(),
        )
        restored = manager.restore(steps[-1], args=args)
    whole = holdfast.load(f"{path}/{steps[-1]}/state")
    problems = [] if steps == [1, 4] else [f"{steps}"]
    problems += [name for name in names if name not in restored]
    for keypath, full in jax.tree.leaves_with_path(whole):
        got = restored["state"]
        for key in keypath:
            got = got[getattr(key, "key", getattr(key, "idx", None))]
        if isinstance(full, np.ndarray) and not is_same(got, full):
            problems.append(str(keypath))
    return problems


def save_other(path: str, what: str, api: str = "standard") -> None:
    """Saves; the last process passes other arguments than the others."""
    is_last = jax.process_index() == jax.process_count() - 1
    tree = a_tree()
    if is_last and what == "tree":
        tree["more"] = tree["copies"]
    elif is_last and what == "name":
        tree["copied"] = tree.pop("copies")
    elif is_last and what == "dtype":
        tree = a_tree(dtype=np.int32)
    elif is_last and what == "mesh":
        tree = a_tree(reverse=True)
    elif is_last and what == "leaf":
        tree["step"] = object()
    elif is_last and what == "path":
        path += "-other"
    save(path, api, tree)


def restore_other(path: str, api: str) -> None:
    """Restores; the last process requests another shape than the others."""
    count = len(jax.devices())
    extent = 2 * count + (jax.process_index() == jax.process_count() - 1)
    target = {
        "w": jax.ShapeDtypeStruct(
            (extent, 6), np.float32, sharding=sharding((count,), ())
        )
    }
    if api == "v1":
        context = v1.Context()
        context.pytree.loading.partial_load = True
        with context:
            v1.load(path, target)
        return
    args = ocp.ArrayRestoreArgs(
        sharding=target["w"].sharding, global_shape=target["w"].shape
    )
    with ocp.PyTreeCheckpointer() as ckptr:
        ckptr.restore(
            path,
            args=ocp.args.PyTreeRestore(
                target, restore_args={"w": args}, partial_restore=True
            ),
        )


@contextlib.contextmanager
def file_size_limit(limit_bytes: int) -> Iterator[None]:
    """Makes writes beyond a file size fail, as on a full disk."""
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)


def save_on_full_disk(path: str, process: int, api: str = "standard") -> None:
    count = len(jax.devices())
    noise = np.random.default_rng(1).random((count * 2, 1 << 12))
    tree = {"w": place(noise, sharding((count,), ("x",)))}
    if jax.process_index() != process:
        save(path, api, tree)
        return
    with file_size_limit(1 << 12):
        save(path, api, tree)


def save_soon(path: str, seconds: int, api: str = "standard") -> None:
    """Saves, and waits at most `seconds` for the other processes."""
    before = multihost.coordination_timeout()
    multihost.set_coordination_timeout(seconds)
    try:
        save(path, api)
    finally:
        multihost.set_coordination_timeout(before)


def save_until(path: str, place: str, api: str = "standard") -> None:
    """Saves, but the last process dies when it reaches `place`."""
    meet = Operation.meet

    def meet_or_die(operation: Any, at: str, *args: Any, **how: Any) -> Any:
        if place in at:
            os.kill(os.getpid(), signal.SIGKILL)
        return meet(operation, at, *args, **how)

    if jax.process_index() == jax.process_count() - 1:
        Operation.meet = meet_or_die  # type: ignore[method-assign]
    save(path, api)


def places(path: str, api: str) -> list[str]:
    """Saves; returns the names of the places where processes wait."""
    seen: list[str] = []
    meet = Operation.meet

    def note(operation: Any, at: str, *args: Any, **how: Any) -> Any:
        seen.append(at)
        return meet(operation, at, *args, **how)

    Operation.meet = note  # type: ignore[method-assign]
    try:
        save(path, api)
    finally:
        Operation.meet = meet  # type: ignore[method-assign]
    return seen


def barriers_of_a_caller(path: str) -> list[Any]:
    """Saves; returns the arguments that AsyncOptions.barrier_sync_fn gets."""
    calls: list[Any] = []

    def wait(*, key: str, timeout_ms: int) -> None:
        calls.append([key, 0 < timeout_ms <= 50_000])

    with ocp.StandardCheckpointer(
        async_options=ocp.AsyncOptions(timeout_secs=50, barrier_sync_fn=wait)
    ) as ckptr:
        ckptr.save(path, a_tree())
    return calls


def save_host_local(path: str) -> None:
    save(path, tree={"local": jax.numpy.arange(3)})


def save_locally(path: str) -> list[str]:
    """Saves an item of only this process; returns the names of the files."""
    own = f"{path}-{jax.process_index()}"
    store = ocp.type_handlers
    from holdfast.orbax._type_handlers.array_metadata import Store

    registry = store.create_type_handler_registry(
        (int, store.ScalarHandler()),
        (np.ndarray, store.NumpyHandler()),
        (
            jax.Array,
            store.ArrayHandler(
                primary_host=None,
                replica_id=None,
                use_replica_parallel=False,
                array_metadata_store=Store(primary_host=None),
            ),
        ),
    )
    options = ocp.options.MultiprocessingOptions(primary_host=None)
    handler = ocp.PyTreeCheckpointHandler(
        type_handler_registry=registry, multiprocessing_options=options
    )
    with ocp.Checkpointer(handler, multiprocessing_options=options) as ckptr:
        ckptr.save(own, args=ocp.args.PyTreeSave(a_tree()))
    target = a_tree()
    args = {
        "w": ocp.ArrayRestoreArgs(sharding=target["w"].sharding),
        "copies": ocp.ArrayRestoreArgs(sharding=target["copies"].sharding),
        "numpy": ocp.RestoreArgs(),
        "step": ocp.RestoreArgs(),
    }
    with ocp.Checkpointer(handler, multiprocessing_options=options) as ckptr:
        tree = ckptr.restore(
            own, args=ocp.args.PyTreeRestore(restore_args=args)
        )
    problems = problems_of(tree)
    assert not problems, problems
    return sorted(p.relative_to(own).as_posix() for p in Path(own).rglob("*"))


def restore_one_replica(path: str, api: str, limit: int | None) -> Any:
    """Restores with one replica that reads. Returns the array, and whether this
    process has read it."""
    count = len(jax.devices())
    processes = jax.process_count()
    over = sharding((processes, count // processes), (None, "y"))
    target = {
        "w": jax.ShapeDtypeStruct((count * 2, 6), np.float32, sharding=over),
        "copies": jax.ShapeDtypeStruct(
            (8,), np.float32, sharding=sharding(over.mesh.devices.shape, ())
        ),
        "numpy": values_of((3,), np.int32),
        "step": 0,
    }
    if api == "v1":
        context = v1.Context()
        loading = context.array.loading
        loading.use_load_and_broadcast = True
        options = loading.load_and_broadcast_options
        options.broadcast_memory_limit_bytes = limit
        with context:
            return problems_of(v1.load(path, target))
    handlers = ocp.type_handlers
    registry = handlers.create_type_handler_registry(
        (int, handlers.ScalarHandler()),
        (np.ndarray, handlers.NumpyHandler()),
        (
            jax.Array,
            handlers.SingleReplicaArrayHandler(
                broadcast_memory_limit_bytes=limit
            ),
        ),
    )
    args = {
        name: handlers.SingleReplicaArrayRestoreArgs(
            sharding=target[name].sharding,
            global_shape=target[name].shape,
            dtype=np.float32,
        )
        for name in ("w", "copies")
    }
    args |= {"numpy": ocp.RestoreArgs(), "step": ocp.RestoreArgs()}
    handler = ocp.PyTreeCheckpointHandler(type_handler_registry=registry)
    with ocp.Checkpointer(handler) as ckptr:
        tree = ckptr.restore(
            path, args=ocp.args.PyTreeRestore(restore_args=args)
        )
    return problems_of(tree)


def broadcast_every_dtype() -> list[str]:
    """Broadcasts arrays of every dtype from one replica, with -0.0, NaNs,
    booleans and the integers of keys; returns the problems."""
    from holdfast.orbax._devices import multislice

    count = len(jax.devices())
    processes = jax.process_count()
    over = sharding((processes, count // processes), ("y",))
    own = multislice.local_replica_sharding(over, 0)
    wanted = []
    for dtype in (
        np.bool_,
        np.int8,
        np.uint32,
        np.float32,
        jax.numpy.bfloat16,
        np.complex64,
        jax.numpy.int4,
        jax.numpy.float8_e4m3fn,
    ):
        values = np.array([0, 1, 1, 0] * (count // 2)).astype(dtype)
        if jax.numpy.issubdtype(dtype, jax.numpy.inexact):
            values[0], values[1] = -0.0, np.nan
        wanted.append(values)
    is_source = jax.process_index() == 0
    arrays = [
        place(values, own)
        if is_source
        else jax.ShapeDtypeStruct(values.shape, values.dtype, sharding=own)
        for values in wanted
    ]
    results, sums = multislice.broadcast_one_replica_to_all(
        arrays, over.mesh, 0, is_source, memory_limit_bytes=16
    )
    problems = [] if sums > 1 else [f"{sums} sums"]
    for want, got in zip(wanted, results, strict=True):
        for shard in got.addressable_shards:
            mine = np.asarray(shard.data)
            if mine.dtype != want.dtype or (
                mine.tobytes() != want[shard.index].tobytes()
            ):
                problems.append(f"{want.dtype}: {mine} for {want}")
    return problems


def restore_recorded(path: str, expected: str) -> list[str]:
    """Restores a recorded checkpoint over all devices; returns the problems.

    Arrays are divided along the first axis that can be divided.
    """
    jax.config.update("jax_enable_x64", True)
    with open(expected, encoding="utf-8") as file:
        recorded = json.load(file)
    (item,) = (
        each
        for each in recorded["items"]
        if each["type"] == "pytree" and path.endswith(each["path"])
    )
    count = len(jax.devices())
    problems: list[str] = []
    handler = ocp.PyTreeCheckpointHandler()
    metadata = handler.metadata(path).tree

    def args_of(leaf: Any) -> Any:
        if not isinstance(leaf, ocp.metadata.ArrayMetadata):
            return ocp.RestoreArgs()
        if leaf.sharding is None:
            return ocp.RestoreArgs(restore_type=np.ndarray)
        axis = next(
            (i for i, extent in enumerate(leaf.shape) if extent % count == 0),
            None,
        )
        spec = () if axis is None else (None,) * axis + ("x",)
        return ocp.ArrayRestoreArgs(sharding=sharding((count,), spec))

    args = jax.tree.map(
        args_of, metadata, is_leaf=lambda leaf: hasattr(leaf, "directory")
    )
    tree = ocp.PyTreeCheckpointHandler().restore(
        path, args=ocp.args.PyTreeRestore(restore_args=args)
    )
    whole = holdfast.load(path)
    for leaf in item["leaves"]:
        if "sha256" in leaf:
            full = at(whole, leaf["path"])
            if sha256(full) != leaf["sha256"]:
                problems.append(f"{leaf['param']}: the whole")
            if not is_same(at(tree, leaf["path"]), full):
                problems.append(leaf["param"])
    return problems


def at(tree: Any, path: list[dict[str, str]]) -> Any:
    for element in path:
        key = element["key"]
        tree = tree[int(key) if isinstance(tree, list) else key]
    return tree


def sha256(value: Any) -> str:
    return hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()


def is_same(got: Any, full: Any) -> bool:
    """Whether this process's parts of the array `got` are equal to `full`."""
    if not isinstance(got, jax.Array):
        return sha256(got) == sha256(full)
    return got.shape == np.shape(full) and all(
        sha256(shard.data) == sha256(full[shard.index])
        for shard in got.addressable_shards
    )


def list_steps(path: str) -> Any:
    """Returns the steps that this process gets, and whether this process itself
    scanned for them (only the first one does)."""
    listed = []
    original = _engine.scan_steps

    def scan_steps(*arguments: Any, **options: Any) -> Any:
        listed.append(arguments)
        return original(*arguments, **options)

    name_format = ocp.step.standard_name_format(
        single_host_load_and_broadcast=True
    )
    _engine.scan_steps = scan_steps
    try:
        found = sorted(step.step for step in name_format.find_all(path))
    finally:
        _engine.scan_steps = original
    return [found, bool(listed)]


def who() -> Any:
    multihost.initialize_runtime_to_distributed_ids()
    assert multihost.runtime_to_distributed_ids() == [0, 1]
    multihost.sync_global_processes("who")
    multihost.sync_global_processes("who", processes={0, 1})
    told = multihost.broadcast_one_to_all(
        np.array([multihost.process_index() + 5])
    )
    return [
        multihost.process_index(),
        multihost.process_count(),
        multihost.is_primary_host(0),
        multihost.should_skip_process_sync(),
        int(told[0]),
        multihost.reached_preemption(3),
    ]


def stay_away(seconds: int) -> None:
    """Begins an operation; the last process then waits at another place than
    the others."""
    processes = Processes()
    operation = processes.start("begin", "/some/where")
    is_last = processes.index == processes.members[-1]
    place = "another place" if is_last else "the next place"
    operation.meet(place, timeout_secs=60 if is_last else seconds)


def meet_often(count: int) -> None:
    """Exchanges values of all processes at a place that is used repeatedly."""
    processes = Processes()
    operation = processes.start("begin", "/some/where", value=processes.index)
    assert operation.values == {i: i for i in processes.members}
    for i in range(count):
        found = operation.meet("a place/with signs é", [processes.index, i])
        assert found == {j: [j, i] for j in processes.members}


def leave_early(seconds: list[float]) -> None:
    """Begins an operation, and waits at most this process's time for the
    others. A process whose time is 0 does not begin."""
    processes = Processes()
    mine = seconds[processes.index]
    if mine > 0:
        processes.start("a place to leave", timeout_secs=mine)
