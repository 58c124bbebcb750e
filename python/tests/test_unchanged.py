"""Each way to save warns about a step with the tensors of the step before."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from thread_ranks import groups_of, on_all

import holdfast
import holdfast.orbax as ocp
from holdfast import errors
from holdfast.orbax import v1

Save = Callable[[int, dict[str, Any]], object]


def _manager_save(root: Path, deltas: Any, asynchronous: bool) -> Save:
    options = ocp.CheckpointManagerOptions(
        enable_async_checkpointing=asynchronous, deltas=deltas
    )
    manager = ocp.CheckpointManager(root, options=options)

    def save(step: int, tree: dict[str, Any]) -> None:
        items = ocp.args.Composite(
            state=ocp.args.StandardSave(tree),
            position=ocp.args.JsonSave({"step": step}),
        )
        assert manager.save(step, args=items)
        manager.wait_until_finished()

    return save


def _v1_save(root: Path, asynchronous: bool) -> Save:
    checkpointer = v1.training.Checkpointer(root)

    def save(step: int, tree: dict[str, Any]) -> None:
        if asynchronous:
            response = checkpointer.save_checkpointables_async(
                step, {"state": tree}
            )
            assert response is not None and response.result()
        else:
            checkpointer.save_checkpointables(step, {"state": tree})

    return save


def _dcp_save(root: Path) -> Save:
    torch = pytest.importorskip("torch")
    if not torch.distributed.is_available():
        pytest.skip("torch without torch.distributed")
    import torch.distributed.checkpoint as dcp

    from holdfast.torch import StorageWriter

    def save(step: int, tree: dict[str, Any]) -> None:
        tensors = {
            name: torch.from_numpy(np.array(value))
            for name, value in tree.items()
        }
        writer = StorageWriter(root / str(step))
        dcp.save(tensors, storage_writer=writer, no_dist=True)

    return save


def _group_save(root: Path) -> Save:
    """Saves on two ranks, each of which writes a part."""

    def save(step: int, tree: dict[str, Any]) -> None:
        groups = groups_of(2)
        stats = on_all(
            2,
            lambda rank: holdfast.save(
                root / str(step), tree, group=groups[rank]
            ),
        )
        assert all(isinstance(each, holdfast.Stats) for each in stats), stats

    return save


WAYS: dict[str, Callable[[Path], Save]] = {
    "save": lambda root: lambda s, t: holdfast.save(root / str(s), t),
    "also": lambda root: (
        lambda s, t: holdfast.save(root / str(s), t, also="safetensors")
    ),
    "background": lambda root: (
        lambda s, t: holdfast.save(root / str(s), t, background=True).result()
    ),
    "deltas": lambda root: (
        lambda s, t: holdfast.save(
            root / str(s), t, deltas=holdfast.DeltaPolicy(8)
        )
    ),
    "group": _group_save,
    "checkpointer": lambda root: (
        lambda s, t: ocp.PyTreeCheckpointer().save(root / str(s), t)
    ),
    "manager": lambda root: _manager_save(root, None, False),
    "async manager": lambda root: _manager_save(root, None, True),
    "manager with deltas": lambda root: _manager_save(
        root, holdfast.DeltaPolicy(8), False
    ),
    "v1": lambda root: _v1_save(root, False),
    "async v1": lambda root: _v1_save(root, True),
    "dcp": _dcp_save,
}


def _warnings(call: Callable[[], object]) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [
        str(each.message)
        for each in caught
        if issubclass(each.category, errors.UnchangedWarning)
    ]


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_save(tmp_path: Path, way: str) -> None:
    save = WAYS[way](tmp_path)
    weights = np.linspace(0, 1, 6000, dtype=np.float32).reshape(60, 100)

    def said(step: int) -> list[str]:
        tree = {
            "w": jnp.asarray(weights) if way != "dcp" else weights,
            "b": weights[0].copy(),
            "step": np.array([step, 1]),
        }
        return _warnings(lambda: save(step, tree))

    assert said(1) == []
    for step in (2, 3):
        (text,) = said(step)
        assert f"step {step} holds exactly the tensors of step {step - 1}" in (
            text
        )
        assert "(2 floating-point arrays, 24400 bytes, " in text
        assert "UnchangedWarning" in text
    weights[0, 0] = 2
    assert said(4) == []
    (text,) = said(6)
    assert "holds exactly the tensors of step 4" in text


@pytest.mark.parametrize("background", [False, True])
def test_a_warning_that_is_an_error_fails_no_committed_save(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, background: bool
) -> None:
    unraisable: list[Any] = []
    monkeypatch.setattr(
        sys, "unraisablehook", lambda each: unraisable.append(each.exc_type)
    )
    tree = {"w": np.arange(3.0)}

    def save(step: int) -> None:
        saved = holdfast.save(
            tmp_path / str(step), tree, background=background
        )
        if background:
            saved.result()

    save(1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        save(2)
        assert unraisable == [errors.UnchangedWarning]
        warnings.simplefilter("ignore", errors.UnchangedWarning)
        save(3)
    assert len(unraisable) == 1
    assert holdfast.steps(tmp_path) == [1, 2, 3]


def test_a_frozen_item_beside_a_trained_one(tmp_path: Path) -> None:
    manager = ocp.CheckpointManager(
        tmp_path,
        options=ocp.CheckpointManagerOptions(enable_async_checkpointing=False),
    )

    def said(step: int, trained: float) -> list[str]:
        items = ocp.args.Composite(
            frozen=ocp.args.StandardSave({"w": np.ones(9)}),
            trained=ocp.args.StandardSave({"w": np.full(9, trained)}),
        )
        return _warnings(lambda: manager.save(step, args=items))

    assert said(1, 1.0) == []
    assert said(2, 2.0) == []
    assert len(said(3, 2.0)) == 1
