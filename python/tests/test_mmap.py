"""Memory mapping: which arrays are mapped from their files, and which are
not."""

from __future__ import annotations

import pathlib
import shutil
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import holdfast

safetensors_numpy = pytest.importorskip("safetensors.numpy")

Arrays = dict[str, np.ndarray[Any, Any]]

_KINDS = [
    "uint8",
    "int8",
    "int16",
    "uint32",
    "int64",
    "float16",
    "float32",
    "float64",
    "complex64",
    "bfloat16",
    "float8_e4m3fn",
]


def _array(kind: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    dtype = np.dtype(getattr(ml_dtypes, kind, kind))
    count = int(np.prod(shape)) * dtype.itemsize
    numbers = np.arange(count) * 7 % 113
    return numbers.astype("u1").view(dtype).reshape(shape)


def _model() -> Arrays:
    """Returns arrays that are too large to be stored in any format's
    metadata."""
    arrays = {f"layer.{kind}": _array(kind, (300, 16)) for kind in _KINDS}
    arrays["cube"] = _array("float32", (5, 30, 40))
    return arrays


def _mapped_file(array: np.ndarray[Any, Any]) -> str:
    """Returns the file that is mapped at the array's memory, or ""."""
    address = array.__array_interface__["data"][0]
    last = address + max(array.nbytes, 1) - 1
    for line in pathlib.Path("/proc/self/maps").read_text().splitlines():
        span, *_, name = line.split(maxsplit=5)
        begin, end = (int(part, 16) for part in span.split("-"))
        if begin <= address < end:
            assert last < end
            return name if name.startswith("/") else ""
    raise AssertionError("nowhere")


def _bits(array: np.ndarray[Any, Any]) -> bytes:
    return array.tobytes()


def _check_mapped(got: Arrays, want: Arrays, below: pathlib.Path) -> None:
    assert got.keys() == want.keys()
    for name, array in want.items():
        assert got[name].dtype == array.dtype, name
        assert got[name].shape == array.shape, name
        assert _bits(got[name]) == _bits(array), name
        if array.size:
            file = _mapped_file(got[name])
            assert file.startswith(f"{below}/"), name
            assert not got[name].flags.writeable


def _as_orbax(arrays: Arrays, path: pathlib.Path, **options: Any) -> None:
    holdfast.save(path, arrays, compression=None, **options)


def _convert_to(format: str) -> Callable[[Arrays, pathlib.Path], None]:
    def write(arrays: Arrays, path: pathlib.Path) -> None:
        source = path.with_name("source")
        _as_orbax(arrays, source)
        holdfast.convert(source, path, format=format)
        shutil.rmtree(source)

    return write


def _view(arrays: Arrays, path: pathlib.Path) -> None:
    source = path.with_name("model")
    _convert_to("safetensors")(arrays, source)
    holdfast.view(source, path)


_WRITERS: dict[str, Callable[[Arrays, pathlib.Path], None]] = {
    "orbax": _as_orbax,
    "orbax-v1": lambda a, p: _as_orbax(a, p, format="orbax-v1"),
    "zarr3": lambda a, p: _as_orbax(a, p, zarr_format=3),
    "files": lambda a, p: _as_orbax(a, p, ocdbt=False),
    "chunks": lambda a, p: _as_orbax(a, p, chunk_bytes=8000),
    "safetensors": _convert_to("safetensors"),
    "dcp": _convert_to("dcp"),
    "torch-dist": _convert_to("torch-dist"),
    "view": _view,
}


def _flat(tree: Any, prefix: str = "") -> Arrays:
    flat: Arrays = {}
    for key, value in tree.items():
        if isinstance(value, dict):
            flat.update(_flat(value, f"{prefix}{key}."))
        else:
            flat[prefix + key] = value
    return flat


# The formats of these writers have arrays at any offset, because other data
# surround them: a zarr 3 chunk is followed by the index of its shard, and a DCP
# array is inside an archive.
_PUT_ANYWHERE = {"orbax-v1", "zarr3", "dcp", "torch-dist"}


@pytest.mark.parametrize("writer", _WRITERS)
def test_formats_and_dtypes(tmp_path: pathlib.Path, writer: str) -> None:
    arrays = _model()
    # For DCP, holdfast writes only dtypes that torch has.
    if writer in ("dcp", "torch-dist"):
        del arrays["layer.uint32"]
    path = tmp_path / "ckpt"
    _WRITERS[writer](arrays, path)
    with holdfast.open(path) as opened:
        why_not = opened.why_not_mmap()
    for name, why in why_not.items():
        assert writer in _PUT_ANYWHERE
        assert f"no multiple of its elements' {arrays[name].itemsize}" in why
    assert len(why_not) < len(arrays) / 2
    mapped = {n: a for n, a in arrays.items() if n not in why_not}
    require: Any = True if why_not else "require"
    for verify in (None, True):
        got = _flat(holdfast.load(path, mmap=require, verify=verify))
        stats = holdfast.last_stats()
        _check_mapped({name: got[name] for name in mapped}, mapped, tmp_path)
        for name in why_not:
            assert _bits(got[name]) == _bits(arrays[name])
        assert stats is not None
        assert stats.mapped_bytes == sum(a.nbytes for a in mapped.values())
        assert stats.decoded_bytes == sum(arrays[n].nbytes for n in why_not)


@pytest.mark.parametrize("shape", [(), (1,), (0,), (3, 0, 2), (7,), (2, 3, 5)])
def test_shapes(tmp_path: pathlib.Path, shape: tuple[int, ...]) -> None:
    want = {"a": _array("float32", shape), "b": _array("float64", (4,))}
    safetensors_numpy.save_file(want, tmp_path / "m.safetensors")
    got = holdfast.load(tmp_path / "m.safetensors", mmap="require")
    _check_mapped(got, want, tmp_path)


def test_npz_and_torch_files(tmp_path: pathlib.Path) -> None:
    torch = pytest.importorskip("torch")
    want = {"a": _array("float32", (50, 20)), "b": _array("uint8", (3,))}
    torch.save(
        {name: torch.from_numpy(array) for name, array in want.items()},
        tmp_path / "m.pt",
    )
    _check_mapped(
        holdfast.load(tmp_path / "m.pt", mmap="require"), want, tmp_path
    )
    # numpy does not align the members of an archive; bytes need no alignment.
    np.savez(tmp_path / "m.npz", b=want["b"])
    _check_mapped(
        holdfast.load(tmp_path / "m.npz", mmap="require"),
        {"b": want["b"]},
        tmp_path,
    )


def test_what_cannot_be_mapped_is_read(tmp_path: pathlib.Path) -> None:
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((400, 30)).astype("f4")
    holdfast.save(tmp_path / "packed", {"w": weights}, compression="zstd")
    np.savez_compressed(tmp_path / "m.npz", w=weights)
    np.savez(tmp_path / "turned.npz", w=np.asfortranarray(weights))
    np.savez(tmp_path / "swapped.npz", w=weights.astype(">f4"))
    safetensors_numpy.save_file(
        {"w": rng.random((9, 9)) > 0.5}, tmp_path / "bools.safetensors"
    )
    for name, why in {
        "packed": "compressed with zstd",
        "m.npz": "not stored as they are",
        "turned.npz": "another order",
        "swapped.npz": "big endian",
        "bools.safetensors": "bools",
    }.items():
        opened = holdfast.open(tmp_path / name)
        assert why in opened.why_not_mmap()["w"]
        array = opened.mmap()["w"]
        assert array.flags.writeable
        assert np.array_equal(array, opened["w"][...])
        assert np.array_equal(
            array, holdfast.load(tmp_path / name, mmap=True)["w"]
        )
        for refused in (
            lambda opened=opened: opened["w"].mmap(),
            lambda opened=opened: opened.mmap(require=True),
            lambda name=name: holdfast.load(tmp_path / name, mmap="require"),
        ):
            with pytest.raises(
                holdfast.errors.InvalidArgumentError,
                match=f"leaf w cannot be mapped: .*{why}",
            ):
                refused()


def _misaligned(path: pathlib.Path) -> None:
    """Writes a safetensors file whose data begin at an odd offset."""
    header = b'{"w":{"dtype":"F32","shape":[5],"data_offsets":[0,20]}}'
    header += b" " * (1 - len(header) % 2)
    body = np.arange(5, dtype="f4").tobytes()
    path.write_bytes(len(header).to_bytes(8, "little") + header + body)


def test_misaligned_arrays_are_read(tmp_path: pathlib.Path) -> None:
    _misaligned(tmp_path / "odd.safetensors")
    opened = holdfast.open(tmp_path / "odd.safetensors")
    assert "no multiple of its elements' 4 bytes" in opened.why_not_mmap()["w"]
    got = holdfast.load(tmp_path / "odd.safetensors", mmap=True)["w"]
    assert np.array_equal(got, np.arange(5))
    assert got.flags.writeable


def test_one_leaf_and_a_part_of_the_tree(tmp_path: pathlib.Path) -> None:
    arrays = _model()
    _as_orbax(arrays, tmp_path / "ckpt")
    with holdfast.open(tmp_path / "ckpt") as opened:
        cube = opened["cube"].mmap()
        layers = opened.mmap("layer", verify_mapped=True)
        with pytest.raises(holdfast.errors.NotFoundError, match="lay"):
            opened.mmap("lay")
    # The arrays stay valid after the checkpoint and its files are gone.
    shutil.rmtree(tmp_path / "ckpt")
    assert _bits(cube) == _bits(arrays["cube"])
    del arrays["cube"]
    assert layers.keys() == arrays.keys()
    for name, array in arrays.items():
        assert _bits(layers[name]) == _bits(array)
    with pytest.raises(ValueError, match="read-only"):
        cube[0] = 1


def test_torch_tensors_change_no_file(tmp_path: pathlib.Path) -> None:
    torch = pytest.importorskip("torch")
    import holdfast.torch as holdfast_torch

    arrays = {
        "w": _array("float32", (40, 30)),
        "h": _array("bfloat16", (40, 30)),
    }
    _as_orbax(arrays, tmp_path / "ckpt")
    got = holdfast_torch.load(tmp_path / "ckpt", mmap="require")
    assert got["h"].dtype == torch.bfloat16
    for name, array in arrays.items():
        as_numpy = got[name].view(torch.uint8).numpy()
        assert _bits(as_numpy) == _bits(array)
        assert _mapped_file(as_numpy).startswith(str(tmp_path))
    got["w"].zero_()
    assert float(got["w"].sum()) == 0
    again = holdfast.load(tmp_path / "ckpt", mmap=True, verify=True)
    assert _bits(again["w"]) == _bits(arrays["w"])
    linear = torch.nn.Linear(30, 40, bias=False)
    linear.load_state_dict({"weight": got["w"]}, assign=True)
    assert linear.weight.data_ptr() == got["w"].data_ptr()


def test_nothing_is_read(tmp_path: pathlib.Path) -> None:
    def resident_bytes() -> int:
        pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
        return pages * 4096

    array = np.zeros((64, 1 << 20), "u1")
    safetensors_numpy.save_file({"w": array}, tmp_path / "m.safetensors")
    del array
    before = resident_bytes()
    got = holdfast.load(tmp_path / "m.safetensors", mmap="require")["w"]
    assert resident_bytes() - before < 32 << 20
    assert int(got[-1, -1]) == 0


def test_only_verify_sees_damage(tmp_path: pathlib.Path) -> None:
    arrays = {"w": _array("float32", (400, 300))}
    _as_orbax(arrays, tmp_path / "ckpt")
    mapped = holdfast.load(tmp_path / "ckpt", mmap="require")["w"]
    data = pathlib.Path(_mapped_file(mapped))
    content = bytearray(data.read_bytes())
    place = bytes(content).index(_bits(arrays["w"])) + 77_777
    content[place] ^= 1
    data.write_bytes(content)
    got = holdfast.load(tmp_path / "ckpt", mmap="require")["w"]
    assert _bits(got) != _bits(arrays["w"])
    with pytest.raises(holdfast.errors.DataLossError, match="w"):
        holdfast.load(tmp_path / "ckpt", mmap=True, verify=True)
    with pytest.raises(holdfast.errors.DataLossError, match="w"):
        holdfast.open(tmp_path / "ckpt").mmap(verify_mapped=True)


@pytest.mark.parametrize("writer", ["orbax", "safetensors", "view", "dcp"])
def test_cut_files_are_errors(tmp_path: pathlib.Path, writer: str) -> None:
    arrays = {"w": _array("float32", (400, 300))}
    _WRITERS[writer](arrays, tmp_path / "ckpt")
    file = pathlib.Path(
        _mapped_file(holdfast.load(tmp_path / "ckpt", mmap="require")["w"])
    )
    content = file.read_bytes()
    for count in (0, len(content) // 2):
        file.write_bytes(content[:count])
        with pytest.raises(holdfast.errors.HoldfastError):
            holdfast.load(tmp_path / "ckpt", mmap="require")


def test_arguments(tmp_path: pathlib.Path) -> None:
    _as_orbax({"w": _array("float32", (40, 30))}, tmp_path / "ckpt")
    with pytest.raises(holdfast.errors.InvalidArgumentError, match="no target"):
        holdfast.load(tmp_path / "ckpt", {"w": np.zeros(1)}, mmap=True)
    bad: Any = "always"
    with pytest.raises(holdfast.errors.InvalidArgumentError, match="always"):
        holdfast.load(tmp_path / "ckpt", mmap=bad)
