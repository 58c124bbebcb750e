"""Permissions of copies, and of files that replace other files."""

from __future__ import annotations

import os
import pathlib
import stat
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import holdfast
import holdfast.orbax as ocp

TREE = {"w": np.arange(300.0), "t": "words", "n": 3}
OTHER = {"w": np.arange(300.0) + 1, "t": "word", "n": 4}


@pytest.fixture(autouse=True)
def umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def close(path: pathlib.Path, file_mode: int = 0o600) -> None:
    if path.is_file():
        path.chmod(file_mode)
        return
    for folder, _, names in os.walk(path):
        os.chmod(folder, 0o700)
        for name in names:
            os.chmod(os.path.join(folder, name), file_mode)


def modes(path: pathlib.Path) -> set[int]:
    found = {stat.S_IMODE(path.stat().st_mode)}
    for folder, names, files in os.walk(path):
        for name in names + files:
            at = os.path.join(folder, name)
            if not os.path.islink(at):
                found.add(stat.S_IMODE(os.stat(at).st_mode))
    return found


def is_private(path: pathlib.Path) -> bool:
    return all(mode & 0o077 == 0 for mode in modes(path))


def save(path: pathlib.Path) -> None:
    holdfast.save(path, OTHER, overwrite=True)


def save_with_a_marker(path: pathlib.Path) -> None:
    with ocp.StandardCheckpointer() as saver:
        saver.save(path, {"w": OTHER["w"]}, force=True)
        saver.wait_until_finished()


def convert_to(name: str) -> Callable[[pathlib.Path], None]:
    def convert(path: pathlib.Path) -> None:
        source = path.parent / "source"
        holdfast.save(source, OTHER, overwrite=True)
        holdfast.convert(source, path, format=name, overwrite=True)

    return convert


def convert_in_place(path: pathlib.Path) -> None:
    holdfast.convert(path, path, zarr_format=3, overwrite=True)


REPLACERS = {
    "save": save,
    "orbax": save_with_a_marker,
    "convert to orbax": convert_to("orbax"),
    "convert to dcp": convert_to("dcp"),
    "convert in place": convert_in_place,
}


@pytest.mark.parametrize("how", sorted(REPLACERS))
def test_what_is_replaced_hands_its_permissions_on(
    tmp_path: pathlib.Path, how: str
) -> None:
    path = tmp_path / "c"
    holdfast.save(path, TREE)
    close(path)
    REPLACERS[how](path)
    assert is_private(path)
    assert np.array_equal(
        holdfast.load(path)["w"],
        TREE["w"] if how == "convert in place" else OTHER["w"],
    )


def test_a_wide_one_stays_wide(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "c"
    os.umask(0o002)
    holdfast.save(path, TREE)
    os.umask(0o077)
    holdfast.save(path, OTHER, overwrite=True)
    assert modes(path) == {0o775, 0o664}
    holdfast.save(tmp_path / "new", OTHER)
    assert modes(tmp_path / "new") == {0o700, 0o600}


def test_a_file_is_replaced(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "m.safetensors"
    convert_to("safetensors")(path)
    assert modes(path) == {0o644}
    path.chmod(0o640)
    convert_to("safetensors")(tmp_path / "m.safetensors")
    assert modes(path) == {0o640}


def merge(source: pathlib.Path, target: pathlib.Path) -> None:
    holdfast.save(source.parent / "open", {"x": np.arange(3.0)})
    holdfast.merge([source, source.parent / "open"], target)


COPIERS: dict[str, Callable[[pathlib.Path, pathlib.Path], object]] = {
    "convert": holdfast.convert,
    "to a file": lambda source, target: holdfast.convert(
        source, target, format="safetensors"
    ),
    "merge": merge,
    "rescue": holdfast.rescue,
    "view": lambda source, target: holdfast.view(source, target, link="copy"),
}


@pytest.mark.parametrize("how", sorted(COPIERS))
def test_a_copy_is_no_wider(tmp_path: pathlib.Path, how: str) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    holdfast.save(source, TREE, compression=None)
    close(source)
    COPIERS[how](source, target)
    assert is_private(target)
    assert np.array_equal(holdfast.load(target)["w"], TREE["w"])


@pytest.mark.parametrize("how", sorted(set(COPIERS) - {"merge"}))
def test_a_copy_of_a_file_is_no_wider(
    tmp_path: pathlib.Path, how: str
) -> None:
    source, target = tmp_path / "m.safetensors", tmp_path / "target"
    convert_to("safetensors")(source)
    close(source)
    COPIERS[how](source, target)
    assert is_private(target)
    assert modes(source) == {0o600}


def test_the_folder_alone_may_be_closed(tmp_path: pathlib.Path) -> None:
    source = tmp_path / "source"
    holdfast.save(source, TREE)
    source.chmod(0o700)
    holdfast.convert(source, tmp_path / "m.safetensors", format="safetensors")
    assert is_private(tmp_path / "m.safetensors")
    holdfast.convert(source, tmp_path / "copy")
    assert (tmp_path / "copy").stat().st_mode & 0o077 == 0


def test_links_are_left_alone(tmp_path: pathlib.Path) -> None:
    source = tmp_path / "m.safetensors"
    convert_to("safetensors")(source)
    source.chmod(0o640)
    holdfast.view(source, tmp_path / "view", link="hard")
    assert modes(source) == {0o640}
    holdfast.save(tmp_path / "view", TREE, overwrite=True)
    assert modes(source) == {0o640}


def test_materialize_in_place(tmp_path: pathlib.Path) -> None:
    holdfast.save(tmp_path / "run" / "0", TREE)
    holdfast.save(tmp_path / "run" / "1", OTHER, base=0)
    close(tmp_path / "run" / "1")
    holdfast.materialize(tmp_path / "run" / "1")
    assert is_private(tmp_path / "run" / "1")


@pytest.mark.skipif(os.getuid() != 0, reason="wants root")
def test_the_group_of_a_folder(tmp_path: pathlib.Path) -> None:
    os.chown(tmp_path, 0, 1000)
    tmp_path.chmod(0o2775)
    os.umask(0o007)
    path = tmp_path / "c"
    holdfast.save(path, TREE)
    os.chmod(path, 0o2750)
    holdfast.save(path, OTHER, overwrite=True)
    holdfast.convert(path, tmp_path / "copy")
    for at in (path, tmp_path / "copy"):
        assert stat.S_IMODE(at.stat().st_mode) == 0o2750
        for folder, _, names in os.walk(at):
            for name in names:
                assert os.stat(os.path.join(folder, name)).st_gid == 1000
