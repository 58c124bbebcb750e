"""Saves and loads jax arrays in every sharding, typed keys, and the containers
of JAX's libraries; the files are as Orbax writes them."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import thread_ranks

import holdfast
import holdfast.orbax
from holdfast import _engine, errors

jax = pytest.importorskip("jax")
jnp = jax.numpy
NamedSharding = jax.sharding.NamedSharding
P = jax.sharding.PartitionSpec


@pytest.fixture(scope="module")
def mesh() -> Any:
    if len(jax.devices()) < 8:
        pytest.skip("needs 8 devices")
    return jax.make_mesh((4, 2), ("data", "model"))


def put(mesh: Any, value: Any, *spec: Any) -> Any:
    return jax.device_put(value, NamedSharding(mesh, P(*spec)))


SPECS = [
    (),
    ("data",),
    (None, "model"),
    ("data", "model"),
    (("data", "model"),),
    ("model", "data"),
    (None, ("model", "data")),
]


def values(dtype: Any = np.float32) -> Any:
    return np.arange(128).reshape(16, 8).astype(dtype)


def assert_same_array(got: Any, want: Any) -> None:
    assert isinstance(got, jax.Array)
    assert got.dtype == want.dtype and got.shape == want.shape
    assert got.sharding == want.sharding
    if jax.dtypes.issubdtype(want.dtype, jax.dtypes.prng_key):
        got, want = jax.random.key_data(got), jax.random.key_data(want)
    np.testing.assert_array_equal(np.asarray(got), np.asarray(want))


def assert_same_tree(got: Any, want: Any) -> None:
    assert jax.tree.structure(got) == jax.tree.structure(want)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        assert_same_array(a, b)


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_sharded_arrays(ckpt: Path, mesh: Any, spec: Any) -> None:
    tree = {"a": put(mesh, values(), *spec)}
    holdfast.save(ckpt, tree)
    np.testing.assert_array_equal(holdfast.load(ckpt)["a"], values())
    assert_same_tree(holdfast.load(ckpt, tree), tree)


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_resharding(ckpt: Path, mesh: Any, spec: Any) -> None:
    holdfast.save(ckpt, {"a": put(mesh, values(), "data")})
    sharding = NamedSharding(mesh, P(*spec))
    target = jax.ShapeDtypeStruct((16, 8), np.float32, sharding=sharding)
    got = holdfast.load(ckpt, {"a": target})["a"]
    assert_same_array(got, jax.device_put(values(), sharding))


def test_dtypes_and_0d(ckpt: Path) -> None:
    tree = {
        name: jnp.asarray(values(), name)
        for name in ("bfloat16", "float8_e4m3fn", "int8", "bool", "complex64")
    } | {"scalar": jnp.float32(3)}
    holdfast.save(ckpt, tree)
    assert_same_tree(holdfast.load(ckpt, tree), tree)


def test_without_a_sharding_the_default_device_is_used(ckpt: Path) -> None:
    holdfast.save(ckpt, {"a": values()})
    target = {"a": jax.ShapeDtypeStruct((16, 8), np.float32)}
    got = holdfast.load(ckpt, target)["a"]
    assert got.devices() == {jax.devices()[0]}
    with jax.default_device(jax.devices()[3]):
        got = holdfast.load(ckpt, target)["a"]
    assert got.devices() == {jax.devices()[3]}


def test_shape_dtype_and_sharding_are_checked(ckpt: Path, mesh: Any) -> None:
    holdfast.save(ckpt, {"a": values()})
    struct = jax.ShapeDtypeStruct
    for target, words in (
        (struct((8, 16), np.float32), "shape: the checkpoint has"),
        (struct((16, 8), np.int32), "dtype: the checkpoint has float32"),
    ):
        with pytest.raises(errors.InvalidArgumentError, match=words):
            holdfast.load(ckpt, {"a": target})
    got = holdfast.load(ckpt, {"a": struct((16, 8), jnp.bfloat16)}, cast=True)
    assert got["a"].dtype == jnp.bfloat16 and got["a"][1, 1] == 9


def test_typed_keys(ckpt: Path) -> None:
    tree = {
        "one": jax.random.key(5),
        "many": jax.random.split(jax.random.key(1, impl="rbg"), 8),
    }
    holdfast.save(ckpt, tree)
    assert_same_tree(holdfast.load(ckpt, tree), tree)
    struct = jax.tree.map(
        lambda key: jax.ShapeDtypeStruct(key.shape, key.dtype), tree
    )
    got = holdfast.load(ckpt, struct)
    assert_same_array(got["many"], tree["many"])
    np.testing.assert_array_equal(
        jax.random.uniform(got["one"], 3), jax.random.uniform(tree["one"], 3)
    )
    leaves = {leaf.name: leaf for leaf in holdfast.open(ckpt).leaves}
    assert leaves["one"].prng_impl == "threefry2x32"
    assert leaves["many"].prng_impl == "rbg"
    assert holdfast.load(ckpt)["one"].dtype == np.uint32
    with pytest.raises(errors.InvalidArgumentError, match="rbg key"):
        holdfast.load(
            ckpt,
            {"one": ..., "many": jax.random.split(jax.random.key(1), 8)},
        )


def test_sharded_keys(ckpt: Path, mesh: Any) -> None:
    keys = put(mesh, jax.random.split(jax.random.key(0), 8), "data")
    holdfast.save(ckpt, {"k": keys})
    assert_same_tree(holdfast.load(ckpt, {"k": keys}), {"k": keys})
    target = jax.ShapeDtypeStruct(
        keys.shape, keys.dtype, sharding=NamedSharding(mesh, P("model"))
    )
    got = holdfast.load(ckpt, {"k": target})["k"]
    assert got.sharding.spec == P("model")
    np.testing.assert_array_equal(
        jax.random.key_data(got), jax.random.key_data(keys)
    )


def record_of(path: Path) -> tuple[Any, Any]:
    metadata = json.loads((path / "_METADATA").read_text())
    sharding = json.loads((path / "_sharding").read_text())
    return metadata["tree_metadata"], sharding


@pytest.mark.filterwarnings("ignore:Sharding info not provided")
def test_recorded_as_orbax_records_it(tmp_path: Path, mesh: Any) -> None:
    ocp = pytest.importorskip("orbax.checkpoint")
    tree = {
        f"spec{i}": put(mesh, values(), *spec) for i, spec in enumerate(SPECS)
    } | {
        "odd": put(mesh, np.ones((3, 5), np.float32)),
        "partly": put(mesh, np.ones((4, 3), np.float32), "data"),
        "second_axis": put(mesh, np.ones((3, 16), np.float32)),
        "single": jnp.ones((5,)),
        "elsewhere": jax.device_put(jnp.ones(3), jax.devices()[5]),
        "0d": put(mesh, np.float32(1)),
        "key": jax.random.split(jax.random.key(0), 4),
        "np": np.ones(3),
    }
    with ocp.PyTreeCheckpointer() as checkpointer:
        checkpointer.save(tmp_path / "orbax", tree)
        holdfast.save(tmp_path / "ours", tree)
        assert record_of(tmp_path / "ours") == record_of(tmp_path / "orbax")
        restored = checkpointer.restore(tmp_path / "ours")
    np.testing.assert_array_equal(restored["spec3"], values())


@pytest.mark.parametrize(
    ("options", "want"),
    [
        ({}, (2, 8)),
        ({"use_replica_parallel": False}, (16, 8)),
        ({"max_replicas": 4}, (4, 8)),
        ({"max_replicas": 1}, (16, 8)),
        ({"min_slice_bytes": 64}, (2, 8)),
        ({"min_slice_bytes": 65}, (16, 8)),
    ],
)
def test_write_shape(mesh: Any, options: Any, want: Any) -> None:
    from holdfast import _jax_arrays

    sharding = NamedSharding(mesh, P())
    assert _jax_arrays.write_shape(sharding, (16, 8), 4, **options) == want


def test_other_shardings_have_no_record(ckpt: Path, mesh: Any) -> None:
    from holdfast import _jax_arrays

    auto = jax.make_mesh(
        (8,), ("all",), axis_types=(jax.sharding.AxisType.Auto,)
    )
    unconstrained = NamedSharding(auto, P(P.UNCONSTRAINED))
    assert _jax_arrays.sharding_json(unconstrained) is None
    array = put(mesh, values(), "data")
    leaf = _jax_arrays.array_leaf(array, write_sharding=False)
    built = _engine.build_tree({"a": leaf}, adapt=lambda *_: None)
    _engine.save(str(ckpt), built)
    assert not (ckpt / "_sharding").exists()
    np.testing.assert_array_equal(holdfast.load(ckpt)["a"], values())


def test_deleted_and_traced_arrays_are_refused(ckpt: Path) -> None:
    gone = jnp.ones(3)
    gone.delete()
    with pytest.raises(errors.DeletedArrayError, match=r'deleted.*"p\.w"'):
        holdfast.save(ckpt, {"p": {"w": gone}})

    def traced(x: Any) -> Any:
        holdfast.save(ckpt, {"p": {"w": x}})
        return x

    with pytest.raises(errors.InvalidArgumentError, match=r"'p\.w'.*traced"):
        jax.jit(traced)(jnp.ones(3))
    with pytest.raises(errors.InvalidArgumentError, match=r"'a'"):
        holdfast.save(ckpt, {"a": jax.ShapeDtypeStruct((3,), np.float32)})


def test_zero_copy_both_ways(ckpt: Path) -> None:
    array = jnp.arange(1 << 20, dtype=jnp.float32)
    from holdfast import _jax_arrays

    host = np.asarray(array)
    assert host.ctypes.data == array.unsafe_buffer_pointer()
    placement = _jax_arrays.placement((1 << 20,), np.float32, None)
    (buffer,) = placement.buffers.values()
    buffer.array[...] = host
    _jax_arrays.put_all([placement])
    got = placement.finish()
    assert got.unsafe_buffer_pointer() == buffer.array.ctypes.data


def test_devices_with_the_same_part_share_one_buffer(mesh: Any) -> None:
    from holdfast import _jax_arrays

    sharding = NamedSharding(mesh, P("data"))
    placement = _jax_arrays.placement((16, 8), np.float32, sharding)
    assert len(placement.boxes) == 8 and len(placement.buffers) == 4


def test_immutable_arrays_are_not_copied_in_background(ckpt: Path) -> None:
    tree = {"j": jnp.ones(1000, jnp.float32), "n": np.ones(10, np.float32)}
    stats = holdfast.save(ckpt, tree, background=True).result()
    assert stats.copied_bytes == 40


def test_donation_after_a_background_save(ckpt: Path) -> None:
    state = {"w": jnp.arange(1 << 18, dtype=jnp.float32)}
    want = np.array(state["w"])
    future = holdfast.save(ckpt, state, background=True)
    step = jax.jit(lambda w: w * 0 - 1, donate_argnums=0)
    state["w"] = step(state["w"])
    future.result()
    np.testing.assert_array_equal(holdfast.load(ckpt)["w"], want)


# Containers.


def test_registered_classes(ckpt: Path) -> None:
    class WithKeys:
        def __init__(self, a: Any, b: Any) -> None:
            self.a, self.b = a, b

    class Positions:
        def __init__(self, *parts: Any) -> None:
            self.parts = parts

    class Data:
        pass

    jax.tree_util.register_pytree_with_keys(
        WithKeys,
        lambda w: (
            (
                (jax.tree_util.GetAttrKey("b"), w.b),
                (jax.tree_util.GetAttrKey("a"), w.a),
            ),
            None,
        ),
        lambda _, children: WithKeys(children[1], children[0]),
    )
    jax.tree_util.register_pytree_node(
        Positions, lambda p: (p.parts, None), lambda _, c: Positions(*c)
    )

    @jax.tree_util.register_dataclass
    @dataclasses.dataclass
    class Registered:
        z: Any
        a: Any
        static: str = dataclasses.field(default="s", metadata={"static": True})

    tree = {
        "k": WithKeys(jnp.ones(1), {"x": jnp.ones(2)}),
        "p": Positions(jnp.ones(3), None, jnp.ones(4)),
        "r": Registered(jnp.ones(5), jnp.ones(6)),
    }
    holdfast.save(ckpt, tree)
    record = json.loads((ckpt / "_METADATA").read_text())["tree_metadata"]
    assert list(record) == [
        "('k', 'b', 'x')",
        "('k', 'a')",
        "('p', '0')",
        "('p', '1')",
        "('p', '2')",
        "('r', 'z')",
        "('r', 'a')",
    ]
    kinds = [key["key_type"] for key in record["('p', '0')"]["key_metadata"]]
    assert kinds == [2, 1]
    got = holdfast.load(ckpt, tree)
    assert_same_tree(got, tree)
    assert got["r"].static == "s"
    plain = holdfast.load(ckpt)
    assert set(plain["r"]) == {"z", "a"} and plain["p"][1] is None


def test_flax_and_optax(ckpt: Path, mesh: Any) -> None:
    optax = pytest.importorskip("optax")
    train_state = pytest.importorskip("flax.training.train_state")
    frozen = pytest.importorskip("flax.core").freeze

    params = frozen({"w": put(mesh, values(), "data"), "b": jnp.ones(8)})
    tx = optax.chain(optax.clip(1.0), optax.adamw(1e-3))
    state = train_state.TrainState.create(apply_fn=len, params=params, tx=tx)
    holdfast.save(ckpt, state)
    got = holdfast.load(ckpt, state)
    assert type(got) is type(state) and got.tx is tx
    assert_same_tree(got.params, state.params)
    assert_same_tree(got.opt_state, state.opt_state)
    assert got.step == 0 and type(got.step) is int
    plain = holdfast.load(ckpt)
    np.testing.assert_array_equal(plain["params"]["w"], values())


def test_equinox(ckpt: Path) -> None:
    eqx = pytest.importorskip("equinox")
    model = eqx.nn.Linear(3, 4, key=jax.random.key(0))
    holdfast.save(ckpt, {"model": model})
    empty = eqx.nn.Linear(3, 4, key=jax.random.key(1))
    got = holdfast.load(ckpt, {"model": empty})["model"]
    assert isinstance(got, eqx.nn.Linear)
    assert_same_tree(got, model)


def test_a_tree_that_orbax_wrote(ckpt: Path, mesh: Any) -> None:
    ocp = pytest.importorskip("orbax.checkpoint")
    tree = {"a": put(mesh, values(), "data", "model"), "n": np.ones(3)}
    with ocp.PyTreeCheckpointer() as checkpointer:
        checkpointer.save(ckpt, tree)
    got = holdfast.load(ckpt, tree)
    assert_same_array(got["a"], tree["a"])
    np.testing.assert_array_equal(got["n"], tree["n"])


def test_load_as_jax_arrays_without_a_target(tmp_path: Path) -> None:
    holdfast.save(tmp_path / "c", {"w": jnp.arange(6.0), "n": [1, None]})
    loaded = holdfast.load(tmp_path / "c", arrays="jax")
    assert isinstance(loaded["w"], jax.Array)
    assert loaded["w"].tolist() == [0, 1, 2, 3, 4, 5]
    assert loaded["n"] == [1, None]


def test_load_as_jax_arrays_never_narrows(tmp_path: Path) -> None:
    if jax.config.jax_enable_x64:
        pytest.skip("64-bit types are enabled")
    holdfast.save(tmp_path / "c", {"w": np.ones(2, np.float64)})
    with pytest.raises(errors.InvalidArgumentError, match="jax_enable_x64"):
        holdfast.load(tmp_path / "c", arrays="jax")


def test_the_shapes_of_a_state_with_numbers(ckpt: Path) -> None:
    state = {
        "step": 7,
        "lr": 0.1,
        "done": True,
        "w": jnp.ones((2, 3)),
        "narrow": np.float32(2.5),
    }
    target = jax.eval_shape(lambda: state)
    assert target["step"].dtype == "int32" and target["lr"].dtype == "float32"
    holdfast.save(ckpt, state)
    got = holdfast.load(ckpt, target)
    for name, leaf in target.items():
        assert isinstance(got[name], jax.Array), name
        assert (got[name].shape, got[name].dtype) == (leaf.shape, leaf.dtype)
        np.testing.assert_array_equal(
            got[name], np.asarray(state[name], leaf.dtype)
        )
    mesh = jax.sharding.Mesh(jax.devices(), "x")
    everywhere = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    step = jax.ShapeDtypeStruct((), jnp.int32, sharding=everywhere)
    got = holdfast.load(ckpt, {"step": step}, select=["step"])["step"]
    assert got.sharding == everywhere and int(got) == 7
    for name, dtype in (("step", "float32"), ("lr", "int32"), ("done", "int8")):
        with pytest.raises(errors.InvalidArgumentError, match=f"{name}.*dtype"):
            wrong = jax.ShapeDtypeStruct((), dtype)
            holdfast.load(ckpt, {name: wrong}, select=[name])
    # An array's width is fixed, unlike a Python number's.
    with pytest.raises(errors.InvalidArgumentError, match="w.*dtype"):
        wrong = jax.ShapeDtypeStruct((2, 3), "bfloat16")
        holdfast.load(ckpt, {"w": wrong}, select=["w"])


def test_a_number_that_does_not_fit_is_refused(ckpt: Path) -> None:
    holdfast.save(ckpt, {"n": 2**40, "m": -1})
    with pytest.raises(errors.InvalidArgumentError, match=r"'n'.*int32"):
        holdfast.load(
            ckpt, {"n": jax.ShapeDtypeStruct((), "int32")}, select=["n"]
        )
    with pytest.raises(errors.InvalidArgumentError, match=r"'m'.*uint8"):
        holdfast.load(
            ckpt, {"m": jax.ShapeDtypeStruct((), "uint8")}, select=["m"]
        )


def test_the_shapes_of_a_state_with_numbers_as_in_orbax(ckpt: Path) -> None:
    ocp = pytest.importorskip("orbax.checkpoint")
    state = {"step": 7, "lr": 0.1, "done": True, "w": jnp.ones((2, 3))}
    target = jax.eval_shape(lambda: state)
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(ckpt, state)
        checkpointer.wait_until_finished()
        want = checkpointer.restore(ckpt, target)
    got = holdfast.load(ckpt, target)
    for name in state:
        assert got[name].dtype == want[name].dtype, name
        np.testing.assert_array_equal(got[name], want[name])


def _save_plainly(path: Path, tree: Any) -> None:
    holdfast.save(path, tree)


def _save_in_background(path: Path, tree: Any) -> None:
    holdfast.save(path, tree, background=True).result()


def _save_in_a_group(path: Path, tree: Any) -> None:
    (group,) = thread_ranks.groups_of(1)
    holdfast.save(path, tree, group=group)


def _save_with_orbax(path: Path, tree: Any) -> None:
    holdfast.orbax.StandardCheckpointer().save(path, tree)


def _check_replicas(path: Path, tree: Any) -> None:
    holdfast.check_replicas(tree)


def _fingerprint(path: Path, tree: Any) -> None:
    holdfast.fingerprint(tree)


@pytest.mark.parametrize(
    "call",
    [
        _save_plainly,
        _save_in_background,
        _save_in_a_group,
        _save_with_orbax,
        _check_replicas,
        _fingerprint,
    ],
)
def test_no_call_leaves_a_host_copy_in_an_array(
    mesh: Any, tmp_path: Path, call: Any
) -> None:
    tree = {
        "sharded": put(mesh, values(), "data", "model"),
        "replicated": put(mesh, values()),
        "single": jnp.asarray(values()),
    }
    for array in tree.values():
        assert array._npy_value is None, "the attribute that jax caches in"

    call(tmp_path / "7", tree)

    for name, array in tree.items():
        assert array._npy_value is None, name
        for shard in array.addressable_shards:
            assert shard.data._npy_value is None, name
