"""Values that cannot be saved: the error's exact class, Orbax's message, and
the leaf's name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import holdfast
from holdfast import errors

UNSUPPORTED = 'Error parsing object member "dtype": Unsupported data type: "%s"'


@pytest.mark.parametrize(
    ("leaf", "name"),
    [
        (np.array(["ab", "c"]), "str64"),
        (np.array([b"ab"]), "bytes16"),
        (np.array(["2020-01-01"], "datetime64[s]"), "datetime64[s]"),
        (np.zeros(3, [("x", "i4")]), "void32"),
        (np.ones(2, np.longdouble), "float128"),
        (np.array([object()]), "object"),
        (b"abc", "bytes24"),
        (b"", "bytes8"),
        (np.bytes_(b"abc"), "bytes24"),
        (np.datetime64("2020-01-01"), "datetime64[D]"),
        (np.longdouble(1), "float128"),
    ],
)
def test_dtypes_without_a_stored_form(ckpt: Path, leaf: Any, name: str) -> None:
    with pytest.raises(errors.InvalidArgumentError) as info:
        holdfast.save(ckpt, {"params": [{"w": leaf}]})
    assert str(info.value) == UNSUPPORTED % name + ' (leaf "params.0.w")'
    assert isinstance(info.value, ValueError)
    assert not ckpt.exists()


@pytest.mark.parametrize("leaf", [2**64, -(2**63) - 1])
def test_integers_beyond_64_bits(ckpt: Path, leaf: int) -> None:
    with pytest.raises(errors.InvalidArgumentError) as info:
        holdfast.save(ckpt, {"params": [{"w": leaf}]})
    assert str(info.value) == (
        UNSUPPORTED % "object" + ": an integer of more than 64 bits; save it as"
        " text (str), or in a JSON item or custom_metadata, which keep it"
        ' (leaf "params.0.w")'
    )
    assert not ckpt.exists()


@pytest.mark.parametrize("name", ["uint4", "uint2", "float8_e4m3"])
def test_ml_dtypes_without_a_stored_form(ckpt: Path, name: str) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    array = np.zeros(3).astype(getattr(ml_dtypes, name))
    with pytest.raises(errors.InvalidArgumentError) as info:
        holdfast.save(ckpt, {"a": array})
    assert str(info.value) == UNSUPPORTED % name + ' (leaf "a")'


@pytest.mark.parametrize(
    ("leaf", "words"),
    [
        (object(), "cannot save builtins.object"),
        (object, "the class object itself"),
        ({1, 2}, "a set has no order"),
        (np.ma.masked_array([1, 2], [True, False]), "masked array"),
        (lambda: 1, "cannot save builtins.function"),
    ],
)
def test_other_leaves(ckpt: Path, leaf: Any, words: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=words) as info:
        holdfast.save(ckpt, {"params": [{"w": leaf}]})
    assert "params.0.w" in str(info.value)


def test_keys_that_do_not_compare(ckpt: Path) -> None:
    with pytest.raises(
        errors.InvalidArgumentError,
        match="^Comparator raised exception while sorting pytree dictionary"
        r" keys\. 1 \(int\) and 'a' \(str\) do not compare: give all keys of"
        r' the dict one type, as str \(leaf "x"\)$',
    ):
        holdfast.save(ckpt, {"x": {1: 1, "a": 2}})


def test_keys_that_become_one_name(ckpt: Path) -> None:
    class Key(str):
        def __str__(self) -> str:
            return "same"

    with pytest.raises(errors.InvalidArgumentError) as info:
        holdfast.save(ckpt, {"x": {Key("b"): 1, Key("a"): 2}})
    assert str(info.value) == (
        "the keys 'a' and 'b' are one name, 'same', in a checkpoint"
        ' (leaf "x")'
    )


def test_names_that_collide(ckpt: Path) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=r"a\.b"):
        holdfast.save(ckpt, {"a.b": np.ones(2), "a": {"b": np.zeros(3)}})


def test_text_with_surrogates(ckpt: Path) -> None:
    with pytest.raises(errors.InvalidArgumentError, match='leaf "a"'):
        holdfast.save(ckpt, {"a": "\ud800"})
    with pytest.raises(errors.InvalidArgumentError, match="surrogates"):
        holdfast.save(ckpt, {"\ud800": 1})


def self_containing() -> list[Any]:
    as_list: list[Any] = []
    as_list.append({"k": as_list})
    as_dict: dict[str, Any] = {"n": 1}
    as_dict["k"] = [as_dict]

    class Holder(dict):  # type: ignore[type-arg]
        pass

    own = Holder()
    own["k"] = own
    return [as_list, as_dict, own]


@pytest.mark.parametrize("tree", self_containing())
def test_trees_that_contain_themselves(ckpt: Path, tree: Any) -> None:
    with pytest.raises(
        errors.InvalidArgumentError, match=r"the tree contains itself.*top\."
    ):
        holdfast.save(ckpt, {"top": tree})


def test_trees_too_deep(ckpt: Path) -> None:
    tree: Any = 1
    for _ in range(100_000):
        tree = [tree]
    with pytest.raises(errors.InvalidArgumentError, match="deeper than 512"):
        holdfast.save(ckpt, {"top": tree})
    # Takes the tree apart: the interpreter would recurse to destroy it.
    while isinstance(tree, list):
        tree = tree.pop()


def test_the_same_object_in_two_places_is_no_cycle(ckpt: Path) -> None:
    shared = {"w": np.ones(2)}
    holdfast.save(ckpt, {"a": shared, "b": [shared, shared]})
    assert holdfast.load(ckpt)["b"][1]["w"].sum() == 2


@pytest.mark.parametrize("tree", [{}, [], (), {"a": np.zeros((0, 3))}])
def test_nothing_to_save(ckpt: Path, tree: Any) -> None:
    with pytest.raises(errors.InvalidArgumentError) as info:
        holdfast.save(ckpt, tree)
    assert str(info.value) == (
        "Cannot save arrays with zero size: ParamInfo:"
        " [name=a,value_typestr=np.ndarray]"
        if tree
        else "Found empty item."
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"format": "orbax2"}, "format: got 'orbax2'"),
        ({"compression": "gzip"}, "compression: got 'gzip'"),
        ({"zarr_format": 4}, "zarr"),
        ({"threads": -1}, "threads: got -1"),
        ({"memory_bytes": -1}, "memory_bytes: got -1"),
        ({"chunk_bytes": -1}, "chunk_bytes: got -1"),
        ({"data_file_bytes": -1}, "must be >= 0, where 0 means no limit"),
    ],
)
def test_bad_options(ckpt: Path, options: dict[str, Any], words: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=words):
        holdfast.save(ckpt, {"a": 1}, **options)
    assert list(ckpt.parent.iterdir()) == []


def test_custom_metadata_must_be_json(ckpt: Path) -> None:
    with pytest.raises(TypeError, match="Failed to encode `custom_metadata`"):
        holdfast.save(ckpt, {"a": 1}, custom_metadata={"x": object()})


def test_an_exception_of_the_trees_own_code_is_raised(ckpt: Path) -> None:
    class Key:
        def __lt__(self, other: object) -> bool:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        holdfast.save(ckpt, {Key(): 1, Key(): 2})


def test_loading_what_is_not_there(tmp_path: Path) -> None:
    for call in (holdfast.load, holdfast.open, holdfast.verify):
        with pytest.raises(errors.NotFoundError) as info:
            call(tmp_path / "nothing")  # type: ignore[operator]
        assert isinstance(info.value, FileNotFoundError)
        assert "nothing" in str(info.value)


def test_permission_denied(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(errors.HoldfastError):
        holdfast.save(tmp_path / "file" / "below", {"a": 1})


def damage(ckpt: Path) -> Path:
    """Flips a bit in the middle of the largest data file; returns its path."""
    files = [path for path in ckpt.rglob("*") if path.is_file()]
    victim = max(files, key=lambda path: path.stat().st_size)
    content = bytearray(victim.read_bytes())
    content[len(content) // 2] ^= 1
    victim.write_bytes(content)
    return victim


def test_damage_is_found_and_named(ckpt: Path) -> None:
    rng = np.random.default_rng(0)
    holdfast.save(ckpt, {"deep": {"w": rng.random(100_000)}})
    assert holdfast.verify(ckpt)
    victim = damage(ckpt)
    with pytest.raises(errors.DataLossError, match=r"deep\.w") as info:
        holdfast.load(ckpt)
    assert isinstance(info.value, ValueError)
    report = holdfast.verify(ckpt)
    assert not report and not report.ok
    assert report.damages[0].leaf == "deep.w"
    assert report.damages[0].code == "DATA_LOSS"
    assert victim.name in report.damages[0].file
    assert "deep.w" in str(report)


def test_errors_are_also_the_built_in_ones() -> None:
    kinds = {
        errors.InvalidArgumentError: ValueError,
        errors.NotFoundError: FileNotFoundError,
        errors.AlreadyExistsError: FileExistsError,
        errors.FailedPreconditionError: ValueError,
        errors.OutOfRangeError: IndexError,
        errors.PermissionDeniedError: PermissionError,
        errors.ResourceExhaustedError: MemoryError,
        errors.UnavailableError: OSError,
        errors.UnimplementedError: NotImplementedError,
        errors.DeadlineExceededError: TimeoutError,
        errors.DataLossError: ValueError,
        errors.InternalError: RuntimeError,
    }
    for kind, built_in in kinds.items():
        error = kind("what: where: why")
        assert isinstance(error, (built_in, errors.HoldfastError))
        assert issubclass(kind, built_in)
        assert str(error) == "what: where: why"


def test_a_checkpoint_of_the_future_is_refused(ckpt: Path) -> None:
    holdfast.save(ckpt, {"a": 1})
    record = json.loads((ckpt / "_METADATA").read_text())
    record["tree_metadata"] = "nonsense"
    (ckpt / "_METADATA").write_text(json.dumps(record))
    with pytest.raises(errors.HoldfastError, match="_METADATA"):
        holdfast.load(ckpt)
