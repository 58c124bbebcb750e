"""holdfast.orbax.v1: several checkpointables, their handlers, registries."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import holdfast
from holdfast import errors
from holdfast.orbax import v1
from holdfast.orbax.v1.errors import (
    AlreadyExistsError,
    NoEntryError,
)


class Counter:
    """An object that saves and loads itself."""

    def __init__(self, count: int = 0) -> None:
        self.count = count

    async def save(self, directory: Any) -> Any:
        count = self.count

        async def write() -> None:
            path = await directory.await_creation()
            (path / "count").write_text(str(count))
            below = directory / "below"
            assert below.path == path / "below"
            (await below.await_creation()).mkdir()

        return write()

    async def load(self, directory: Any) -> Any:
        async def read() -> None:
            self.count = int((directory / "count").read_text())

        return read()


class Text:
    """A value that only TextHandler accepts."""

    def __init__(self, value: str) -> None:
        self.value = value


class TextHandler:
    """Saves a Text as a file."""

    async def save(self, directory: Any, checkpointable: Text) -> Any:
        async def write() -> None:
            path = await directory.await_creation()
            (path / "text").write_text(checkpointable.value)

        return write()

    async def load(self, directory: Any, abstract: Any = None) -> Any:
        async def read() -> Text:
            return Text((directory / "text").read_text())

        return read()

    async def metadata(self, directory: Any) -> str:
        return "a text"

    def is_handleable(self, checkpointable: Any) -> bool:
        return isinstance(checkpointable, Text)

    def is_abstract_handleable(self, abstract: Any) -> bool | None:
        return abstract is Text


def context_with(**handlers: Any) -> v1.Context:
    registry = v1.handlers.local_registry()
    for name, handler in handlers.items():
        registry.add(handler, checkpointable_name=name)
    return v1.Context(
        checkpointables_options=v1.options.CheckpointablesOptions(
            registry=registry
        )
    )


def typestrs(path: Path) -> Any:
    recorded = json.loads((path / "_CHECKPOINT_METADATA").read_text())
    return recorded["item_handlers"]


def test_trees_and_objects(ckpt: Path) -> None:
    v1.save_checkpointables(
        ckpt, {"state": {"a": np.ones(2)}, "it": Counter(7), "opt": {"n": 3}}
    )
    handlers = "orbax.checkpoint.experimental.v1._src.handlers"
    assert typestrs(ckpt) == {
        "state": f"{handlers}.pytree_handler.PyTreeHandler",
        "it": f"{handlers}.stateful_checkpointable_handler"
        ".StatefulCheckpointableHandler",
        "opt": f"{handlers}.pytree_handler.PyTreeHandler",
    }
    counter = Counter()
    loaded = v1.load_checkpointables(ckpt, {"it": counter, "opt": None})
    assert loaded == {"it": counter, "opt": {"n": 3}}
    assert counter.count == 7
    assert (ckpt / "it" / "below").is_dir()


def test_object_needs_an_instance(ckpt: Path) -> None:
    v1.save_checkpointables(ckpt, {"it": Counter(7)})
    with pytest.raises(ValueError, match="you must pass an instance"):
        v1.load_checkpointables(ckpt)
    assert v1.checkpointables_metadata(ckpt).metadata == {"it": None}


def test_json_by_name(ckpt: Path) -> None:
    document = {"a": [1, None, {"b": True}]}
    with context_with(cfg=v1.handlers.JsonHandler):
        v1.save_checkpointables(ckpt, {"cfg": document, "state": {"a": 1}})
        assert v1.load_checkpointables(ckpt)["cfg"] == document
    assert (ckpt / "cfg" / "data.json").read_text() == json.dumps(document)
    assert v1.load_checkpointables(ckpt) == {
        "cfg": document,
        "state": {"a": 1},
    }
    assert v1.checkpointables_metadata(ckpt).metadata == {
        "cfg": None,
        "state": {"a": 0},
    }


def test_json_where_no_tree_will_do(ckpt: Path) -> None:
    v1.save_checkpointables(ckpt, {"odd": {1: "x", "b": 2}})
    assert typestrs(ckpt)["odd"].endswith("json_handler.JsonHandler")
    assert v1.load_checkpointables(ckpt) == {"odd": {"1": "x", "b": 2}}


def test_json_of_the_older_interface(ckpt: Path) -> None:
    with context_with(cfg=v1.handlers.JsonHandler):
        v1.save_checkpointables(ckpt, {"cfg": {"a": 1}})
    (ckpt / "_HOLDFAST_DIGESTS").unlink()  # as Orbax leaves it
    (ckpt / "cfg" / "data.json").rename(ckpt / "cfg" / "metadata")
    metadata = ckpt / "_CHECKPOINT_METADATA"
    new, old = (
        "experimental.v1._src.handlers.json_handler.JsonHandler",
        "_src.handlers.json_checkpoint_handler.JsonCheckpointHandler",
    )
    text = metadata.read_text()
    assert new in text
    metadata.write_text(text.replace(new, old))
    assert v1.load_checkpointables(ckpt) == {"cfg": {"a": 1}}
    (ckpt / "cfg" / "metadata").unlink()
    with pytest.raises(NoEntryError) as info:
        v1.load_checkpointables(ckpt)
    assert isinstance(info.value.__cause__, FileNotFoundError)
    assert "['data.json', 'data.json', 'metadata']" in str(info.value.__cause__)


def test_what_is_left_after_a_deletion_is_still_checked(ckpt: Path) -> None:
    tree = {"w": np.arange(3)}
    v1.save_checkpointables(ckpt, {"state": tree, "old": tree, "cfg": {"a": 1}})
    assert '"old/' in (ckpt / "_HOLDFAST_DIGESTS").read_text()
    assert v1.delete(ckpt, checkpointable_name="old")
    listed = json.loads((ckpt / "_HOLDFAST_DIGESTS").read_text())["files"]
    names = [name for name, *_ in listed]
    assert "_CHECKPOINT_METADATA" in names and "cfg/_HOLDFAST_DIGESTS" in names
    assert not any(name.startswith("old/") for name in names)
    assert holdfast.verify(ckpt).ok
    metadata = ckpt / "_CHECKPOINT_METADATA"
    metadata.write_text(metadata.read_text().replace("nsecs", "nsecz"))
    with pytest.raises(errors.DataLossError, match="_CHECKPOINT_METADATA"):
        v1.load_checkpointables(ckpt)


def test_damaged_checksums_vouch_for_nothing_after_a_deletion(
    ckpt: Path,
) -> None:
    tree = {"w": np.arange(3)}
    v1.save_checkpointables(ckpt, {"state": tree, "old": tree})
    (ckpt / "_HOLDFAST_DIGESTS").write_text("{")
    assert v1.delete(ckpt, checkpointable_name="old")
    assert not (ckpt / "_HOLDFAST_DIGESTS").exists()
    assert v1.load(ckpt)["w"].tolist() == [0, 1, 2]


def test_own_handler(ckpt: Path) -> None:
    with pytest.raises(NoEntryError, match="identify a valid handler"):
        v1.save_checkpointables(ckpt, {"t": Text("x")})
    assert list(ckpt.parent.iterdir()) == []
    with context_with(t=TextHandler):
        v1.save_checkpointables(ckpt, {"t": Text("hello")})
        assert v1.load_checkpointables(ckpt)["t"].value == "hello"
        assert v1.checkpointables_metadata(ckpt).metadata == {"t": "a text"}
    assert typestrs(ckpt) == {"t": f"{__name__}.TextHandler"}


def test_own_handler_without_a_name(ckpt: Path) -> None:
    registry = v1.handlers.local_registry()
    registry.add(TextHandler)
    context = v1.Context()
    context.checkpointables.registry = registry
    with context:
        v1.save_checkpointables(ckpt, {"a": Text("1"), "b": Text("2")})
        loaded = v1.load_checkpointables(ckpt, {"b": Text, "a": None})
    assert {name: text.value for name, text in loaded.items()} == {
        "a": "1",
        "b": "2",
    }


def test_registry_rules() -> None:
    registry = v1.handlers.local_registry(include_global_registry=False)
    registry.add(TextHandler).add(TextHandler, checkpointable_name="t")
    with pytest.raises(AlreadyExistsError):
        registry.add(TextHandler)
    with pytest.raises(AlreadyExistsError, match="checkpointable_name=t"):
        registry.add(v1.handlers.JsonHandler, checkpointable_name="t")
    with pytest.raises(ValueError, match="must be a type"):
        registry.add(TextHandler())  # type: ignore[arg-type]
    assert registry.get("t") is TextHandler
    with pytest.raises(NoEntryError):
        registry.get("other")
    with pytest.raises(NotImplementedError):
        v1.Context().checkpointables.registry.add(TextHandler)
    assert not v1.handlers.global_registry().has("t")


def test_failure_of_one_item_leaves_nothing(ckpt: Path) -> None:
    class Broken(Counter):
        async def save(self, directory: Any) -> Any:
            async def write() -> None:
                await directory.await_creation()
                raise OSError("disk on fire")

            return write()

    items = {"a": {"x": np.ones(2)}, "b": Broken(), "c": {"y": 1}}
    with pytest.raises(OSError, match="disk on fire"):
        v1.save_checkpointables(ckpt, items)
    assert list(ckpt.parent.iterdir()) == []
    response = v1.save_checkpointables_async(ckpt, items)
    with pytest.raises(OSError, match="disk on fire"):
        response.result()
    assert list(ckpt.parent.iterdir()) == []


@pytest.mark.parametrize("value", [{}, [], None, "state", [{"a": 1}]])
def test_checkpointables_must_be_a_dict(ckpt: Path, value: Any) -> None:
    with pytest.raises(ValueError) as info:
        v1.save_checkpointables(ckpt, value)
    assert str(info.value) == (
        "`checkpointables` must be a valid dict of checkpointable names to "
        f"desired checkpointables to save, but got {type(value)}"
    )


def a_message() -> Any:
    struct = pytest.importorskip("google.protobuf.struct_pb2")
    message = struct.Struct()
    message.update({"text": "é", "list": [1, None, {"deep": True}]})
    return message


def test_protocol_buffers(ckpt: Path) -> None:
    message = a_message()
    kind = type(message)
    response = v1.save_checkpointables_async(
        ckpt, {"config": message, "state": {"a": 1}}
    )
    message.Clear()  # The call has already serialized the message.
    response.result()
    loaded = v1.load_checkpointables(ckpt, {"config": kind})
    assert loaded["config"] == a_message()
    assert (ckpt / "config" / "proto.pbtxt").exists()
    with pytest.raises(ValueError, match="must be provided"):
        v1.load_checkpointables(ckpt, {"config": None})
    handler = v1.handlers.ProtoHandler(filename="other.txt")
    with pytest.raises(FileNotFoundError):
        asyncio.run(load_with(handler, ckpt / "config", kind))


async def load_with(handler: Any, directory: Path, kind: Any) -> Any:
    return await (await handler.load(directory, kind))


@pytest.mark.filterwarnings("ignore")
def test_protocol_buffers_of_orbax(tmp_path: Path) -> None:
    orbax = pytest.importorskip("orbax.checkpoint")
    message = a_message()
    for name, writer in (("a", v1), ("b", orbax.v1)):
        writer.save_checkpointables(tmp_path / name, {"m": message})
        for reader in (v1, orbax.v1):
            got = reader.load_checkpointables(
                tmp_path / name, {"m": type(message)}
            )
            assert got["m"] == message
    files = [tmp_path / name / "m" / "proto.pbtxt" for name in "ab"]
    assert files[0].read_bytes() == files[1].read_bytes()
