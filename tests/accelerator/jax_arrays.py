"""Saves and loads of jax arrays on the devices that jax sees."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from checking import Context, check
from jax.sharding import NamedSharding, PartitionSpec, SingleDeviceSharding

import holdfast
from holdfast import errors

DTYPES = (
    "float32 bfloat16 float16 int8 int16 int32 uint8 uint16 uint32 bool"
    " complex64 float8_e4m3fn float8_e5m2 int4"
).split()
MODES: tuple[Any, ...] = ("auto", "device", "host")


def _numbers(shape: tuple[int, ...], dtype: str, seed: int = 0) -> Any:
    values = np.random.default_rng(seed).standard_normal(shape) * 3
    return jnp.asarray(values).astype(dtype)


def _tree() -> dict[str, Any]:
    tree: dict[str, Any] = {name: _numbers((33, 17), name) for name in DTYPES}
    tree["scalar"] = jnp.float32(2.5)
    tree["large"] = _numbers((1024, 4096), "float32")
    tree["nested"] = {"key": jax.random.key(7), "none": None, "step": 3}
    return tree


def _same(got: Any, want: Any) -> None:
    leaves = jax.tree_util.tree_leaves_with_path(want)
    others = jax.tree_util.tree_leaves(got)
    assert len(leaves) == len(others)
    for (path, a), b in zip(leaves, others, strict=True):
        if isinstance(a, jax.Array) and jax.dtypes.issubdtype(
            a.dtype, jax.dtypes.prng_key
        ):
            a, b = jax.random.key_data(a), jax.random.key_data(b)
        x, y = np.asarray(a), np.asarray(b)
        assert x.dtype == y.dtype and x.shape == y.shape, path
        assert x.tobytes() == y.tobytes(), path


def _same_place(got: Any, want: Any) -> None:
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        if isinstance(b, jax.Array):
            assert a.sharding.is_equivalent_to(b.sharding, b.ndim), a.sharding
            assert a.sharding.memory_kind == b.sharding.memory_kind


def _meshes() -> dict[str, Any]:
    devices = np.array(jax.devices())
    meshes = {"row": jax.sharding.Mesh(devices, ("x",))}
    if len(devices) % 2 == 0:
        meshes["square"] = jax.sharding.Mesh(devices.reshape(2, -1), ("x", "y"))
    return meshes


def _shardings() -> dict[str, Any]:
    shardings: dict[str, Any] = {
        "single": SingleDeviceSharding(jax.devices()[-1])
    }
    for name, mesh in _meshes().items():
        specs = [(), ("x",), (None, "x")]
        if "y" in mesh.axis_names:
            specs += [("x", "y"), (("x", "y"),), ("y",)]
        for spec in specs:
            shardings[f"{name} {spec}"] = NamedSharding(
                mesh, PartitionSpec(*spec)
            )
    return shardings


@check()
def sees_the_gpu(ctx: Context) -> None:
    """jax's default device is a GPU."""
    ctx.needs_gpu()
    assert jax.devices()[0].platform == "gpu", jax.devices()


@check()
def dtypes(ctx: Context) -> None:
    """Every dtype and typed keys, in every compression, back on the device."""
    tree = _tree()
    for compression in ("planes", "zstd", "fast", None):
        path = ctx.scratch / str(compression)
        holdfast.save(path, tree, compression=compression)  # type: ignore[arg-type]
        got = holdfast.load(path, tree)
        _same(got, tree)
        _same_place(got, tree)


@check(env={"JAX_ENABLE_X64": "1"})
def wide_dtypes(ctx: Context) -> None:
    """Dtypes of 64 bits per number."""
    names = ("float64", "int64", "uint64", "complex128")
    tree = {name: _numbers((65, 43), name) for name in names}
    holdfast.save(ctx.scratch / "c", tree)
    _same(holdfast.load(ctx.scratch / "c", tree), tree)


@check()
def files_are_those_of_the_host(ctx: Context) -> None:
    """The stored values are those of the same arrays in host memory."""
    tree = _tree()
    host = jax.tree.map(
        lambda x: (
            np.asarray(x)
            if isinstance(x, jax.Array)
            and not jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key)
            else x
        ),
        tree,
    )
    holdfast.save(ctx.scratch / "device", tree)
    holdfast.save(ctx.scratch / "host", host)
    mine = holdfast.digest(ctx.scratch / "device")
    assert mine == holdfast.digest(ctx.scratch / "host")


@check()
def shardings(ctx: Context) -> None:
    """Arrays over all devices, in every sharding, back in every other one."""
    sources = {
        name: jax.device_put(_numbers((64, 128), "bfloat16", i), sharding)
        for i, (name, sharding) in enumerate(_shardings().items())
    }
    holdfast.save(ctx.scratch / "c", sources)
    for sharding in _shardings().values():
        target = {
            name: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding)
            for name, x in sources.items()
        }
        got = holdfast.load(ctx.scratch / "c", target)
        _same(got, sources)
        for x in got.values():
            assert x.sharding.is_equivalent_to(sharding, x.ndim), x.sharding


@check()
def replicas(ctx: Context) -> None:
    """Replicas on all devices are compared, saved once and restored."""
    sharding = NamedSharding(_meshes()["row"], PartitionSpec())
    tree = {"x": jax.device_put(_numbers((256, 128), "float32"), sharding)}
    holdfast.save(ctx.scratch / "c", tree, check_replicas=True)
    got = holdfast.load(ctx.scratch / "c", tree)
    _same(got, tree)
    _same_place(got, tree)


@check()
def memory_kinds(ctx: Context) -> None:
    """Arrays in the device's memory and in pinned host memory."""
    for kind in ("device", "pinned_host"):
        sharding = NamedSharding(
            _meshes()["row"], PartitionSpec("x"), memory_kind=kind
        )
        tree = {"w": jax.device_put(np.arange(4096, dtype="f4"), sharding)}
        holdfast.save(ctx.scratch / kind, tree)
        got = holdfast.load(ctx.scratch / kind, tree)
        _same(got, tree)
        assert got["w"].sharding == sharding


@check()
def computed_just_before(ctx: Context) -> None:
    """A save stores what jax has not finished computing."""
    size = 64 if ctx.pretend else 4096

    @jax.jit
    def long(x: Any) -> Any:
        return jax.lax.fori_loop(0, 30, lambda _, y: y @ x / size, x) * 0 + 5

    x = long(jnp.ones((size, size)))
    holdfast.save(ctx.scratch / "c", {"x": x})
    got = holdfast.load(ctx.scratch / "c")["x"]
    assert (got.min(), got.max()) == (5, 5)


@check(seconds=120)
def donated_during_a_save(ctx: Context) -> None:
    """An array that a step gets as a donated argument during a background save
    is saved as it was, or the save says that it was deleted."""
    size = 64 if ctx.pretend else 4096
    step = jax.jit(lambda x: x * 0 - 1, donate_argnums=0)
    for mode in MODES:
        for dtype in ("float32", "bfloat16", "float8_e4m3fn", "complex64"):
            path = ctx.scratch / f"{mode}-{dtype}"
            x = jnp.full((size, size), 3, dtype)
            future = holdfast.save(
                path, {"x": x}, background=True, snapshot=mode
            )
            x = step(x)
            x.block_until_ready()
            try:
                future.result()
            except errors.DeletedArrayError:
                assert mode == "auto", mode
                assert not path.exists()
                continue
            got = holdfast.load(path)["x"]
            assert set(got.reshape(-1).astype("complex64")) == {3}, (
                mode,
                dtype,
            )


@check()
def deleted_before_a_save(ctx: Context) -> None:
    """A deleted array is refused."""
    x = jnp.ones((300, 300))
    x.delete()
    error = _error_of(lambda: holdfast.save(ctx.scratch / "c", {"x": x}))
    assert isinstance(error, (errors.HoldfastError, RuntimeError)), repr(error)
    assert "delete" in str(error), error


def _error_of(function: Any) -> Exception:
    try:
        function()
    except Exception as error:
        return error
    raise AssertionError("no error was raised")


@check()
def damaged_files(ctx: Context) -> None:
    """Damage is reported in the same words as for numpy arrays."""
    tree = _tree()
    path = ctx.scratch / "c"
    holdfast.save(path, tree, compression=None)
    files = [file for file in path.rglob("*") if file.is_file()]
    largest = max(files, key=lambda file: file.stat().st_size)
    data = bytearray(largest.read_bytes())
    data[len(data) // 2] ^= 4
    largest.write_bytes(data)
    want = _error_of(lambda: holdfast.load(path))
    got = _error_of(lambda: holdfast.load(path, tree))
    assert isinstance(want, errors.DataLossError), repr(want)
    assert str(got) == str(want), f"{got} instead of {want}"


@check()
def drop_in_and_orbax(ctx: Context) -> None:
    """The drop-in, v0 and v1, and the real Orbax if it is installed, read each
    other's saves onto the device."""
    import holdfast.orbax as ocp
    from holdfast.orbax import v1

    tree = _tree()
    del tree["nested"]
    sharding = SingleDeviceSharding(jax.devices()[0])
    packages: list[Any] = [ocp]
    try:
        import orbax.checkpoint as real
    except ImportError:
        pass
    else:
        packages.append(real)
        tree.pop("int4")
    for writer in packages:
        path = ctx.scratch / writer.__name__
        writer.PyTreeCheckpointer().save(path, tree)
        for reader in packages:
            arguments = jax.tree.map(
                lambda _, reader=reader: reader.ArrayRestoreArgs(
                    sharding=sharding
                ),
                tree,
            )
            got = reader.PyTreeCheckpointer().restore(
                path, restore_args=arguments
            )
            _same(got, tree)
            _same_place(got, tree)
    v1.save_pytree(ctx.scratch / "v1", tree)
    _same(v1.load_pytree(ctx.scratch / "v1", tree), tree)
    v1.save_pytree_async(ctx.scratch / "v1-async", tree).result()
    _same(v1.load_pytree(ctx.scratch / "v1-async", tree), tree)


@check()
def manager_with_donation(ctx: Context) -> None:
    """A training loop that donates its arrays, with asynchronous saves of the
    drop-in's manager."""
    import holdfast.orbax as ocp

    size = 64 if ctx.pretend else 2048
    step = jax.jit(lambda x: x * 0 - 1, donate_argnums=0)
    options = ocp.CheckpointManagerOptions(
        max_to_keep=2, enable_async_checkpointing=True
    )
    with ocp.CheckpointManager(ctx.scratch / "run", options=options) as manager:
        for number in range(4):
            x = jnp.full((size, size), number, "float32")
            manager.save(number, args=ocp.args.StandardSave({"x": x}))
            step(x).block_until_ready()
        manager.wait_until_finished()
        assert list(manager.all_steps()) == [2, 3]
        for number in (2, 3):
            got = np.asarray(manager.restore(number)["x"])
            assert (got.min(), got.max()) == (number, number)
