"""Kinds of arrays, memory, and Megatron Core's own objects."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from shards import cut, request, saved, table

from holdfast import megatron
from holdfast.megatron import mapping
from holdfast.megatron.strategies import zarr
from holdfast.megatron.strategies.tensorstore import (
    TensorStoreLoadShardedStrategy,
)


def test_torch_tensors_keep_their_bits(ckpt: Path) -> None:
    torch = pytest.importorskip("torch")
    ckpt.mkdir()
    bits = torch.arange(-(2**15), 2**15, dtype=torch.int16)
    every = bits.view(torch.bfloat16)  # includes NaNs with all payloads

    megatron.save(
        {"w": megatron.ShardedTensor.from_rank_offsets("w", every)}, ckpt
    )
    loaded = megatron.load_plain_tensors(ckpt)["w"]

    assert loaded.dtype == torch.bfloat16
    assert torch.equal(loaded.view(torch.int16), bits)


def test_any_strides_are_saved(ckpt: Path) -> None:
    ckpt.mkdir()
    whole = table()

    megatron.save({"w": cut("w", whole.T[::-1, ::2], 0, 1)}, ckpt)

    loaded = megatron.load({"w": request(shape=(6, 4))}, ckpt)["w"]
    np.testing.assert_array_equal(loaded, whole.T[::-1, ::2])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_buffers_are_filled_where_they_lie(ckpt: Path, dtype: str) -> None:
    whole = saved(ckpt)
    buffer = np.zeros((4, 6), dtype)
    asked = cut("w", np.zeros((8, 6), dtype), 1, 2)
    asked.data = buffer

    state = megatron.load(
        {"w": asked},
        ckpt,
        TensorStoreLoadShardedStrategy(load_directly_on_device=True),
        validate_access_integrity=False,
    )

    assert state["w"] is buffer
    np.testing.assert_array_equal(buffer, whole[4:])


def test_scalars_are_stored_when_asked_for(ckpt: Path) -> None:
    ckpt.mkdir()
    scalar = np.array(2.5, np.float32)

    megatron.save(
        {"s": megatron.ShardedTensor.from_rank_offsets("s", scalar)},
        ckpt,
        megatron.ZarrSaveShardedStrategy("zarr", 1, scalars=True),
    )

    assert (ckpt / "s" / "0").read_bytes() == scalar.tobytes()
    loaded = megatron.load({"s": request("s", ())}, ckpt)["s"]
    assert loaded.shape == () and loaded == 2.5


def test_arrays_can_be_opened_and_sliced(ckpt: Path) -> None:
    whole = saved(ckpt)

    array = zarr._open_zarr_array_verbose(ckpt / "w", "r")

    assert (array.shape, array.chunks) == ((8, 6), (4, 6))
    assert array.dtype == np.dtype("float32")
    for selection in ((), 3, (slice(2, 7), 4), (..., slice(1, 3)), (-1, -1)):
        np.testing.assert_array_equal(array[selection], whole[selection])


def test_arrays_created_and_written_one_by_one(ckpt: Path) -> None:
    ckpt.mkdir()
    whole = table()
    parts = [cut("w", whole, rank, 2) for rank in range(2)]
    copy = cut("w", whole, 0, 2, replica_id=1)

    arrays = zarr._create_or_open_zarr_arrays([*parts, copy], ckpt)
    for part, array in zip([*parts, copy], arrays, strict=True):
        zarr._save_to_existing_array(part, array)

    assert arrays[2] is None
    loaded = zarr._load_from_array(request(), ckpt)
    np.testing.assert_array_equal(loaded, whole)


def test_a_load_holds_no_second_copy(ckpt: Path, run_python: Any) -> None:
    program = """
import resource, sys
import numpy as np
sys.modules["torch"] = None
from holdfast import megatron
path, operation = sys.argv[1:]
shape = (4096, 4096)  # 64 MiB
if operation == "save":
    whole = np.ones(shape, np.float32)
    state = {"w": megatron.ShardedTensor.from_rank_offsets("w", whole)}
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    megatron.save(state, path)
    extra = 0
else:
    megatron.load_common_state_dict(path)
    state = megatron.load_tensors_metadata(path)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    megatron.load(state, path)
    extra = 64
added = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
assert added < extra + 32, added
"""
    ckpt.mkdir()
    run_python(program, ckpt, "save")
    run_python(program, ckpt, "load")


def test_objects_of_megatron_core_are_taken(
    ckpt: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Objects are accepted if their class has the attributes, and the module
    name, of Megatron Core's class."""
    name = "megatron.core.dist_checkpointing.mapping"
    module = types.ModuleType(name)
    for each in (
        "ShardedBase",
        "ShardedTensor",
        "ShardedObject",
        "ShardedTensorFactory",
        "LocalNonpersistentObject",
    ):
        copied = dict(vars(getattr(mapping, each)))
        for slot in ("__dict__", "__weakref__", "_abc_impl"):
            copied.pop(slot, None)
        setattr(module, each, type(each, (), copied))
    monkeypatch.setitem(sys.modules, name, module)
    ckpt.mkdir()
    whole = table()

    def theirs(data: Any) -> Any:
        made = module.ShardedTensor.__new__(module.ShardedTensor)
        vars(made).update(vars(cut("w", whole, 0, 1)))
        made.data = data
        made.without_data = lambda: request()
        return made

    local = module.LocalNonpersistentObject("mine")
    megatron.save({"w": theirs(whole), "local": local}, ckpt)
    state = megatron.load({"w": theirs(None), "local": local}, ckpt)

    np.testing.assert_array_equal(state["w"], whole)
    assert state["local"] == "mine"
