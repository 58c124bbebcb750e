"""Deltas: saving, loading, materializing, following, and patches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import holdfast


def _weights(step: int) -> dict[str, Any]:
    random = np.random.default_rng(0)
    weights = random.normal(0, 0.02, (200, 300)).astype(ml_dtypes.bfloat16)
    bits = weights.view(np.uint16)
    for number in range(1, step + 1):
        changes = np.random.default_rng(number).random(bits.shape) < 0.02
        bits[changes] += 1
    return {
        "layers": [{"w": weights}, {"w": np.full(7, step, np.float32)}],
        "frozen": np.arange(100),
        "step": step,
    }


@pytest.fixture
def chain(tmp_path: Path) -> Path:
    """Returns a root with a full step and three deltas."""
    holdfast.save(tmp_path / "0", _weights(0))
    for step in range(1, 4):
        holdfast.save(tmp_path / str(step), _weights(step), base=step - 1)
    return tmp_path


def _check(tree: Any, step: int) -> None:
    want = _weights(step)
    assert tree["step"] == step
    np.testing.assert_array_equal(tree["frozen"], want["frozen"])
    for got, layer in zip(tree["layers"], want["layers"], strict=True):
        got_bytes = np.ascontiguousarray(got["w"]).tobytes()
        assert got_bytes == layer["w"].tobytes()


def test_every_step_loads_in_every_way(chain: Path) -> None:
    for step in range(4):
        _check(holdfast.load(chain / str(step)), step)
        assert holdfast.verify(chain / str(step)).ok
    _check(holdfast.load(chain), 3)  # the newest
    opened = holdfast.open(chain / "3")
    part = opened["layers.0.w"][10:20, 5:7]
    want = _weights(3)["layers"][0]["w"][10:20, 5:7]
    assert np.asarray(part).tobytes() == np.ascontiguousarray(want).tobytes()
    target = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype)
        if isinstance(x, np.ndarray)
        else x,
        _weights(0),
    )
    _check(holdfast.load(chain / "2", target), 2)


def test_a_delta_is_small_and_knows_its_base(chain: Path) -> None:
    sizes = [
        sum(f.stat().st_size for f in (chain / name).rglob("*") if f.is_file())
        for name in ("0", "3")
    ]
    assert sizes[1] < sizes[0] / 4
    assert not holdfast.diff(chain / "2", chain / "3").same
    assert holdfast.diff(chain / "3", chain / "3").same


def test_a_background_save_may_be_a_delta(chain: Path) -> None:
    future = holdfast.save(
        chain / "4", _weights(4), base=chain / "3", background=True
    )
    future.result()
    _check(holdfast.load(chain / "4"), 4)


def test_a_policy_chooses_whole_steps_and_deltas(tmp_path: Path) -> None:
    policy = holdfast.DeltaPolicy(anchor_every=3)
    for step in range(5):
        holdfast.save(tmp_path / str(step), _weights(step), deltas=policy)
        _check(holdfast.load(tmp_path), step)
    deltas = [
        (tmp_path / str(step) / "_HOLDFAST_BASE").exists() for step in range(5)
    ]
    assert deltas == [False, True, True, False, True]
    with pytest.raises(holdfast.errors.InvalidArgumentError):
        holdfast.save(tmp_path / "9", {"a": 1}, base=4, deltas=policy)


def test_a_run_goes_on_beside_a_damaged_anchor_and_says_so(
    tmp_path: Path,
) -> None:
    policy = holdfast.DeltaPolicy(anchor_every=16)
    for step in range(2):
        holdfast.save(tmp_path / str(step), _weights(step), deltas=policy)
    for file in (tmp_path / "0" / "ocdbt.process_0" / "d").iterdir():
        file.write_bytes(bytes(byte ^ 4 for byte in file.read_bytes()))
    with pytest.warns(UserWarning, match=r"2 was saved as a whole step"):
        holdfast.save(tmp_path / "2", _weights(2), deltas=policy)
    holdfast.save(tmp_path / "3", _weights(3), deltas=policy)
    assert holdfast.open(tmp_path / "3").bases == [str(tmp_path / "2")]
    for step in (2, 3):
        _check(holdfast.load(tmp_path / str(step)), step)


def test_what_a_delta_needs_is_not_overwritten(chain: Path) -> None:
    with pytest.raises(
        holdfast.errors.FailedPreconditionError, match="materialize"
    ):
        holdfast.save(chain / "1", _weights(9), overwrite=True)
    with pytest.raises(holdfast.errors.InvalidArgumentError):
        holdfast.save(
            chain / "1", _weights(9), base=chain / "3", overwrite=True
        )
    _check(holdfast.load(chain / "3"), 3)


def test_a_delta_holds_no_other_format(chain: Path) -> None:
    for options in ({"base": 3}, {"deltas": holdfast.DeltaPolicy()}):
        with pytest.raises(
            holdfast.errors.InvalidArgumentError, match="also"
        ):
            holdfast.save(
                chain / "4", _weights(4), also="safetensors", **options
            )
    assert not (chain / "4").exists()


def test_a_missing_base_is_named(chain: Path) -> None:
    (chain / "1").rename(chain / "gone")
    with pytest.raises(holdfast.errors.NotFoundError, match="/1"):
        holdfast.load(chain / "3")
    with pytest.raises(holdfast.errors.NotFoundError):
        holdfast.save(chain / "9", _weights(9), base=7)
    assert not (chain / "9").exists()


def test_materialize_makes_a_whole_step(chain: Path) -> None:
    holdfast.materialize(chain / "2")
    for step in ("0", "1"):
        for file in sorted((chain / step).rglob("*"), reverse=True):
            file.rmdir() if file.is_dir() else file.unlink()
        (chain / step).rmdir()
    _check(holdfast.load(chain / "2"), 2)
    _check(holdfast.load(chain / "3"), 3)


def test_patches_are_what_changed(chain: Path) -> None:
    found = {patch.name: patch for patch in holdfast.patches(chain / "2")}
    assert sorted(found) == ["layers.0.w", "layers.1.w"]
    weights = _weights(1)["layers"][0]["w"]
    patch = found["layers.0.w"]
    assert patch.shape == weights.shape
    weights.reshape(-1)[patch.indices] = patch.values
    assert weights.tobytes() == _weights(2)["layers"][0]["w"].tobytes()
    with pytest.raises(holdfast.errors.FailedPreconditionError):
        holdfast.patches(chain / "0")


def _zeros(library: str) -> Any:
    if library == "torch":
        torch = pytest.importorskip("torch")
        return torch.zeros(200, 300, dtype=torch.bfloat16)
    if library == "jax":
        return jnp.zeros((200, 300), jnp.bfloat16)
    return np.zeros((200, 300), ml_dtypes.bfloat16)


@pytest.mark.parametrize("library", ["numpy", "torch", "jax"])
def test_a_follower_keeps_arrays_at_the_newest_step(
    chain: Path, library: str
) -> None:
    array = _zeros(library)
    layers = [{"w": array}, {"w": np.zeros(7, np.float32)}]
    follower = holdfast.Follower(chain, {"layers": layers, "step": "kept"})
    for step in (3, 4, 5):
        if step > 3:
            holdfast.save(chain / str(step), _weights(step), base=step - 1)
        want = _weights(step)["layers"][0]["w"]
        update = follower.poll()
        assert update is not None
        assert (update.step, follower.step) == (step, step)
        assert update.delta_count == (0 if step == 3 else 1)
        got = follower.tree["layers"][0]["w"]
        if library == "torch":
            assert got is array
            got = got.view(pytest.importorskip("torch").int16).numpy()
        assert np.asarray(got).tobytes() == want.tobytes()
        assert follower.tree["step"] == "kept"
        assert follower.poll() is None


def test_updates_end_when_nothing_comes(chain: Path) -> None:
    follower = holdfast.Follower(chain, {"frozen": np.zeros(100, np.int64)})
    found = [
        update.step
        for update in follower.updates(
            interval_seconds=0.01, timeout_seconds=0.05
        )
    ]
    assert found == [3]


def test_arrays_that_cannot_be_written_in_place_are_refused(
    chain: Path,
) -> None:
    with pytest.raises(holdfast.errors.InvalidArgumentError, match="contig"):
        holdfast.Follower(chain, {"frozen": np.zeros(200, np.int64)[::2]})
    follower = holdfast.Follower(chain, {"frozen": np.zeros(3, np.int64)})
    with pytest.raises(holdfast.errors.InvalidArgumentError, match="frozen"):
        follower.poll()
