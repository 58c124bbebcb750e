"""Saves and restores arrays on an accelerator through every interface.

Needs a CUDA device, jax and torch with CUDA support, and orbax-checkpoint.
Tests are skipped where their requirement is missing. `scripts/test-long
accelerator` runs this file.
"""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest

import holdfast
import holdfast.orbax as ocp

jax = pytest.importorskip("jax")
jnp = pytest.importorskip("jax.numpy")
DEVICES = [d for d in jax.devices() if d.platform == "gpu"]
needs_gpu = pytest.mark.skipif(not DEVICES, reason="jax sees no accelerator")

DTYPES = [
    "float32",
    "bfloat16",
    "float16",
    "int8",
    "int32",
    "uint8",
    "bool",
    "complex64",
    "float8_e4m3fn",
    "float8_e5m2",
]


def _tree() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    tree: dict[str, Any] = {}
    for name in DTYPES:
        values = rng.standard_normal((33, 17)) * 3
        if name == "complex64":
            values = values + 1j
        tree[name] = jax.device_put(
            jnp.asarray(values).astype(name), DEVICES[0]
        )
    tree["scalar"] = jax.device_put(jnp.float32(2.5), DEVICES[0])
    tree["large"] = jax.device_put(
        rng.standard_normal((1024, 4096)).astype("f4"), DEVICES[0]
    )
    tree["nested"] = {"key": jax.random.key(7), "none": None, "step": 3}
    return tree


def _same(got: Any, want: Any) -> None:
    paths = jax.tree_util.tree_leaves_with_path(want)
    others = jax.tree_util.tree_leaves(got)
    assert len(paths) == len(others)
    for (path, a), b in zip(paths, others, strict=True):
        if isinstance(a, jax.Array) and jax.dtypes.issubdtype(
            a.dtype, jax.dtypes.prng_key
        ):
            a, b = jax.random.key_data(a), jax.random.key_data(b)
        x, y = np.asarray(a), np.asarray(b)
        assert x.dtype == y.dtype, path
        assert x.tobytes() == y.tobytes(), path


def _all_on(tree: Any, device: Any) -> None:
    for leaf in jax.tree_util.tree_leaves(tree):
        if isinstance(leaf, jax.Array):
            assert leaf.devices() == {device}


@needs_gpu
@pytest.mark.parametrize("compression", ["planes", "zstd", "fast", None])
def test_save_and_load(tmp_path: pathlib.Path, compression: Any) -> None:
    tree = _tree()
    holdfast.save(tmp_path / "c", tree, compression=compression)
    got = holdfast.load(tmp_path / "c", tree)
    _same(got, tree)
    _all_on(got, DEVICES[0])


@needs_gpu
def test_drop_in_and_orbax_read_each_other(tmp_path: pathlib.Path) -> None:
    real = pytest.importorskip("orbax.checkpoint")
    tree = _tree()
    del tree["nested"]
    sharding = jax.sharding.SingleDeviceSharding(DEVICES[0])

    def args_of(module: Any) -> Any:
        return jax.tree.map(
            lambda x: module.ArrayRestoreArgs(sharding=sharding), tree
        )

    ocp.PyTreeCheckpointer().save(tmp_path / "ours", tree)
    got = real.PyTreeCheckpointer().restore(
        tmp_path / "ours", restore_args=args_of(real)
    )
    _same(got, tree)
    real.PyTreeCheckpointer().save(tmp_path / "theirs", tree)
    got = ocp.PyTreeCheckpointer().restore(
        tmp_path / "theirs", restore_args=args_of(ocp)
    )
    _same(got, tree)
    _all_on(got, DEVICES[0])


@needs_gpu
def test_mesh_and_memory_kinds(tmp_path: pathlib.Path) -> None:
    mesh = jax.sharding.Mesh(np.array(DEVICES[:1]), ("x",))
    spec = jax.sharding.PartitionSpec("x")
    for kind in ("device", "pinned_host"):
        sharding = jax.sharding.NamedSharding(mesh, spec, memory_kind=kind)
        tree = {"w": jax.device_put(np.arange(4096, dtype="f4"), sharding)}
        path = tmp_path / kind
        holdfast.save(path, tree)
        got = holdfast.load(path, tree)
        _same(got, tree)
        assert got["w"].sharding == sharding
        assert got["w"].sharding.memory_kind == kind


@needs_gpu
def test_donated_after_an_async_save(tmp_path: pathlib.Path) -> None:
    """A training step that reuses the arrays' memory during an asynchronous
    save does not change what is saved."""

    @jax.jit
    def zeros(x: Any) -> Any:
        return x * 0

    step = jax.jit(lambda x: x * 0 - 1, donate_argnums=0)
    with ocp.CheckpointManager(
        tmp_path / "run",
        options=ocp.CheckpointManagerOptions(
            max_to_keep=2, enable_async_checkpointing=True
        ),
    ) as manager:
        for number in range(4):
            x = jax.device_put(
                np.full((2048, 2048), number, "f4"), DEVICES[0]
            )
            manager.save(number, args=ocp.args.StandardSave({"x": x}))
            x = step(x)
            x.block_until_ready()
        manager.wait_until_finished()
        assert manager.all_steps() == [2, 3]
        for number in (2, 3):
            got = manager.restore(number)
            assert np.asarray(got["x"]).min() == number
            assert np.asarray(got["x"]).max() == number


@needs_gpu
def test_v1_save_and_load(tmp_path: pathlib.Path) -> None:
    from holdfast.orbax import v1

    tree = _tree()
    del tree["nested"]
    v1.save_pytree(tmp_path / "c", tree)
    got = v1.load_pytree(tmp_path / "c", tree)
    _same(got, tree)
    _all_on(got, DEVICES[0])
    handle = v1.save_pytree_async(tmp_path / "d", tree)
    handle.result()
    _same(v1.load_pytree(tmp_path / "d", tree), tree)


torch = pytest.importorskip("torch")
needs_cuda = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="torch sees no accelerator"
)


def _state() -> dict[str, Any]:
    generator = torch.Generator().manual_seed(0)
    base = torch.randn((257, 129), generator=generator)
    state = {
        str(dtype).split(".")[-1]: base.to(dtype).cuda()
        for dtype in (
            torch.float32,
            torch.bfloat16,
            torch.float16,
            torch.int64,
            torch.float8_e4m3fn,
            torch.bool,
            torch.complex64,
        )
    }
    state["transposed"] = base.cuda().t()
    state["strided"] = base.cuda()[::2, 1::3]
    state["pinned"] = base.clone().pin_memory()
    state["host"] = base.clone()
    return state


def _same_tensors(got: dict[str, Any], want: dict[str, Any]) -> None:
    assert got.keys() == want.keys()
    for name, tensor in want.items():
        a = tensor.cpu().contiguous().view(-1).view(torch.uint8)
        b = got[name].cpu().contiguous().view(-1).view(torch.uint8)
        assert got[name].dtype == tensor.dtype, name
        assert got[name].shape == tensor.shape, name
        assert torch.equal(a, b), name


@needs_cuda
def test_torch_save_and_load_in_place(tmp_path: pathlib.Path) -> None:
    state = _state()
    holdfast.save(tmp_path / "c", state)
    target = {
        name: torch.zeros_like(tensor) for name, tensor in state.items()
    }
    got = holdfast.load(tmp_path / "c", target)
    _same_tensors(got, state)
    for name, tensor in state.items():
        assert got[name].device == tensor.device, name


@needs_cuda
def test_torch_dcp(tmp_path: pathlib.Path) -> None:
    import torch.distributed.checkpoint as dcp

    import holdfast.torch as storage

    state = _state()
    dcp.save(
        dict(state), storage_writer=storage.StorageWriter(tmp_path / "c")
    )
    target = {
        name: torch.zeros_like(tensor) for name, tensor in state.items()
    }
    dcp.load(target, storage_reader=storage.StorageReader(tmp_path / "c"))
    _same_tensors(target, state)


@needs_cuda
def test_torch_module_and_optimizer(tmp_path: pathlib.Path) -> None:
    model = torch.nn.Sequential(
        torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 8)
    ).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.randn(5, 64, device="cuda")).sum().backward()
    optimizer.step()
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    holdfast.save(tmp_path / "c", state)
    got = holdfast.load(tmp_path / "c", state)
    _same_tensors(got["model"], state["model"])
    other = torch.optim.AdamW(model.parameters())
    other.load_state_dict(got["optimizer"])
    assert len(other.state_dict()["state"]) == 4
