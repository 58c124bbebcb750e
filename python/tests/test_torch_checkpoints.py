"""torch.save files, opened by their paths like any other checkpoint."""

from __future__ import annotations

import collections
import functools
import io
import operator
import os
import pickle
import random
import re
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import holdfast
from holdfast import _engine, errors

torch = pytest.importorskip("torch")
pytest.importorskip("ml_dtypes")


def training_state() -> dict[str, Any]:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 40), torch.nn.Linear(40, 2))
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    return {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "epoch": 3,
        "lr": 0.5,
        "name": "run",
        "done": False,
        "nothing": None,
        "shape": (1, 2),
        "empty": {},
        "array": np.arange(6, dtype=np.int16).reshape(2, 3),
        "number": np.float32(1.5),
        "complex": 1 + 2j,
    }


def plain(value: Any) -> Any:
    """Returns the value as holdfast restores it: tuples as lists, and plain
    dicts."""
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value)
    return value


def same(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return (
            isinstance(b, dict)
            and {(type(k), k) for k in a} == {(type(k), k) for k in b}
            and all(same(a[k], b[k]) for k in a)
        )
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, torch.Tensor):
        return bool(a.dtype == b.dtype and torch.equal(a, b))
    return bool(a == b)


@pytest.mark.parametrize("is_old", [False, True])
@pytest.mark.parametrize("name", ["a.pt", "a.pth", "a.bin", "a.ckpt", "a"])
def test_every_call_reads_them(tmp_path: Path, name: str, is_old: bool) -> None:
    state, path = training_state(), tmp_path / name
    torch.save(state, path, _use_new_zipfile_serialization=not is_old)
    got = holdfast.load(path, arrays="torch")
    assert same(plain(state), got)
    opened = holdfast.open(path)
    assert opened.format == "torch"
    np.testing.assert_array_equal(
        opened["model.0.weight"][5:9, 1:], state["model"]["0.weight"][5:9, 1:]
    )
    report = holdfast.verify(path)
    assert report
    assert any("no checksum" in note for note in report.notes) == is_old
    holdfast.convert(path, tmp_path / "orbax", format="orbax")
    assert same(plain(state), holdfast.load(tmp_path / "orbax", arrays="torch"))
    assert holdfast.diff(path, tmp_path / "orbax")
    assert holdfast.digest(path) == holdfast.digest(tmp_path / "orbax")
    stats = {each.name: each for each in holdfast.stats(path).leaves}
    assert stats["model.0.weight"].nan_count == 0
    with pytest.raises(FileNotFoundError):
        holdfast.load(path, select=["other"])


def test_a_load_into_a_target(tmp_path: Path) -> None:
    state, path = training_state(), tmp_path / "a.pt"
    torch.save(state, path)
    target = {
        "model": {
            name: torch.zeros_like(each)
            for name, each in state["model"].items()
        }
    }
    got = holdfast.load(path, target, select=["model"])
    assert same(plain(state["model"]), got["model"])


def test_a_tensor_is_read_where_it_lies(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    torch.save({"a": torch.arange(1000), "b": torch.arange(1000) * 2}, path)
    with zipfile.ZipFile(path) as archive:
        entry = archive.getinfo("a/data/1")
    content = bytearray(path.read_bytes())
    content[entry.header_offset + 200] ^= 1
    path.write_bytes(content)
    opened = holdfast.open(path)
    np.testing.assert_array_equal(opened["a"][:], np.arange(1000))
    with pytest.raises(errors.DataLossError, match=r"leaf b: .*data/1"):
        opened["b"][0:1]
    # Without the check, a slice is read without the other bytes.
    unchecked = holdfast.open(path, verify=False)["b"]
    np.testing.assert_array_equal(unchecked[500:], np.arange(500, 1000) * 2)
    assert not holdfast.verify(path)


def test_a_file_without_checksums(tmp_path: Path) -> None:
    options = torch.serialization
    if not hasattr(options, "set_crc32_options"):
        pytest.skip("torch always writes them")
    options.set_crc32_options(False)
    try:
        torch.save({"w": torch.arange(300)}, tmp_path / "a.pt")
    finally:
        options.set_crc32_options(True)
    got = holdfast.load(tmp_path / "a.pt")["w"]
    np.testing.assert_array_equal(got, np.arange(300))
    report = holdfast.verify(tmp_path / "a.pt")
    assert report and any("no checksum" in note for note in report.notes)


def test_views_of_one_storage(tmp_path: Path) -> None:
    base = torch.arange(24.0).reshape(4, 6)
    state = {
        "whole": base,
        "transposed": base.T,
        "part": base[1:3, ::2],
        "repeated": base[:1].expand(5, 6),
        "parameter": torch.nn.Parameter(base[0]),
        "none": base[:0],
        "number": base[1, 1],
        "half": base.to(torch.bfloat16),
    }
    torch.save(state, tmp_path / "a.pt")
    got = holdfast.load(tmp_path / "a.pt", arrays="torch")
    for name, value in state.items():
        assert torch.equal(got[name], value.detach()), name


@pytest.mark.parametrize("root", [torch.arange(3), [torch.ones(2), 5], 7, {}])
def test_any_root(tmp_path: Path, root: Any) -> None:
    torch.save(root, tmp_path / "a.pt")
    assert same(holdfast.load(tmp_path / "a.pt", arrays="torch"), root)
    assert holdfast.verify(tmp_path / "a.pt")


def test_other_objects_are_leaves_of_their_own(tmp_path: Path) -> None:
    state = {
        "set": {1, 2},
        "pairs": {("a", 1): torch.arange(3)},
        "both": {1: "int", "1": "text"},
        "bools": {True: 1},
        "dtype": torch.float16,
        "counter": collections.Counter({3: 1}),
        "bytes": b"\x00\xff",
        "large": 2**70,
        "x": torch.arange(2),
    }
    torch.save(state, tmp_path / "a.pt")
    got = holdfast.load(tmp_path / "a.pt", arrays="torch")
    assert got["set"] == {1, 2} and got["both"] == state["both"]
    assert got["bools"] == {True: 1} and got["bytes"] == b"\x00\xff"
    assert got["large"] == 2**70 and torch.equal(got["x"], state["x"])
    np.testing.assert_array_equal(got["pairs"][("a", 1)], np.arange(3))
    assert holdfast.verify(tmp_path / "a.pt")
    kinds = {
        leaf.name: leaf.kind for leaf in holdfast.open(tmp_path / "a.pt").leaves
    }
    assert kinds["pairs"] == kinds["both"] == kinds["set"] == "object"
    holdfast.convert(tmp_path / "a.pt", tmp_path / "o", format="orbax")
    target = {"both": 0, "x": torch.zeros(2, dtype=torch.int64)}
    aimed = holdfast.load(tmp_path / "a.pt", target, select=["both", "x"])
    assert aimed["both"] == state["both"]
    again = holdfast.load(tmp_path / "o")
    assert again["both"] == state["both"] and again["set"] == {1, 2}


class Runs:
    def __reduce__(self) -> Any:
        return os.system, ("touch /tmp/holdfast-was-run",)


def test_nothing_is_run(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    torch.save({"w": torch.ones(2), "bad": [Runs()]}, path)
    with pytest.raises(PermissionError, match=r"leaf bad.0: .*does not run"):
        holdfast.load(path)
    # The other leaves can be read.
    opened = holdfast.open(path)
    np.testing.assert_array_equal(opened["w"][:], np.ones(2))
    with pytest.raises(PermissionError, match=r"system.*does not run"):
        opened["bad.0"]
    report = holdfast.verify(path)
    assert not report and not report.damages
    assert [each.leaf for each in report.not_supported] == ["bad.0"]
    assert not Path("/tmp/holdfast-was-run").exists()


def test_what_is_hidden_in_a_pickle_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    torch.save({"w": torch.ones(2)}, path)
    with zipfile.ZipFile(path) as archive:
        members = {each: archive.read(each) for each in archive.namelist()}
    # The pickle first calls `system`, and discards the result.
    acts = b"cos\nsystem\nX\x01\x00\x00\x00x\x85R0"
    name = next(each for each in members if each.endswith("data.pkl"))
    members[name] = members[name][:2] + acts + members[name][2:]
    with zipfile.ZipFile(path, "w") as archive:
        for each, content in members.items():
            archive.writestr(each, content)
    with pytest.raises(PermissionError, match=r"os.system.*does not run"):
        holdfast.open(path)


@pytest.mark.parametrize(
    "value",
    [
        functools.partial(torch.optim.Adam, lr=0.1),
        slice(1, 2),
        range(3),
        re.compile("a"),
        np.random.default_rng(0),
        random.Random(1),
        operator.itemgetter(1),
        print,
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("new", [True, False])
def test_one_value_does_not_block_the_others(
    tmp_path: Path, value: Any, new: bool
) -> None:
    path = tmp_path / "a.pt"
    state = {
        "state_dict": {"w": torch.ones(2, 3)},
        "hyper_parameters": {"x": value, "deep": {"y": [value, 1]}, "lr": 0.5},
    }
    torch.save(state, path, _use_new_zipfile_serialization=new)
    got = holdfast.load(path, select=["state_dict", "hyper_parameters.lr"])
    np.testing.assert_array_equal(got["state_dict"]["w"], np.ones((2, 3)))
    assert got["hyper_parameters"] == {"lr": 0.5}
    holdfast.convert(path, tmp_path / "o", select="state_dict")
    report = holdfast.verify(path)
    bad = ["hyper_parameters.deep.y.0", "hyper_parameters.x"]
    assert not report.damages
    assert [each.leaf for each in report.not_supported] == bad
    with pytest.raises(PermissionError, match="hyper_parameters.x"):
        holdfast.convert(path, tmp_path / "all")


class Labelled(torch.Tensor):
    pass


def test_tensors_with_more_than_elements_are_arrays(tmp_path: Path) -> None:
    plain = torch.arange(6.0).reshape(2, 3)
    flagged = plain.clone()
    flagged._fsdp_flattened = True  # type: ignore[attr-defined]
    parameter = torch.nn.Parameter(plain.clone())
    parameter.partition_dim = 0  # type: ignore[attr-defined]
    labelled = plain.clone().as_subclass(Labelled)
    labelled.label = functools.partial(print)  # type: ignore[attr-defined]
    state = {
        "flagged": flagged,
        "part": flagged[:, 1],
        "parameter": parameter,
        "bare": torch.nn.Parameter(plain.clone()),
        "subclass": labelled,
        "storage": torch.arange(3, dtype=torch.int16).untyped_storage(),
    }
    torch.save(state, tmp_path / "a.pt")
    opened = holdfast.open(tmp_path / "a.pt")
    assert {leaf.kind for leaf in opened.leaves} == {"array"}
    for name in ("flagged", "parameter", "bare", "subclass"):
        np.testing.assert_array_equal(opened[name][:], plain.numpy(), name)
    np.testing.assert_array_equal(opened["part"][:], plain[:, 1].numpy())
    assert opened["storage"][:].tobytes() == b"\0\0\1\0\2\0"
    assert any("functools.partial" in note for note in opened.notes)
    assert holdfast.verify(tmp_path / "a.pt")
    holdfast.convert(tmp_path / "a.pt", tmp_path / "a.safetensors")
    assert holdfast.diff(tmp_path / "a.pt", tmp_path / "a.safetensors").same


def test_other_tensors_are_objects_that_torch_reads(tmp_path: Path) -> None:
    sparse = torch.eye(4).to_sparse()
    state = {
        "dense": torch.ones(2),
        "coo": sparse,
        "csr": torch.eye(4).to_sparse_csr(),
        "meta": torch.ones(2, device="meta"),
        "nested": torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
    }
    torch.save(state, tmp_path / "a.pt")
    kinds = {
        leaf.name: leaf.kind for leaf in holdfast.open(tmp_path / "a.pt").leaves
    }
    assert kinds.pop("dense") == "array"
    assert set(kinds.values()) == {"object"}
    assert holdfast.verify(tmp_path / "a.pt")
    holdfast.convert(tmp_path / "a.pt", tmp_path / "o", format="orbax")
    raw = _engine.Checkpoint(str(tmp_path / "o"))
    names = [leaf.name for leaf in raw.leaves]

    def read(name: str) -> Any:
        content = raw.read(names.index(name))
        return torch.load(io.BytesIO(content), weights_only=True)

    assert torch.equal(read("coo").to_dense(), torch.eye(4))
    assert torch.equal(read("csr").to_dense(), torch.eye(4))
    assert read("meta").shape == (2,)
    assert [each.numel() for each in read("nested").unbind()] == [2, 3]
    got = holdfast.load(tmp_path / "a.pt", arrays="torch")
    assert got["coo"].layout is torch.sparse_coo
    assert got["csr"].layout is torch.sparse_csr
    assert torch.equal(got["coo"].to_dense(), torch.eye(4))
    assert torch.equal(got["csr"].to_dense(), torch.eye(4))
    assert got["meta"].is_meta and got["meta"].shape == (2,)
    assert [each.numel() for each in got["nested"].unbind()] == [2, 3]


def test_tensors_of_devices_without_storages(tmp_path: Path) -> None:
    class OfCpu:
        def __reduce__(self) -> Any:
            return (
                torch._utils._rebuild_device_tensor_from_cpu_tensor,
                (torch.arange(3.0), torch.float32, "xla:0", False),
            )

    class OfNumpy:
        def __reduce__(self) -> Any:
            return (
                torch._utils._rebuild_device_tensor_from_numpy,
                (np.arange(3.0, dtype="f4"), torch.bfloat16, "xla:0", False),
            )

    torch.save({"cpu": OfCpu(), "numpy": OfNumpy()}, tmp_path / "a.pt")
    got = holdfast.load(tmp_path / "a.pt", arrays="torch")
    assert torch.equal(got["cpu"], torch.arange(3.0))
    assert torch.equal(got["numpy"], torch.arange(3.0, dtype=torch.bfloat16))


def test_what_holdfast_lacks_is_said_of_its_leaf(tmp_path: Path) -> None:
    quantized = torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8)
    state = {
        "w": torch.ones(3),
        "half": torch.ones(2, dtype=torch.complex32),
        "conj": torch.ones(2, dtype=torch.complex64).conj(),
        "quantized": quantized,
    }
    for new in (True, False):
        path = tmp_path / f"{new}.pt"
        torch.save(state, path, _use_new_zipfile_serialization=new)
        opened = holdfast.open(path)
        np.testing.assert_array_equal(opened["w"][:], np.ones(3))
        lacking = {leaf.name for leaf in opened.leaves if leaf.dtype is None}
        assert lacking == {"half", "conj", "quantized"}
        report = holdfast.verify(path)
        assert not report and not report.damages
        assert {each.leaf for each in report.not_supported} == lacking
        assert {each.code for each in report.not_supported} == {"UNIMPLEMENTED"}
        assert "3 not supported" in str(report)
        with pytest.raises(NotImplementedError, match="leaf quantized: "):
            opened["quantized"][:]
        holdfast.convert(path, tmp_path / f"{new}", drop=list(lacking))


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 2)
        self.norm = torch.nn.BatchNorm1d(2)
        self.relu = torch.nn.ReLU()
        self.make = functools.partial(torch.optim.Adam, lr=0.1)
        self.register_buffer("cache", torch.ones(5), persistent=False)
        self.register_buffer("nothing", None)


@pytest.mark.parametrize("new", [True, False])
def test_a_whole_module_is_its_state_dict(tmp_path: Path, new: bool) -> None:
    model = torch.nn.Sequential(Block(), torch.nn.ReLU())
    for value, prefix in ((model, ""), ({"m": model, "epoch": 3}, "m.")):
        path = tmp_path / f"{len(prefix)}.pt"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.save(value, path, _use_new_zipfile_serialization=new)
        opened = holdfast.open(path)
        want = {
            prefix + name: each for name, each in model.state_dict().items()
        }
        arrays = [leaf.name for leaf in opened.leaves if leaf.kind == "array"]
        assert arrays == list(want)
        for name, tensor in want.items():
            np.testing.assert_array_equal(opened[name][...], tensor.numpy())
        assert any("is a module" in note for note in opened.notes)
        assert holdfast.verify(path)
        holdfast.convert(path, tmp_path / f"{len(prefix)}.safetensors")
    assert holdfast.load(tmp_path / "2.pt", select="epoch") == {"epoch": 3}


def script_file(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a/data.pkl", pickle.dumps({}))
        archive.writestr("a/constants.pkl", b"")


def damaged(path: Path, change: Any) -> None:
    torch.save({"w": torch.ones(300), "n": 3}, path)
    content = bytearray(path.read_bytes())
    path.write_bytes(change(content))


def test_what_is_wrong_is_said_of_a_torch_file(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    for change in (
        lambda b: b[:-1],
        lambda b: b[: len(b) // 2],
        lambda b: b"",
        lambda b: b"\x00" * 50 + b[50:],
        lambda b: b.replace(b"data.pkl", b"dada.pkl"),
    ):
        damaged(path, change)
        for call in (holdfast.load, holdfast.open):
            with pytest.raises(errors.DataLossError) as caught:
                call(path)
            assert "npy" not in str(caught.value), str(caught.value)
            assert str(path) in str(caught.value)
        assert not holdfast.verify(path)
    # The pickle asks for more elements than the storage has.
    damaged(path, lambda b: b)
    script_file(path)
    with pytest.raises(NotImplementedError, match="TorchScript"):
        holdfast.open(path)
    (tmp_path / "b.bin").write_bytes(path.read_bytes())
    with pytest.raises(NotImplementedError, match="TorchScript"):
        holdfast.open(tmp_path / "b.bin")
    np.savez(tmp_path / "c", **{"x/y": np.ones(2)})
    (tmp_path / "c.npz").rename(tmp_path / "c")
    assert holdfast.open(tmp_path / "c").format == "npz"


def test_an_old_file_that_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    torch.save(
        {"w": torch.ones(300)}, path, _use_new_zipfile_serialization=False
    )
    content = path.read_bytes()
    for size in (20, 100, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:size])
        with pytest.raises(errors.DataLossError):
            holdfast.load(path)


def nested_twice(depth: int) -> Any:
    value: Any = [torch.ones(1)]
    for _ in range(depth):
        value = [value, value]
    return value


def test_values_that_are_shared_again_and_again_are_bounded(
    tmp_path: Path,
) -> None:
    torch.save(nested_twice(5), tmp_path / "small.pt")
    assert len(holdfast.open(tmp_path / "small.pt")) == 32
    torch.save(nested_twice(60), tmp_path / "bomb.pt")
    with pytest.raises(errors.DataLossError, match="again and again"):
        holdfast.open(tmp_path / "bomb.pt")
    circle: list[Any] = []
    circle.append(circle)
    torch.save(circle, tmp_path / "circle.pt")
    with pytest.raises(NotImplementedError, match="leaf 0: .*contains itself"):
        holdfast.load(tmp_path / "circle.pt")
    torch.save({"w": torch.ones(2), "loop": circle}, tmp_path / "beside.pt")
    got = holdfast.load(tmp_path / "beside.pt", select="w")
    np.testing.assert_array_equal(got["w"], np.ones(2))


def test_tensors_that_cannot_be_read_leave_the_others(tmp_path: Path) -> None:
    conjugate = torch.conj(torch.ones(2, dtype=torch.complex64) * 1j)
    torch.save({"c": conjugate, "w": torch.ones(2)}, tmp_path / "a.pt")
    opened = holdfast.open(tmp_path / "a.pt")
    np.testing.assert_array_equal(opened["w"][:], np.ones(2))
    with pytest.raises(NotImplementedError, match="leaf c: .*conj"):
        opened["c"][:]
