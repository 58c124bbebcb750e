"""Files of torch.save opened by their paths, as any other checkpoint is."""

from __future__ import annotations

import collections
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import holdfast
from holdfast import errors

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
    """As holdfast gives it: tuples are lists, dicts are plain."""
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
        holdfast.load(path, keys=["other"])


def test_a_load_into_a_target(tmp_path: Path) -> None:
    state, path = training_state(), tmp_path / "a.pt"
    torch.save(state, path)
    target = {
        "model": {
            name: torch.zeros_like(each)
            for name, each in state["model"].items()
        }
    }
    got = holdfast.load(path, target, keys=["model"])
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
    # Without the check a slice needs no other byte.
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
    aimed = holdfast.load(tmp_path / "a.pt", target, keys=["both", "x"])
    assert aimed["both"] == state["both"]
    again = holdfast.load(tmp_path / "o")
    assert again["both"] == state["both"] and again["set"] == {1, 2}


class Runs:
    def __reduce__(self) -> Any:
        return os.system, ("touch /tmp/holdfast-was-run",)


def test_nothing_is_run(tmp_path: Path) -> None:
    torch.save({"w": torch.ones(2), "bad": Runs()}, tmp_path / "a.pt")
    for call in (holdfast.load, holdfast.open, holdfast.verify):
        with pytest.raises(PermissionError, match=r"system.*does not run"):
            call(tmp_path / "a.pt")
    assert not Path("/tmp/holdfast-was-run").exists()


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
    # The pickle says more than the storage has.
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
    with pytest.raises(errors.DataLossError, match="nested deeper"):
        holdfast.open(tmp_path / "circle.pt")


def test_tensors_that_cannot_be_read_leave_the_others(tmp_path: Path) -> None:
    conjugate = torch.conj(torch.ones(2, dtype=torch.complex64) * 1j)
    torch.save({"c": conjugate, "w": torch.ones(2)}, tmp_path / "a.pt")
    opened = holdfast.open(tmp_path / "a.pt")
    np.testing.assert_array_equal(opened["w"][:], np.ones(2))
    with pytest.raises(NotImplementedError, match="leaf c: .*conj"):
        opened["c"][:]
    torch.save({"s": torch.eye(3).to_sparse()}, tmp_path / "b.pt")
    with pytest.raises(PermissionError, match="_rebuild_sparse_tensor"):
        holdfast.open(tmp_path / "b.pt")
