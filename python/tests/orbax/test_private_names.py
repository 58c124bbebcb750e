"""Orbax's private names that client libraries use (doc/clients.md)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import holdfast.orbax as hfo

jax = pytest.importorskip("jax")
pytest.importorskip("orbax.checkpoint")

_SHAPES: list[tuple[int, ...]] = [
    *[(), (0,), (1,), (7,), (8,), (12,), (16, 3), (3, 16), (6, 20), (4, 12)],
    *[(2, 2, 8), (1000, 6, 4), (9, 9), (15, 28, 8)],
]


@pytest.mark.parametrize("count", [1, 2, 6, 8, None])
def test_maximal_shardings(count: int | None) -> None:
    from orbax.checkpoint._src.arrays import sharding

    from holdfast.orbax import arrays

    devices = None if count is None else jax.devices()[:count]
    tree: dict[str, Any] = {
        str(shape): jax.ShapeDtypeStruct(shape, np.float32) for shape in _SHAPES
    }
    ours = arrays.construct_maximal_shardings(tree, devices)
    theirs = sharding.construct_maximal_shardings(tree, devices)
    assert ours == theirs
    if count is None:
        assert ours["(16, 3)"].shard_shape((16, 3)) == (2, 3)


def test_a_manager_that_derives_from_orbaxs(tmp_path: Path) -> None:
    """AXLearn, Kauldron and T5X override and read these names."""

    def run(ocp: Any, root: Path) -> list[Any]:
        seen: list[Any] = []

        class Manager(ocp.CheckpointManager):  # type: ignore[misc]
            def _load_checkpoint_infos(
                self, skip_metadata_read: bool = False
            ) -> Any:
                infos = super()._load_checkpoint_infos(skip_metadata_read)
                path = self._get_write_step_directory(7, self.directory)
                assert path == self._get_save_directory(7, self.directory)
                seen.append((path.name, [info.step for info in infos]))
                return infos[-1:]

            def _finalize_checkpoint(self, step: int) -> None:
                super()._finalize_checkpoint(step)
                assert self._multiprocessing_options.primary_host == 0
                path = self._get_read_step_directory(step, self.directory)
                assert ocp.step.is_path_finalized(path)
                # An older step may still be in the trash.
                names = sorted(os.listdir(self.directory))
                seen.append([n for n in names if n != ".holdfast_trash"])

            def _get_old_steps_to_remove(self) -> list[int]:
                assert self._track_best
                return [i.step for i in self._checkpoints if i.step % 2]

        options = ocp.CheckpointManagerOptions(
            best_fn=lambda metrics: metrics["a"], step_prefix="s"
        )
        for first in (0, 3):
            with Manager(root, options=options) as manager:
                for step in range(first, first + 3):
                    args = ocp.args.StandardSave({"x": np.arange(step + 1)})
                    manager.save(step, args=args, metrics={"a": step})
                manager.wait_until_finished()
                seen.append([info.step for info in manager._checkpoints])
                seen.append(manager._checkpoints[-1].metrics)
                seen.append(len(manager._checkpoints))
        return [*seen, sorted(os.listdir(root))]

    theirs = run(pytest.importorskip("orbax.checkpoint"), tmp_path / "theirs")
    assert run(hfo, tmp_path / "ours") == theirs
    assert ["s_0", "s_1"] in theirs  # before the deletion


def test_a_policy_that_asks_a_function(tmp_path: Path) -> None:
    """AXLearn imports the policy's class from this module."""
    from holdfast.orbax.checkpoint_manager import _ShouldSaveFnPolicy

    asked = []

    def should_save(step: int, latest: int | None) -> bool:
        asked.append((step, latest))
        return step != 1

    policy = _ShouldSaveFnPolicy(should_save)
    options = hfo.CheckpointManagerOptions(save_decision_policy=policy)
    with hfo.CheckpointManager(tmp_path, options=options) as manager:
        for step in range(3):
            manager.save(step, args=hfo.args.JsonSave({"a": step}))
        assert manager.all_steps() == [0, 2]
    assert asked == [(0, None), (1, 0), (2, 0)]


@pytest.mark.parametrize("make", [np.asarray, jax.numpy.asarray])
def test_steps_that_are_arrays(tmp_path: Path, make: Any) -> None:
    options = hfo.CheckpointManagerOptions(max_to_keep=2)
    with hfo.CheckpointManager(tmp_path, options=options) as manager:
        for step in range(4):
            assert manager.save(make(step), args=hfo.args.JsonSave({"a": step}))
        assert not manager.should_save(make(3))
        with pytest.raises(ValueError, match="step 3 already exists"):
            manager.save(make(3), args=hfo.args.JsonSave({"a": 3}), force=True)
        manager.wait_until_finished()
        assert manager.all_steps() == [2, 3]
        assert type(manager.latest_step()) is int
        assert sorted(os.listdir(tmp_path)) == ["2", "3"]
        assert manager.restore(make(2), args=hfo.args.JsonRestore()) == {"a": 2}
        assert manager.metrics(make(2)) is None
        manager.item_metadata(make(2))
        manager.delete(make(2))
        assert manager.all_steps() == [3]
        with pytest.raises(TypeError, match="integer"):
            manager.save(make([5, 6]), args=hfo.args.JsonSave({"a": 0}))


def test_name_formats_are_subscriptable(tmp_path: Path) -> None:
    step = hfo.path.step

    class Weekly(step.NameFormat[step.Metadata]):  # type: ignore[misc]
        def build_name(self, step: int) -> str:
            return f"week{step}"

    assert step.NameFormat in Weekly.__mro__
    assert Weekly.__abstractmethods__ == {"find_all", "find_step"}
