"""holdfast.orbax.test_utils."""

from __future__ import annotations

import logging
import unittest
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import holdfast.orbax as ocp
from holdfast.orbax import test_utils

CASE = unittest.TestCase()


def test_erase_and_create_empty(tmp_path: Path) -> None:
    (tmp_path / "d" / "below").mkdir(parents=True)
    path = test_utils.erase_and_create_empty(tmp_path / "d")
    assert list((tmp_path / "d").iterdir()) == []
    assert str(path / "x") == str(tmp_path / "d" / "x")


def test_empty_directory(tmp_path: Path) -> None:
    (tmp_path / "d" / "below").mkdir(parents=True)
    (tmp_path / "d" / "file").touch()
    assert test_utils.empty_directory(tmp_path / "d")
    assert list((tmp_path / "d").iterdir()) == []
    assert not test_utils.empty_directory(tmp_path / "nowhere")


def test_print_directory(tmp_path: Path, caplog: Any) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "file").touch()
    with caplog.at_level(logging.INFO):
        test_utils.print_directory(tmp_path)
    assert caplog.messages == [
        f"Printing directory tree: {tmp_path}/",
        "..d/",
        "....file",
    ]
    with pytest.raises(ValueError, match="does not exist"):
        test_utils.print_directory(tmp_path / "nowhere")


def test_assert_tree_equal() -> None:
    tree = test_utils.setup_pytree()
    test_utils.assert_tree_equal(CASE, tree, test_utils.setup_pytree())
    for other in (
        test_utils.setup_pytree(1),
        {**tree, "a": tree["a"].astype(np.int8)},
        {**tree, "extra": 1},
        {**tree, "a": 5},
    ):
        with pytest.raises(AssertionError):
            test_utils.assert_tree_equal(CASE, tree, other)


def test_assert_tree_same_structure() -> None:
    test_utils.assert_tree_same_structure(CASE, {"a": [1]}, {"a": [2.5]})
    with pytest.raises(AssertionError):
        test_utils.assert_tree_same_structure(CASE, {"a": [1]}, {"a": (1,)})


def test_fake_temporary_directory_is_incomplete(tmp_path: Path) -> None:
    test_utils.save_fake_tmp_dir(tmp_path, 3, "state", ["sub"])
    step = tmp_path / "3.orbax-checkpoint-tmp"
    assert (step / "state.orbax-checkpoint-tmp" / "sub").is_dir()
    with pytest.raises(ValueError, match="Found incomplete checkpoint"):
        ocp.PyTreeCheckpointer().restore(step)


def test_sharded_tree_round_trip(ckpt: Path) -> None:
    pytest.importorskip("jax")
    tree, _, _ = test_utils.setup_sharded_pytree()
    ocp.PyTreeCheckpointer().save(ckpt, tree)
    restored = ocp.PyTreeCheckpointer().restore(ckpt)
    test_utils.assert_tree_equal(CASE, tree, restored)
    assert restored["b"].sharding == tree["b"].sharding
    found: Any = ocp.PyTreeCheckpointer().metadata(ckpt).item_metadata
    chunk = test_utils.get_expected_chunk_shape(tree["a"])
    assert found.tree["a"].storage.chunk_shape == chunk == (1,)
