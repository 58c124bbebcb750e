"""Libraries' handlers and arguments that derive from real Orbax's classes."""

from __future__ import annotations

import dataclasses
import decimal
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Script
from handler_cases import decimal_handler

import holdfast.orbax as hfo

jax = pytest.importorskip("jax")
ocp = pytest.importorskip("orbax.checkpoint")


class TextHandler(ocp.CheckpointHandler):  # type: ignore[misc]
    """Writes a string, as Grain's handler writes an iterator's state."""

    def save(self, directory: Any, args: TextSave) -> None:
        (directory / "text").write_text(args.item)

    def restore(self, directory: Any, args: TextRestore) -> str:
        return str((directory / "text").read_text() * args.times)


class AsyncTextHandler(TextHandler, ocp.AsyncCheckpointHandler):  # type: ignore[misc]
    """Writes a string in the background."""

    async def async_save(self, directory: Any, args: TextSave) -> Any:
        class Written:
            def result(self, timeout: float | None = None) -> None:
                (directory / "text").write_text(f"later {args.item}")

        return [Written()]


@ocp.args.register_with_handler(TextHandler, for_save=True)
@dataclasses.dataclass
class TextSave(ocp.args.CheckpointArgs):  # type: ignore[misc]
    item: str


@ocp.args.register_with_handler(TextHandler, for_restore=True)
@dataclasses.dataclass
class TextRestore(ocp.args.CheckpointArgs):  # type: ignore[misc]
    times: int = 1


@ocp.args.register_with_handler(AsyncTextHandler, for_save=True)
@dataclasses.dataclass
class AsyncTextSave(TextSave):
    """Arguments of a save with AsyncTextHandler."""


@ocp.args.register_with_handler(AsyncTextHandler, for_restore=True)
@dataclasses.dataclass
class AsyncTextRestore(TextRestore):
    """Arguments of a restore with AsyncTextHandler."""


@dataclasses.dataclass
class DecimalRestoreArgs(ocp.RestoreArgs):  # type: ignore[misc]
    """Arguments of a leaf, in a derived class such as AXLearn's."""

    factor: int = 1


def test_isinstance_counts_orbaxs_classes() -> None:
    text = TextHandler()
    assert isinstance(text, hfo.CheckpointHandler)
    assert not isinstance(text, hfo.AsyncCheckpointHandler)
    assert isinstance(AsyncTextHandler(), hfo.AsyncCheckpointHandler)
    assert isinstance(TextSave("a"), hfo.args.CheckpointArgs)
    assert isinstance(DecimalRestoreArgs(), hfo.RestoreArgs)
    assert not isinstance(DecimalRestoreArgs(), hfo.ArrayRestoreArgs)
    assert isinstance(ocp.ArrayRestoreArgs(), hfo.ArrayRestoreArgs)
    assert isinstance(ocp.SaveArgs(), hfo.SaveArgs)
    handler = decimal_handler(ocp)
    assert isinstance(handler, hfo.type_handlers.TypeHandler)
    # Only base classes count: holdfast's own classes need not do what Orbax's
    # classes do.
    standard = ocp.StandardCheckpointHandler()
    assert not isinstance(standard, hfo.StandardCheckpointHandler)
    assert not isinstance(3, hfo.RestoreArgs)

    class Mine(hfo.CheckpointHandler):
        """A class that Orbax's handlers are not instances of."""

    assert not isinstance(text, Mine)


def test_a_managers_items(tmp_path: Path) -> None:
    handlers = {"a": TextHandler(), "b": AsyncTextHandler()}
    with hfo.CheckpointManager(tmp_path, item_handlers=handlers) as manager:
        manager.save(
            1,
            args=hfo.args.Composite(a=TextSave("x"), b=AsyncTextSave("y")),
        )
        manager.wait_until_finished()
        restored = manager.restore(
            1, args=hfo.args.Composite(a=TextRestore(3), b=AsyncTextRestore())
        )
        assert dict(restored.items()) == {"a": "xxx", "b": "later y"}
    # The classes of the arguments determine the handlers; the metadata have
    # the handlers' names.
    with hfo.CheckpointManager(tmp_path) as manager:
        manager.save(2, args=hfo.args.Composite(a=TextSave("z")))
        manager.wait_until_finished()
        assert manager.restore(2)["a"] == "z"
    recorded = json.loads((tmp_path / "2/_CHECKPOINT_METADATA").read_text())
    typestr = f"{TextHandler.__module__}.TextHandler"
    assert recorded["item_handlers"] == {"a": typestr}
    with ocp.CheckpointManager(tmp_path) as manager:
        assert manager.restore(2)["a"] == "z"


def test_a_single_item_and_a_checkpointer(tmp_path: Path, ckpt: Path) -> None:
    with hfo.CheckpointManager(
        tmp_path / "m", item_handlers=AsyncTextHandler()
    ) as manager:
        manager.save(0, args=AsyncTextSave("y"))
        assert manager.restore(0, args=AsyncTextRestore()) == "later y"
    with hfo.Checkpointer(TextHandler()) as checkpointer:
        checkpointer.save(ckpt, args=TextSave("y"))
        assert checkpointer.restore(ckpt, args=TextRestore(2)) == "yy"


def test_a_registry_of_handlers(tmp_path: Path) -> None:
    registry = hfo.DefaultCheckpointHandlerRegistry()
    registry.add("a", TextSave)
    registry.add("a", TextRestore, TextHandler())
    with hfo.CheckpointManager(tmp_path, handler_registry=registry) as manager:
        manager.save(0, args=hfo.args.Composite(a=TextSave("y")))
        manager.wait_until_finished()
        args = hfo.args.Composite(a=TextRestore(2))
        assert manager.restore(0, args=args)["a"] == "yy"


def test_a_type_handler(ckpt: Path) -> None:
    tree = {"d": decimal.Decimal("1.5"), "x": np.arange(3)}
    handler = decimal_handler(ocp)
    seen: list[Any] = []
    deserialize = handler.deserialize

    async def spied(infos: Any, args: Any = None) -> Any:
        seen.extend(args)
        return await deserialize(infos, args)

    handler.deserialize = spied
    registry = hfo.type_handlers.create_type_handler_registry(
        (decimal.Decimal, handler),
        (np.ndarray, hfo.type_handlers.NumpyHandler()),
    )
    checkpointer = hfo.Checkpointer(
        hfo.PyTreeCheckpointHandler(type_handler_registry=registry)
    )
    save_args = {
        "d": ocp.SaveArgs(),
        "x": ocp.SaveArgs(dtype=np.dtype(np.int8)),
    }
    checkpointer.save(ckpt, args=hfo.args.PyTreeSave(tree, save_args=save_args))
    wanted = {
        "d": DecimalRestoreArgs(decimal.Decimal, factor=2),
        "x": ocp.RestoreArgs(np.ndarray, dtype=np.dtype(np.float32)),
    }
    restored = checkpointer.restore(
        ckpt, args=hfo.args.PyTreeRestore(tree, restore_args=wanted)
    )
    assert restored["d"] == decimal.Decimal("1.5")
    assert seen == [wanted["d"]]
    assert restored["x"].dtype == np.float32
    plain = checkpointer.restore(ckpt)["x"]
    assert plain.dtype == np.int8


def test_restoring_like_orbaxs_arguments_say(ckpt: Path) -> None:
    hfo.PyTreeCheckpointer().save(ckpt, {"x": np.arange(8.0)})
    mesh = jax.sharding.Mesh(np.asarray(jax.devices()), ("a",))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("a"))
    args = {
        "x": ocp.ArrayRestoreArgs(sharding=sharding, dtype=np.dtype(np.float32))
    }
    restored = hfo.PyTreeCheckpointer().restore(ckpt, restore_args=args)["x"]
    assert restored.sharding == sharding
    assert restored.dtype == np.float32


@pytest.mark.parametrize("before", ["", "import orbax.checkpoint"])
def test_standard_handlers_that_nobody_has_named(
    tmp_path: Path, before: str, run_python: Script
) -> None:
    """Each module is imported only when it is needed, but the handlers that a
    checkpoint records are known, whether Orbax was imported before or not."""
    path = tmp_path / "1"
    with hfo.Checkpointer(hfo.CompositeCheckpointHandler()) as checkpointer:
        array = hfo.args.ArraySave(np.arange(3))
        key = hfo.args.NumpyRandomKeySave(np.random.get_state())
        args = hfo.args.Composite(array=array, key=key)
        checkpointer.save(path, args=args)
    program = f"""
import sys
{before}
import holdfast.orbax as ocp
handler = ocp.CompositeCheckpointHandler()
restored = ocp.Checkpointer(handler).restore(sys.argv[1])
assert restored.array.tolist() == [0, 1, 2], restored
assert restored.key[0] == "MT19937", restored
ocp.ArrayCheckpointHandler()
"""
    run_python(program, path)
