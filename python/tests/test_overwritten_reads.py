"""Reads during overwrites never report damage, and never mix two saves."""

from __future__ import annotations

import pathlib
import threading
from collections.abc import Callable

import numpy as np
import pytest

import holdfast

SAVES = 150


def value_of(tree: dict[str, np.ndarray]) -> int:
    first = int(tree["w"][0])
    assert (tree["w"] == first).all() and int(tree["n"]) == first
    return first


def of_leaves(path: pathlib.Path) -> None:
    with holdfast.open(path) as opened:
        value_of({"w": opened["w"][...], "n": opened["n"]})


def of_a_target(path: pathlib.Path) -> None:
    value_of(holdfast.load(path, {"w": np.zeros(1000), "n": 0}))


def of_a_check(path: pathlib.Path) -> None:
    report = holdfast.verify(path)
    assert report.ok, report


def of_a_root(path: pathlib.Path) -> None:
    value_of(holdfast.load(path.parent))


def of_steps(path: pathlib.Path) -> None:
    (step,) = holdfast.log(path.parent, count=1)
    assert step.step == 7


def of_a_conversion(path: pathlib.Path) -> None:
    target = path.parent.parent / f"{threading.get_ident()}.npz"
    holdfast.convert(path, target, format="npz", overwrite=True, durable=False)
    with np.load(target) as found:
        value_of({"w": found["w"], "n": found["n"]})


READS: list[Callable[[pathlib.Path], object]] = [
    lambda path: value_of(holdfast.load(path)),
    of_a_target,
    of_leaves,
    of_a_check,
    of_a_root,
    of_steps,
    of_a_conversion,
]
NAMES = ["load", "target", "open", "verify", "root", "log", "convert"]


@pytest.mark.parametrize("read", READS, ids=NAMES)
@pytest.mark.parametrize("compression", [None, "zstd"])
def test_no_reader_sees_damage(
    tmp_path: pathlib.Path,
    read: Callable[[pathlib.Path], object],
    compression: str | None,
) -> None:
    path = tmp_path / "run" / "7"

    def save(value: int) -> None:
        tree = {"n": value, "w": np.full(1000, float(value))}
        holdfast.save(
            path, tree, overwrite=True, durable=False, compression=compression
        )

    def save_all() -> None:
        for value in range(1, SAVES):
            save(value)

    save(0)
    saver = threading.Thread(target=save_all)
    saver.start()
    try:
        while saver.is_alive():
            try:
                read(path)
            except holdfast.errors.UnavailableError as error:
                assert "taken its place" in str(error)
    finally:
        saver.join()
    read(path)


def test_a_file_is_replaced(tmp_path: pathlib.Path) -> None:
    """A file's elements are never read with the header of its replacement."""
    path = tmp_path / "m.safetensors"

    def put(value: int) -> None:
        # Each save exchanges the places of the tensors.
        names = ("a", "b") if value % 2 else ("b", "a")
        tree = {name: np.full(500, float(value)) for name in names}
        tree["b" if value % 2 else "a"] += 1000
        source = tmp_path / "source"
        holdfast.save(source, tree, overwrite=True, durable=False)
        holdfast.convert(
            source, path, format="safetensors", overwrite=True, durable=False
        )

    put(0)
    opened = holdfast.open(path)
    put(1)
    with pytest.raises(holdfast.errors.UnavailableError, match="open it again"):
        opened["a"][...]
    assert holdfast.load(path)["a"][0] == 1
    with pytest.raises(holdfast.errors.UnavailableError, match="open it again"):
        opened.mmap()
