"""Reads every checkpoint of the golden corpus with `holdfast.load` and
`holdfast.orbax`: containers, kinds, dtypes and values are as recorded."""

from __future__ import annotations

import hashlib
import json
import math
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import CORPUS

import holdfast
from holdfast import errors

pytest.importorskip("ml_dtypes")
jax = pytest.importorskip("jax")

SUB_BYTE_MASKS = {"int2": 3, "int4": 15, "float4_e2m1fn": 15}
UNREADABLE = ("pytree_unreadable", "pytree_without_metadata", "empty_dir")


def case_names() -> list[str]:
    with tarfile.open(CORPUS) as archive:
        paths = [Path(member.name) for member in archive]
    return [path.parts[1] for path in paths if path.name == "expected.json"]


CASE_NAMES = case_names()


# The corpus was recorded with 64-bit types.
pytestmark = pytest.mark.usefixtures("wide_types")


def items_of(case: Path, *kinds: str) -> list[dict[str, Any]]:
    expected = json.loads((case / "expected.json").read_text("utf-8"))
    return [item for item in expected["items"] if item["type"] in kinds]


def find(tree: Any, leaf: dict[str, Any]) -> Any:
    """Returns the value at a recorded path; checks each container's kind."""
    for element in leaf["path"]:
        if element["kind"] == "sequence":
            assert isinstance(tree, list), leaf["param"]
            tree = tree[int(element["key"])]
        else:
            assert isinstance(tree, dict), leaf["param"]
            tree = tree[element["key"]]
    return tree


def count_leaves(tree: Any) -> int:
    if isinstance(tree, dict) and tree:
        return sum(count_leaves(child) for child in tree.values())
    if isinstance(tree, list) and tree:
        return sum(count_leaves(child) for child in tree)
    return 1


def sha256(array: np.ndarray[Any, Any]) -> str:
    array = np.ascontiguousarray(array)
    mask = SUB_BYTE_MASKS.get(array.dtype.name)
    if mask is not None:
        array = array.view(np.uint8) & mask
    return hashlib.sha256(array.tobytes()).hexdigest()


def check_array(value: Any, leaf: dict[str, Any]) -> None:
    if isinstance(value, jax.Array):
        if jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
            assert str(jax.random.key_impl(value)) == leaf["prng_impl"]
            value = jax.random.key_data(value)
        value = np.asarray(value)
    assert isinstance(value, np.ndarray), leaf["param"]
    assert value.dtype.name == leaf["dtype"], leaf["param"]
    assert list(value.shape) == leaf["shape"], leaf["param"]
    assert sha256(value) == leaf["sha256"], leaf["param"]


def check_scalar(value: Any, leaf: dict[str, Any]) -> None:
    # Other values are rank-0 arrays, or in files that do not distinguish
    # scalars from rank-0 arrays.
    if leaf["value_type"] == "scalar" and not leaf["skip_deserialize"]:
        assert isinstance(value, (bool, int, float, complex)), leaf["param"]
    literal = leaf["value"]
    if isinstance(literal, list):
        literal = complex(*(float(part) for part in literal))
    elif isinstance(literal, str):
        literal = float(literal)
    same_nan = isinstance(literal, float) and math.isnan(literal)
    assert value == literal or (same_nan and value != value), leaf["param"]


def check_leaf(tree: Any, leaf: dict[str, Any]) -> None:
    value = find(tree, leaf)
    kind = leaf["leaf"]
    if kind in ("array", "prng_key"):
        check_array(value, leaf)
    elif kind == "scalar":
        check_scalar(value, leaf)
    elif kind == "bytes":
        assert value.hex() == leaf["value_hex"], leaf["param"]
    elif kind == "placeholder":
        assert value is ..., leaf["param"]
    elif kind == "string":
        assert value == leaf["value"], leaf["param"]
    else:
        assert kind == "empty"
        assert value is None or len(value) == 0, leaf["param"]
        wanted = {"Dict": dict, "List": list, "Tuple": tuple}
        if leaf["value_type"] in wanted:
            assert type(value) is wanted[leaf["value_type"]], leaf["param"]


def check_item(tree: Any, item: dict[str, Any]) -> None:
    leaves = item["leaves"]
    for leaf in leaves:
        check_leaf(tree, leaf)
    assert count_leaves(tree) == len(leaves)


@pytest.mark.parametrize("name", CASE_NAMES)
def test_plain_load(corpus: Path, name: str) -> None:
    for item in items_of(corpus / name, "pytree"):
        check_item(holdfast.load(corpus / name / item["path"]), item)
    for item in items_of(corpus / name, *UNREADABLE):
        with pytest.raises(errors.HoldfastError):
            holdfast.load(corpus / name / item["path"])


@pytest.mark.parametrize("name", CASE_NAMES)
def test_drop_in_restore(corpus: Path, name: str) -> None:
    import holdfast.orbax as ocp

    for item in items_of(corpus / name, "pytree"):
        handler = ocp.PyTreeCheckpointHandler(
            **item.get("restore_handler") or {}
        )
        path = corpus / name / item["path"]
        if item["default_restore"] == "ok":
            check_item(handler.restore(path), item)
            continue
        with pytest.raises(Exception) as info:
            handler.restore(path)
        wanted = item["default_restore"].get("error", "")
        classes = [cls.__name__ for cls in type(info.value).__mro__]
        assert not wanted or wanted in classes
