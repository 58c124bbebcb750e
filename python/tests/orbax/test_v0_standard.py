"""StandardCheckpointer saves in the background from a snapshot."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import numpy as np
import pytest

import holdfast.orbax as ocp


class Gate:
    """Holds a save back before its commit."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.opened = threading.Event()

    def __call__(self) -> None:
        self.reached.set()
        assert self.opened.wait(timeout=60)


def gated() -> tuple[ocp.StandardCheckpointer, Gate]:
    gate = Gate()
    options = ocp.options.AsyncOptions(post_finalization_callback=gate)
    return ocp.StandardCheckpointer(async_options=options), gate


def test_save_returns_before_the_commit(tmp_path: Path) -> None:
    checkpointer, gate = gated()
    array = np.arange(1000.0)
    checkpointer.save(tmp_path / "c", {"w": array})
    array[:] = -1
    assert gate.reached.wait(timeout=60)
    assert not (tmp_path / "c").exists()
    gate.opened.set()
    checkpointer.wait_until_finished()
    restored = checkpointer.restore(tmp_path / "c")
    np.testing.assert_array_equal(restored["w"], np.arange(1000.0))


def test_restore_waits_for_the_save(tmp_path: Path) -> None:
    checkpointer, gate = gated()
    checkpointer.save(tmp_path / "c", {"a": 1})
    threading.Timer(0.01, gate.opened.set).start()
    assert checkpointer.restore(tmp_path / "c") == {"a": 1}


def test_next_save_waits(tmp_path: Path) -> None:
    checkpointer, gate = gated()
    checkpointer.save(tmp_path / "1", {"a": 1})
    threading.Timer(0.01, gate.opened.set).start()
    checkpointer.save(tmp_path / "2", {"a": 2})
    assert (tmp_path / "1").exists()
    checkpointer.close()
    assert sorted(os.listdir(tmp_path)) == ["1", "2"]


def test_background_error_is_raised_once(tmp_path: Path) -> None:
    def fail() -> None:
        raise OSError("the disk has gone")

    options = ocp.options.AsyncOptions(post_finalization_callback=fail)
    checkpointer = ocp.StandardCheckpointer(async_options=options)
    checkpointer.save(tmp_path / "c", {"a": 1})
    with pytest.raises(OSError, match="the disk has gone"):
        checkpointer.wait_until_finished()
    checkpointer.wait_until_finished()
    checkpointer.check_for_errors()
    assert os.listdir(tmp_path) == []


def test_refusals_are_immediate(tmp_path: Path) -> None:
    with ocp.StandardCheckpointer() as checkpointer:
        with pytest.raises(ValueError) as caught:
            checkpointer.save(tmp_path / "c", {"a": {"b": "text"}})
        assert str(caught.value) == (
            "Unsupported type: <class 'str'> for key: ('a', 'b')."
        )
        with pytest.raises(ValueError, match="Checkpoint path should be abs"):
            checkpointer.save("relative", {"a": 1})
        checkpointer.save(tmp_path / "c", {"a": 1})
        checkpointer.wait_until_finished()
        with pytest.raises(ValueError) as caught:
            checkpointer.save(tmp_path / "c", {"a": 1})
        assert str(caught.value) == (
            f"Destination {tmp_path / 'c'} already exists."
        )


def test_timeout_must_be_positive() -> None:
    options = ocp.options.AsyncOptions(timeout_secs=0)
    with pytest.raises(ValueError) as caught:
        ocp.StandardCheckpointer(async_options=options)
    assert str(caught.value) == "Timeout must be positive, but got 0 seconds."


def test_numpy_scalars_become_arrays(tmp_path: Path) -> None:
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(
            tmp_path / "c", {"f": np.float32(2), "d": np.float64(3), "i": 4}
        )
        restored = checkpointer.restore(tmp_path / "c")
    assert restored["f"].dtype == np.float32 and restored["f"].shape == ()
    assert isinstance(restored["d"], np.ndarray)
    assert restored["i"] == 4 and type(restored["i"]) is int


def test_numpy_target_of_another_shape_is_ignored(tmp_path: Path) -> None:
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(tmp_path / "c", {"w": np.arange(6.0)})
        target = {"w": np.zeros((2, 2), np.float16)}
        restored = checkpointer.restore(tmp_path / "c", target)
    assert restored["w"].shape == (6,)
    assert restored["w"].dtype == np.float16
