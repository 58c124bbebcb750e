"""Composite items and their handlers: the same files as Orbax's, and each
package reads the other's."""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")
stock = pytest.importorskip("orbax.checkpoint")

import holdfast.orbax as ours  # noqa: E402


def _value_type() -> Any:
    from google.protobuf import struct_pb2

    return struct_pb2.Struct


def proto() -> Any:
    message = _value_type()()
    message.update({"name": "run", "steps": [1, 2.5]})
    return message


TREE = {"w": np.arange(12, dtype=np.float32).reshape(3, 4), "step": 7}
# How each item is saved and restored.
ITEMS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "pytree": (
        lambda ocp: ocp.args.PyTreeSave({**TREE, "text": "abc"}),
        lambda ocp: ocp.args.PyTreeRestore(),
    ),
    "standard": (
        lambda ocp: ocp.args.StandardSave(TREE),
        lambda ocp: ocp.args.StandardRestore(),
    ),
    "json": (
        lambda ocp: ocp.args.JsonSave({"a": [1, None, "ü"]}),
        lambda ocp: ocp.args.JsonRestore(),
    ),
    "array": (
        lambda ocp: ocp.args.ArraySave(np.arange(5)),
        lambda ocp: ocp.args.ArrayRestore(),
    ),
    "number": (
        lambda ocp: ocp.args.ArraySave(2.5),
        lambda ocp: ocp.args.ArrayRestore(),
    ),
    "proto": (
        lambda ocp: ocp.args.ProtoSave(proto()),
        lambda ocp: ocp.args.ProtoRestore(_value_type()),
    ),
    "key": (
        lambda ocp: ocp.args.JaxRandomKeySave(jax.random.key(3)),
        lambda ocp: ocp.args.JaxRandomKeyRestore(),
    ),
    "raw_key": (
        lambda ocp: ocp.args.JaxRandomKeySave(jax.random.PRNGKey(4)),
        lambda ocp: ocp.args.JaxRandomKeyRestore(),
    ),
    "legacy": (
        lambda ocp: ocp.args.NumpyRandomKeySave(
            np.random.RandomState(5).get_state()
        ),
        lambda ocp: ocp.args.NumpyRandomKeyRestore(),
    ),
    "state": (
        lambda ocp: ocp.args.NumpyRandomKeySave(
            np.random.RandomState(5).get_state(legacy=False)
        ),
        lambda ocp: ocp.args.NumpyRandomKeyRestore(),
    ),
}


def save(ocp: Any, path: Path) -> None:
    with ocp.AsyncCheckpointer(ocp.CompositeCheckpointHandler()) as saver:
        items = {name: make(ocp) for name, (make, _) in ITEMS.items()}
        saver.save(path, ocp.args.Composite(**items))


def restore(ocp: Any, path: Path) -> dict[str, Any]:
    with ocp.Checkpointer(ocp.CompositeCheckpointHandler()) as reader:
        items = {name: how(ocp) for name, (_, how) in ITEMS.items()}
        return dict(reader.restore(path, ocp.args.Composite(**items)).items())


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: plain(child) for name, child in value.items()}
    if isinstance(value, list | tuple):
        return [type(value).__name__, *map(plain, value)]
    if isinstance(value, jax.Array):
        kind = str(value.dtype)
        if jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
            value = jax.random.key_data(value)
        return kind, np.asarray(value).tolist()
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.tolist()
    return type(value).__name__, str(value)


def described(path: Path) -> dict[str, Any]:
    """Returns the texts of small files, and the names of the others except for
    data files."""
    found: dict[str, Any] = {}
    for file in sorted(path.rglob("*")):
        name = str(file.relative_to(path))
        if re.search(r"(^|/)d/|_HOLDFAST_DIGESTS", name) or file.is_dir():
            continue
        found[name] = None
        texts = ("commit_success.txt", "metadata", "proto.pbtxt")
        if file.name in texts or file.name.endswith("_METADATA"):
            text = file.read_text().replace(str(path.parent), "")
            text = text.removesuffix("\nIts checksums are in _HOLDFAST_DIGESTS")
            found[name] = re.sub(r"/?(ours|stock)", "", text)
        if file.name == "_CHECKPOINT_METADATA":
            data = json.loads(file.read_text())
            assert data.pop("init_timestamp_nsecs")
            assert data.pop("commit_timestamp_nsecs")
            found[name] = data
        elif file.name == "_METADATA":
            found[name] = json.loads(file.read_text())
    return found


def test_files_and_values_both_ways(tmp_path: Path) -> None:
    save(ours, tmp_path / "ours")
    save(stock, tmp_path / "stock")
    assert described(tmp_path / "ours") == described(tmp_path / "stock")
    want = plain(restore(stock, tmp_path / "stock"))
    assert plain(restore(stock, tmp_path / "ours")) == want
    assert plain(restore(ours, tmp_path / "stock")) == want
    assert plain(restore(ours, tmp_path / "ours")) == want


def test_without_arguments(tmp_path: Path) -> None:
    """Without arguments, `item_handlers` decides how each item is restored."""
    items = {n: ITEMS[n][0](ours) for n in ("standard", "json", "array")}
    with ours.Checkpointer(ours.CompositeCheckpointHandler()) as saver:
        saver.save(tmp_path / "c", ours.args.Composite(**items))
    reader = stock.Checkpointer(stock.CompositeCheckpointHandler())
    restored = reader.restore(tmp_path / "c")
    assert restored.json == {"a": [1, None, "ü"]}
    np.testing.assert_array_equal(restored.array, np.arange(5))
    np.testing.assert_array_equal(restored.standard["w"], TREE["w"])


class Plain:
    """Makes the same handler for both packages, with the package's own base
    class."""

    @staticmethod
    def make(ocp: Any, *, fails: bool = False) -> Any:
        class TextHandler(ocp.CheckpointHandler):  # type: ignore[misc]
            def save(self, directory: Any, args: Any) -> None:
                (directory / "text").write_text(args.text)
                if fails:
                    raise OSError("no room")

            def restore(self, directory: Any, args: Any = None) -> str:
                return str((directory / "text").read_text())

        @dataclasses.dataclass
        class TextArgs(ocp.args.CheckpointArgs):  # type: ignore[misc]
            text: str = ""

        ocp.args.register_with_handler(
            TextHandler, for_save=True, for_restore=True
        )(TextArgs)
        return TextArgs


@pytest.mark.parametrize("ocp", [ours, stock])
def test_a_handler_of_ones_own(ocp: Any, tmp_path: Path) -> None:
    text_args = Plain.make(ocp)
    with ocp.AsyncCheckpointer(ocp.CompositeCheckpointHandler()) as saver:
        saver.save(tmp_path / "c", ocp.args.Composite(t=text_args("abc")))
        saver.wait_until_finished()
        assert saver.restore(tmp_path / "c").t == "abc"
        metadata = json.loads((tmp_path / "c/_CHECKPOINT_METADATA").read_text())
    assert list(metadata["item_handlers"]) == ["t"]
    assert metadata["item_handlers"]["t"].endswith("make.<locals>.TextHandler")


def test_an_item_that_fails(tmp_path: Path) -> None:
    failing = Plain.make(ours, fails=True)
    saver = ours.AsyncCheckpointer(ours.CompositeCheckpointHandler())
    items = {"a": ours.args.StandardSave(TREE), "b": failing("abc")}
    with pytest.raises(OSError, match="no room"):
        saver.save(tmp_path / "c", ours.args.Composite(**items))
    assert os.listdir(tmp_path) == []


def test_handlers_without_arguments(tmp_path: Path) -> None:
    class Old(ours.CheckpointHandler):
        def save(self, directory: Any, item: Any, suffix: str = "") -> None:
            (directory / "text").write_text(item + suffix)

        def restore(self, directory: Any, item: Any = None) -> str:
            return str((directory / "text").read_text())

    with ours.CheckpointManager(
        tmp_path, {"text": ours.Checkpointer(Old())}
    ) as manager:
        manager.save(1, {"text": "abc"}, {"text": {"suffix": "d"}})
        assert manager.restore(1, {"text": None})["text"] == "abcd"
    metadata = json.loads((tmp_path / "1/_CHECKPOINT_METADATA").read_text())
    assert metadata["item_handlers"] == {
        "text": "orbax.checkpoint._src.handlers.composite_checkpoint_handler"
        "._LegacyCheckpointHandlerWrapper"
    }


def _failing_calls() -> dict[str, Callable[[Any, Path], Any]]:
    def composite(ocp: Any, **items: Any) -> Any:
        return ocp.args.Composite(**items)

    def save_with(ocp: Any, path: Path, handler: Any, **items: Any) -> None:
        saver = ocp.Checkpointer(handler)
        saver.save(path / "c", composite(ocp, **items))

    return {
        "dunder": lambda ocp, _: composite(ocp, __a=1),
        "none": lambda ocp, path: save_with(
            ocp, path, ocp.CompositeCheckpointHandler(), a=None
        ),
        "finalize": lambda ocp, path: ocp.CompositeCheckpointHandler().finalize(
            path
        ),
        "both": lambda ocp, _: ocp.CompositeCheckpointHandler(
            "a", handler_registry=ocp.DefaultCheckpointHandlerRegistry()
        ),
        "neither": lambda ocp, _: ocp.args.register_with_handler(object),
        "unregistered": lambda ocp, _: ocp.args.get_registered_handler_cls(
            type("Own", (ocp.args.CheckpointArgs,), {"__module__": "m"})
        ),
        "array": lambda ocp, path: save_with(
            ocp,
            path,
            ocp.CompositeCheckpointHandler(),
            a=ocp.args.ArraySave("text"),
        ),
        "key": lambda ocp, path: save_with(
            ocp,
            path,
            ocp.CompositeCheckpointHandler(),
            a=ocp.args.JaxRandomKeySave(np.zeros(2)),
        ),
        "state": lambda ocp, path: save_with(
            ocp,
            path,
            ocp.CompositeCheckpointHandler(),
            a=ocp.args.NumpyRandomKeySave([1]),
        ),
        "json": lambda ocp, path: ocp.JsonCheckpointHandler().save(
            path, ocp.args.JsonSave({})
        ),
        "proto": lambda ocp, path: ocp.ProtoCheckpointHandler().restore(path),
    }


@pytest.mark.parametrize("name", list(_failing_calls()))
def test_error_texts(name: str, tmp_path: Path) -> None:
    call = _failing_calls()[name]
    found = []
    for ocp in (stock, ours):
        # A new directory each time, because Orbax leaves directories behind.
        path = tmp_path / str(len(found))
        path.mkdir()
        with pytest.raises((ValueError, TypeError)) as caught:
            call(ocp, path)
        found.append((caught.type, str(caught.value)))
    assert found[0] == found[1]


def test_other_arguments_for_an_item(tmp_path: Path) -> None:
    saver = ours.Checkpointer(ours.CompositeCheckpointHandler())
    saver.save(
        tmp_path / "c", ours.args.Composite(a=ours.args.StandardSave(TREE))
    )
    with pytest.raises(
        ValueError, match='Item "a" and args ".*" does not match'
    ):
        saver.save(
            tmp_path / "d", ours.args.Composite(a=ours.args.JsonSave({}))
        )
    assert os.listdir(tmp_path) == ["c"]


def test_items_are_temporary_until_finalize(tmp_path: Path) -> None:
    handler = ours.CompositeCheckpointHandler()
    handler.save(tmp_path, ours.args.Composite(a=ours.args.JsonSave({"b": 1})))
    assert os.listdir(tmp_path) == ["a.orbax-checkpoint-tmp"]
    with pytest.raises(ValueError) as caught:
        handler.metadata(tmp_path)
    assert str(caught.value) == (
        'Item "a.orbax-checkpoint-tmp" was found in the checkpoint, but it is a'
        " temporary item. Please call finalize() before metadata()."
    )
    handler.finalize(tmp_path)
    assert os.listdir(tmp_path) == ["a"]
    assert handler.restore(tmp_path).a == {"b": 1}
