"""`holdfast.open`: the mapping, slices as in numpy, and the displays."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import operator
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import holdfast
from holdfast import errors

W = np.arange(20 * 30 * 4, dtype=np.float32).reshape(20, 30, 4)


@pytest.fixture
def opened(ckpt: Path) -> holdfast.Checkpoint:
    tree = {
        "params": {"w": W, "scale": np.array(2.5)},
        "step": 7,
        "name": "run",
        "none": None,
        "list": [[], {}],
    }
    holdfast.save(ckpt, tree, chunk_bytes=1000)
    return holdfast.open(ckpt)


def test_is_a_read_only_mapping(opened: holdfast.Checkpoint) -> None:
    assert isinstance(opened, Mapping)
    assert list(opened) == [
        "list.0",
        "list.1",
        "name",
        "none",
        "params.scale",
        "params.w",
        "step",
    ]
    assert len(opened) == 7 and "step" in opened and "params" not in opened
    assert opened["step"] == 7 and opened["name"] == "run"
    assert opened["none"] is None
    assert opened["list.0"] == [] and opened["list.1"] == {}
    assert dict(opened.items())["step"] == 7
    assert opened.get("nothing", 5) == 5
    with pytest.raises(TypeError):
        opened["step"] = 8  # type: ignore[index]


def test_unknown_names_are_told_with_close_ones(
    opened: holdfast.Checkpoint,
) -> None:
    with pytest.raises(KeyError, match=r"params\.scale, params\.w"):
        opened["params"]
    with pytest.raises(KeyError, match="there is step"):
        opened["stepp"]
    with pytest.raises(KeyError, match="no leaf 'zzz'"):
        opened.digest("zzz")


def test_attributes(opened: holdfast.Checkpoint) -> None:
    w = opened["params.w"]
    assert isinstance(w, holdfast.StoredArray)
    assert w.name == "params.w" and w.shape == W.shape and w.ndim == 3
    assert w.dtype == np.float32 and w.size == W.size
    assert w.nbytes == W.nbytes and len(w) == 20
    assert w.chunks[0] < 20 and w.chunks[1:] == (30, 4)
    with pytest.raises(TypeError):
        len(opened["params.scale"])


BASIC = [
    np.s_[...],
    np.s_[:],
    np.s_[0:10],
    np.s_[3],
    np.s_[-1],
    np.s_[np.int64(4), 2],
    np.s_[1, 2, 3],
    np.s_[..., 1],
    np.s_[2, ..., 1:3],
    np.s_[:, 5],
    np.s_[::2],
    np.s_[1:19:7, ::-3],
    np.s_[::-1],
    np.s_[5:2:-1, -3:],
    np.s_[::-1, ::-1, ::-1],
    np.s_[5:2],
    np.s_[100:],
    np.s_[-100:3, 29:100],
    np.s_[()],
    np.s_[3, 4, ..., 2],
    np.s_[::19, ::29, ::3],
]


@pytest.mark.parametrize("key", BASIC, ids=str)
def test_slices_as_numpy(opened: holdfast.Checkpoint, key: Any) -> None:
    got = opened["params.w"][key]
    want = W[key]
    assert isinstance(got, np.ndarray)
    assert got.shape == want.shape and got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)
    got[...] = 0  # is writable


def test_random_slices_as_numpy(opened: holdfast.Checkpoint) -> None:
    rng = np.random.default_rng(3)

    def part(extent: int) -> Any:
        if rng.integers(0, 4) == 0:
            return int(rng.integers(-extent, extent))
        ends = [
            None if rng.integers(0, 3) == 0 else int(rng.integers(-35, 35))
            for _ in range(2)
        ]
        step = int(rng.integers(1, 9)) * (1 if rng.integers(0, 2) else -1)
        return slice(*ends, step)

    for _ in range(200):
        rank = rng.integers(0, 4)
        key = tuple(part(extent) for extent in W.shape[:rank])
        got = opened["params.w"][key]
        assert got.shape == W[key].shape, key
        np.testing.assert_array_equal(got, W[key], err_msg=str(key))


def test_many_strided_rows_are_cut_out_of_their_box(ckpt: Path) -> None:
    a = np.arange(20_000)
    holdfast.save(ckpt, {"a": a})
    got = holdfast.open(ckpt)["a"][::-2]
    np.testing.assert_array_equal(got, a[::-2])


@pytest.mark.parametrize(
    ("key", "words"),
    [
        (None, "np.newaxis; read first"),
        (np.s_[0, None], "np.newaxis"),
        (True, "boolean and fancy indexing"),
        (np.ones(20, bool), "read the part that holds"),
        ([0, 1], "boolean and fancy indexing"),
        (np.array([0, 1]), "read the part that holds"),
        (1.5, "ints, slices and ..."),
        ("w", "ints, slices and ..."),
        (20, "index 20 is out of bounds for axis 0 with size 20"),
        (np.s_[0, -31], "index -31 is out of bounds for axis 1"),
        (np.s_[0, 0, 0, 0], "too many indices"),
        (np.s_[..., 0, ...], "single ellipsis"),
    ],
)
def test_other_indexing_is_refused(
    opened: holdfast.Checkpoint, key: Any, words: str
) -> None:
    with pytest.raises(IndexError, match=words) as info:
        opened["params.w"][key]
    assert "params.w" in str(info.value)


def test_arrays_protocol(opened: holdfast.Checkpoint) -> None:
    w = opened["params.w"]
    np.testing.assert_array_equal(np.asarray(w), W)
    assert np.asarray(w, np.float64).dtype == np.float64
    assert float(opened["params.scale"][()]) == 2.5
    np.testing.assert_array_equal(next(iter(w)), W[0])
    with pytest.raises(ValueError, match="copy=False"):
        w.__array__(copy=False)


def test_saving_an_opened_array(
    opened: holdfast.Checkpoint, tmp_path: Path
) -> None:
    holdfast.save(tmp_path / "again", dict(opened))
    got = holdfast.load(tmp_path / "again", select="params.w")
    np.testing.assert_array_equal(got["params.w"], W)


def test_only_the_needed_chunks_are_read(ckpt: Path) -> None:
    rng = np.random.default_rng(0)
    holdfast.save(ckpt, {"a": rng.random((100, 1000))}, chunk_bytes=80_000)
    files = [path for path in ckpt.rglob("d/*") if path.is_file()]
    victim = max(files, key=lambda path: path.stat().st_size)
    content = bytearray(victim.read_bytes())
    content[len(content) // 2] ^= 1
    victim.write_bytes(content)
    a = holdfast.open(ckpt)["a"]
    with pytest.raises(errors.DataLossError):
        a[...]
    assert a[0].shape == (1000,) and a[-1].shape == (1000,)


def test_another_process_opens_it_again(opened: holdfast.Checkpoint) -> None:
    arrays = pickle.loads(pickle.dumps([opened["params.w"]] * 2))
    assert arrays[0] is arrays[1] and arrays[0].name == "params.w"
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, spawn) as pool:
        rows = pool.submit(operator.getitem, opened["params.w"], slice(3, 5))
        value = pool.submit(operator.getitem, opened, "step")
        assert rows.result(60).tolist() == W[3:5].tolist()
        assert value.result(60) == 7


def test_a_pickle_is_of_the_step_that_was_open(tmp_path: Path) -> None:
    for step in (3, 20):
        holdfast.save(tmp_path / str(step), {"step": step})
    with holdfast.open(tmp_path, step=3) as checkpoint:
        pickled = pickle.dumps(checkpoint)
    again = pickle.loads(pickled)
    assert again["step"] == 3 and again.path == str(tmp_path / "3")


def test_a_closed_one_has_names_only(opened: holdfast.Checkpoint) -> None:
    with opened as same:
        assert same is opened
        array = opened["params.w"]
        rows = array[3:5]
    opened.close()
    assert repr(opened) == f"<holdfast.Checkpoint {opened.path}: closed>"
    for read in (lambda: opened["step"], lambda: array[0]):
        with pytest.raises(ValueError, match="was closed; open it again"):
            read()
    assert "params.w" in opened and len(list(opened)) == 7
    assert rows.tolist() == W[3:5].tolist()


def test_tab_completes_names(opened: holdfast.Checkpoint) -> None:
    assert opened._ipython_key_completions_() == list(opened)


def test_repr_is_a_table(opened: holdfast.Checkpoint) -> None:
    lines = repr(opened).splitlines()
    assert lines[0].endswith("ckpt (orbax)")
    assert lines[1].split() == [
        "name",
        "kind",
        "dtype",
        "shape",
        "chunks",
        "stored",
        "decoded",
    ]
    row = next(line for line in lines if line.startswith("params.w"))
    assert "float32" in row and "(20, 30, 4)" in row and "9.4 KiB" in row
    assert lines[-1].startswith("7 leaves, ")
    assert "params.w" in repr(opened["params.w"])


def test_long_tables_leave_out_the_middle(ckpt: Path) -> None:
    holdfast.save(ckpt, {f"leaf{i:03d}": i for i in range(100)})
    text = repr(holdfast.open(ckpt))
    assert "... 60 more ..." in text
    assert "leaf019" in text and "leaf020" not in text and "leaf099" in text


def test_pages_have_every_leaf(ckpt: Path) -> None:
    holdfast.save(ckpt, {f"leaf{i:03d}": i for i in range(100)})
    opened = holdfast.open(ckpt)
    page = opened._repr_html_()
    assert page.count("<td>leaf") == 100 and "100 leaves" in page
    opened.close()
    assert opened._repr_html_().endswith(": closed&gt;</p>")


def test_html_escapes_names(ckpt: Path) -> None:
    holdfast.save(ckpt, {"<script>": np.ones(2)})
    page = holdfast.open(ckpt)._repr_html_()
    assert page.count("<script>") == 1 and "&lt;script&gt;" in page


def test_digests(opened: holdfast.Checkpoint, tmp_path: Path) -> None:
    import hashlib

    want = hashlib.sha256(W.tobytes()).hexdigest()
    assert opened.digest("params.w") == want
    assert holdfast.digest(opened.path, "params.w") == want
    every = holdfast.digest(opened.path)
    assert list(every) == list(opened) and every["params.w"] == want
    with pytest.raises(errors.NotFoundError, match="no leaf 'q'"):
        holdfast.digest(opened.path, "q")


def test_arrays_without_axes_are_arrays(ckpt: Path) -> None:
    holdfast.save(ckpt, {"a": np.array(3, np.uint8), "b": np.arange(4)})
    opened = holdfast.open(ckpt)
    for got, value in ((opened["a"][...], 3), (opened["b"][2], 2)):
        assert isinstance(got, np.ndarray) and got.shape == () and got == value
