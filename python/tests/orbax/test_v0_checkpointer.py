"""Checkpointer: paths, atomicity, metadata, users' handlers."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import holdfast.orbax as ocp


class TextHandler(ocp.CheckpointHandler):
    """A user's handler, which writes a string to a file."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def save(self, directory: Any, args: TextSave) -> None:
        if args.text == "refuse":
            (directory / "half").write_text("written")
            raise RuntimeError("the handler refuses")
        (directory / "text").write_text(args.text)

    def restore(self, directory: Any, args: TextRestore) -> str:
        return str((directory / "text").read_text()) + args.suffix

    def metadata(self, directory: Any) -> int:
        return len((directory / "text").read_text())

    def finalize(self, directory: Any) -> None:
        self.calls.append("finalize")
        assert (directory / "text").exists()

    def close(self) -> None:
        self.calls.append("close")


@ocp.args.register_with_handler(TextHandler, for_save=True)
@dataclasses.dataclass
class TextSave(ocp.args.CheckpointArgs):
    text: str


@ocp.args.register_with_handler(TextHandler, for_restore=True)
@dataclasses.dataclass
class TextRestore(ocp.args.CheckpointArgs):
    suffix: str = ""


class PlainHandler:
    """A handler without registered arguments."""

    def save(self, directory: Any, item: int, *, times: int = 1) -> None:
        (directory / "number").write_text(str(item * times))

    def restore(self, directory: Any) -> int:
        return int((directory / "number").read_text())

    def metadata(self, directory: Any) -> None:
        raise NotImplementedError

    def finalize(self, directory: Any) -> None:
        pass

    def close(self) -> None:
        pass


def tree() -> dict[str, Any]:
    return {"w": np.arange(6.0), "step": 3}


@pytest.mark.parametrize("allow_legacy", [False, True])
def test_commit_file_mode(tmp_path: Path, allow_legacy: bool) -> None:
    path = tmp_path / "c"
    ocp.PyTreeCheckpointer().save(path, tree())
    options = ocp.options.AtomicityOptions(
        ocp.options.AtomicityMode.COMMIT_FILE, allow_legacy
    )
    checkpointer = ocp.Checkpointer(
        ocp.PyTreeCheckpointHandler(), atomicity_options=options
    )
    assert checkpointer.restore(path)["step"] == 3
    (path / "commit_success.txt").unlink()
    if allow_legacy:
        assert checkpointer.restore(path)["step"] == 3
        return
    with pytest.raises(ValueError, match="Found incomplete checkpoint at"):
        checkpointer.restore(path)


def test_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError) as caught:
        ocp.PyTreeCheckpointer().save("here", tree())
    message = "Checkpoint path should be absolute. Got here"
    assert str(caught.value) == message
    ocp.PyTreeCheckpointer().save(tmp_path / "here", tree())
    with pytest.raises(ValueError) as caught:
        ocp.PyTreeCheckpointer().restore("here")
    assert str(caught.value) == message


def test_destination_exists(tmp_path: Path) -> None:
    path = tmp_path / "c"
    checkpointer = ocp.PyTreeCheckpointer()
    checkpointer.save(path, {"a": 1})
    with pytest.raises(ValueError) as caught:
        checkpointer.save(path, {"a": 2})
    assert str(caught.value) == f"Destination {path} already exists."
    checkpointer.save(path, {"b": 2}, force=True)
    assert checkpointer.restore(path) == {"b": 2}
    assert os.listdir(tmp_path) == ["c"]


def test_failed_overwrite_keeps_the_old(tmp_path: Path) -> None:
    path = tmp_path / "c"
    checkpointer = ocp.PyTreeCheckpointer()
    checkpointer.save(path, {"a": 1})
    with pytest.raises(ValueError, match="TypeHandler lookup failed for"):
        checkpointer.save(path, {"a": 1j}, force=True)
    assert checkpointer.restore(path) == {"a": 1}


def test_users_handler(tmp_path: Path) -> None:
    handler = TextHandler()
    path = tmp_path / "c"
    with ocp.Checkpointer(handler) as checkpointer:
        assert checkpointer.handler is handler
        checkpointer.save(path, TextSave("hello"), custom_metadata={"k": 1})
        assert checkpointer.restore(path, suffix="!") == "hello!"
        assert checkpointer.restore(path, args=TextRestore("?")) == "hello?"
        metadata = checkpointer.metadata(path)
    assert handler.calls == ["finalize", "close"]
    assert metadata.item_metadata == 5
    assert metadata.custom_metadata == {"k": 1}
    assert metadata.item_handlers == f"{__name__}.TextHandler"
    assert metadata.init_timestamp_nsecs < metadata.commit_timestamp_nsecs
    marker = (path / "commit_success.txt").read_text().split("\n")
    assert marker[0] == f"Checkpoint commit was successful to {path}"


def test_users_handler_that_fails(tmp_path: Path) -> None:
    checkpointer = ocp.Checkpointer(TextHandler())
    with pytest.raises(RuntimeError, match="the handler refuses"):
        checkpointer.save(tmp_path / "c", text="refuse")
    assert os.listdir(tmp_path) == []


def test_handler_without_args(tmp_path: Path) -> None:
    checkpointer = ocp.Checkpointer(PlainHandler())
    checkpointer.save(tmp_path / "c", 7, times=3)
    assert checkpointer.restore(tmp_path / "c") == 21
    assert checkpointer.metadata(tmp_path / "c").item_metadata is None


def test_registration() -> None:
    assert ocp.args.get_registered_handler_cls(TextSave) is TextHandler
    assert ocp.args.get_registered_args_cls(TextHandler) == (
        TextSave,
        TextRestore,
    )
    assert not ocp.args.has_registered_args(PlainHandler())
    with pytest.raises(ValueError) as caught:
        ocp.args.get_registered_args_cls(PlainHandler)
    assert str(caught.value) == (
        "Unable to find registered `CheckpointArgs` for save for"
        f" {PlainHandler}."
    )
    with pytest.raises(ValueError, match="cannot both be False"):
        ocp.args.register_with_handler(TextHandler)
    with pytest.raises(TypeError, match="must subclass `CheckpointArgs`"):
        ocp.args.register_with_handler(TextHandler, for_save=True)(int)


def test_handler_names_in_checkpoints() -> None:
    class Mine(ocp.PyTreeCheckpointHandler):
        pass

    module = "orbax.checkpoint._src.handlers.pytree_checkpoint_handler"
    typestr = ocp.PyTreeCheckpointHandler.typestr()
    assert typestr == f"{module}.PyTreeCheckpointHandler"
    assert Mine.typestr().endswith("Mine")
    assert not Mine.typestr().startswith("orbax")


def test_step_metadata(tmp_path: Path) -> None:
    path = tmp_path / "c"
    ocp.PyTreeCheckpointer().save(
        path,
        args=ocp.args.PyTreeSave(tree(), custom_metadata={"item": 1}),
        custom_metadata={"step": 2},
    )
    metadata = ocp.PyTreeCheckpointer().metadata(path)
    assert metadata.custom_metadata == {"step": 2}
    assert metadata.item_metadata.custom_metadata == {"item": 1}
    assert metadata.item_metadata["w"].shape == (6,)
    assert metadata.metrics == {}
    # Without checksums, as from stock Orbax.
    (path / "_HOLDFAST_DIGESTS").unlink()
    file = path / "_CHECKPOINT_METADATA"
    data = json.loads(file.read_text()) | {"custom_metadata": {}, "new": 5}
    file.write_text(json.dumps(data))
    metadata = ocp.metadata.get_step_metadata(path)
    assert metadata.custom_metadata == {"new": 5}
    file.write_text("{")
    assert ocp.PyTreeCheckpointer().metadata(path).custom_metadata == {}
    with pytest.raises(ValueError, match="Step metadata not found at"):
        ocp.metadata.get_step_metadata(path)


def test_item_metadata_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "c"
    ocp.PyTreeCheckpointer().save(path, tree())
    for name in ("_METADATA", "_HOLDFAST_DIGESTS"):
        (path / name).unlink()
    assert ocp.PyTreeCheckpointer().metadata(path).item_metadata is None


def test_custom_metadata_of_the_save_is_checked(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Object must be of type"):
        ocp.PyTreeCheckpointer().save(
            tmp_path / "c",
            tree(),
            custom_metadata=[1],  # type: ignore[arg-type]
        )
    assert os.listdir(tmp_path) == []


def test_names_that_nobody_has() -> None:
    with pytest.raises(AttributeError) as caught:
        _ = ocp.NoSuchName
    assert str(caught.value) == (
        "module 'holdfast.orbax' has no attribute 'NoSuchName'"
    )


_WITHOUT_JAX = """
import sys
import numpy as np
import holdfast.orbax as ocp

path = sys.argv[1]
tree = {"a": np.arange(3), "b": [1, 2.5, "x", None, {}, (np.ones(2), ())]}
ocp.PyTreeCheckpointer().save(path + "/p", tree)
with ocp.StandardCheckpointer() as checkpointer:
    checkpointer.save(path + "/s", {"a": np.arange(3), "n": 1})
    checkpointer.wait_until_finished()
    restored = checkpointer.restore(path + "/s", {"a": np.zeros(3), "n": 0})
    assert restored["a"].dtype == np.float64 and restored["n"] == 1
restored = ocp.PyTreeCheckpointer().restore(path + "/p")
assert restored["b"][:5] == [1, 2.5, "x", None, {}]
restored = ocp.PyTreeCheckpointer().restore(path + "/p", item=tree)
assert type(restored["b"][5]) is tuple and restored["b"][5][1] == ()
metadata = ocp.PyTreeCheckpointer().metadata(path + "/p").item_metadata
args = ocp.checkpoint_utils.construct_restore_args(metadata)
restored = ocp.PyTreeCheckpointer().restore(path + "/p", restore_args=args)
assert restored["a"].tolist() == [0, 1, 2]
for name in ("jax", "jaxlib", "orbax", "tensorstore", "etils"):
    assert name not in sys.modules, name
"""


def test_without_jax(tmp_path: Path, run_python: Callable[..., Any]) -> None:
    run_python(_WITHOUT_JAX, tmp_path)
