"""A user's own type handlers, and options of the standard type handlers."""

from __future__ import annotations

import asyncio
import decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from handler_cases import (
    Boxed,
    Written,
    array_options,
    checkpointer,
    decimal_handler,
    metadata_of,
    own_tree,
    registry,
    replicated,
)

import holdfast.orbax as hfo

jax = pytest.importorskip("jax")
ocp = pytest.importorskip("orbax.checkpoint")


def test_handlers_of_ones_own(ckpt: Path, tmp_path: Path) -> None:
    ours: list[Any] = []
    theirs: list[Any] = []
    other = tmp_path / "theirs"
    args = {"save_args": jax.tree.map(lambda _: hfo.SaveArgs(), own_tree())}
    checkpointer(hfo, type_handler_registry=registry(hfo, ours)).save(
        ckpt, args=hfo.args.PyTreeSave(own_tree(), **args)
    )
    checkpointer(ocp, type_handler_registry=registry(ocp, theirs)).save(
        other, args=ocp.args.PyTreeSave(own_tree())
    )
    assert metadata_of(ckpt) == metadata_of(other)
    # Orbax has the method `finalize`, but never calls it.
    assert ours[1:] == [
        ("finalize", f"{ckpt}.orbax-checkpoint-tmp"),
    ]
    assert ours[:1] == theirs[:1]
    for package, path in ((hfo, ckpt), (hfo, other), (ocp, ckpt)):
        calls: list[Any] = []
        reader = checkpointer(
            package, type_handler_registry=registry(package, calls)
        )
        restored = reader.restore(path)
        assert restored["a"] == decimal.Decimal("1.50")
        assert restored["b"][1:] == [decimal.Decimal("2"), {}]
        np.testing.assert_array_equal(restored["b"][0], np.arange(5))
        np.testing.assert_array_equal(restored["box"].array, np.arange(600.0))
        assert (restored["n"], restored["s"]) == (3, "text")
        theirs_calls = calls if package is ocp else theirs_calls_of(path)
        assert calls == theirs_calls
        tree = reader.metadata(path).item_metadata.tree
        assert type(tree["a"]).__name__ == "Metadata"
        assert tree["box"].shape == (600,)


def theirs_calls_of(path: Path) -> list[Any]:
    """Restores with Orbax; returns the calls that the handler gets."""
    calls: list[Any] = []
    checkpointer(ocp, type_handler_registry=registry(ocp, calls)).restore(path)
    return calls


def test_a_checkpoint_with_own_leaves_verifies(ckpt: Path) -> None:
    import holdfast

    checkpointer(hfo, type_handler_registry=registry(hfo)).save(
        ckpt, own_tree()
    )
    report = holdfast.verify(ckpt)
    assert report.ok, report.damages


def test_targets_with_own_leaves(ckpt: Path) -> None:
    ours = checkpointer(hfo, type_handler_registry=registry(hfo))
    ours.save(ckpt, own_tree())
    restored = ours.restore(
        ckpt,
        args=hfo.args.PyTreeRestore(
            item={"a": 0, "b": (1, 2, {}), "box": ..., "n": 0, "s": ""},
            restore_args={
                "a": hfo.RestoreArgs(restore_type=decimal.Decimal),
                "b": (hfo.RestoreArgs(), hfo.RestoreArgs(), {}),
                "box": hfo.RestoreArgs(),
                "n": hfo.RestoreArgs(restore_type=int),
                "s": hfo.RestoreArgs(),
            },
        ),
    )
    assert restored["a"] == decimal.Decimal("1.50")
    assert isinstance(restored["b"], tuple)
    assert restored["b"][1] == decimal.Decimal("2")
    assert restored["box"] is ...


@pytest.mark.parametrize("package", [hfo, ocp])
def test_leaf_without_handler(package: Any, tmp_path: Path) -> None:
    reg = package.type_handlers.create_type_handler_registry(
        (int, package.type_handlers.ScalarHandler())
    )
    writer = checkpointer(package, type_handler_registry=reg)
    with pytest.raises(ValueError) as caught:
        writer.save(tmp_path / "x", {"a": 1, "b": np.zeros(2)})
    assert str(caught.value).startswith(
        "TypeHandler lookup failed for: type=<class 'numpy.ndarray'>,"
        " keypath=(DictKey(key='b'),), ParamInfo=<orbax.checkpoint."
    )
    hfo.PyTreeCheckpointer().save(tmp_path / "y", {"b": np.zeros(2)})
    with pytest.raises(ValueError) as caught:
        writer.restore(tmp_path / "y")
    assert str(caught.value).startswith(
        "TypeHandler lookup failed for: type=np.ndarray,"
        " keypath=(DictKey(key='b'),), ParamInfo=<orbax.checkpoint."
    )
    assert writer.metadata(tmp_path / "y").item_metadata is None


def test_failing_handler(ckpt: Path) -> None:
    waited = []

    class Failing(hfo.type_handlers.NumpyHandler):
        async def serialize(
            self, values: Any, infos: Any, args: Any = None
        ) -> Any:
            def fail() -> None:
                raise OSError("no more space")

            return [Written(fail), Written(lambda: waited.append(1))]

    reg = hfo.type_handlers.create_type_handler_registry(
        (np.ndarray, Failing())
    )
    with pytest.raises(OSError, match="no more space"):
        checkpointer(hfo, type_handler_registry=reg).save(
            ckpt, {"a": np.zeros(2)}
        )
    assert waited == [1]
    assert not ckpt.exists()


def test_async_save_calls_handlers_before_it_returns(tmp_path: Path) -> None:
    calls: list[Any] = []
    handler = hfo.PyTreeCheckpointHandler(
        type_handler_registry=registry(hfo, calls)
    )
    array = np.zeros(1000)
    tree = {"a": decimal.Decimal(1), "b": array, "c": Boxed(array)}
    futures = asyncio.run(
        handler.async_save(tmp_path, args=hfo.args.PyTreeSave(tree))
    )
    assert [call[0] for call in calls][:1] == ["serialize"]
    array[:] = 1
    for future in futures:
        future.result()
    restored = handler.restore(tmp_path)
    assert not restored["b"].any()
    assert not restored["c"].array.any()


@pytest.fixture
def shared_registry() -> Any:
    """Yields the shared registry; afterwards undoes the test's changes."""
    shared = hfo.type_handlers.GLOBAL_TYPE_HANDLER_REGISTRY
    rows, texts = list(shared._type_registry), dict(shared._typestr_registry)
    yield shared
    shared._type_registry[:] = rows
    shared._typestr_registry.clear()
    shared._typestr_registry.update(texts)


def test_handlers_registered_for_everybody(
    shared_registry: Any, ckpt: Path
) -> None:
    handler = hfo.PyTreeCheckpointHandler()
    with pytest.raises(ValueError, match="lookup failed"):
        hfo.Checkpointer(handler).save(ckpt, {"a": decimal.Decimal(1)})
    hfo.type_handlers.register_type_handler(
        decimal.Decimal, decimal_handler(hfo)
    )
    hfo.Checkpointer(handler).save(ckpt, {"a": decimal.Decimal(1)})
    assert hfo.PyTreeCheckpointer().restore(ckpt) == {"a": decimal.Decimal(1)}


def test_standard_handlers_with_options(
    shared_registry: Any, ckpt: Path
) -> None:
    hfo.type_handlers.register_standard_handlers_with_options(
        use_ocdbt=True, ts_context=None, metadata_key="meta.json"
    )
    tree = {"a": np.arange(3), "b": 2, "j": jax.numpy.arange(4)}
    handler = hfo.PyTreeCheckpointHandler(use_ocdbt=False)
    hfo.Checkpointer(handler).save(ckpt, tree)
    assert (ckpt / "a" / "meta.json").exists()
    assert not (ckpt / "a" / ".zarray").exists()
    # Without a store there is no array_metadatas, and no write_shape.
    assert not (ckpt / "array_metadatas").exists()
    entry = metadata_of(ckpt)["tree_metadata"]["('j',)"]["value_metadata"]
    assert entry == {"value_type": "jax.Array", "skip_deserialize": False}
    with pytest.warns(UserWarning, match="Sharding info not provided"):
        restored = hfo.Checkpointer(handler).restore(ckpt)
    np.testing.assert_array_equal(restored["a"], np.arange(3))
    assert restored["b"] == 2
    assert isinstance(restored["j"], jax.Array)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"use_replica_parallel": False},
        {"max_replicas_for_replica_parallel": 2},
        {"min_slice_bytes_for_replica_parallel": 10000},
        {"enable_write_sharding_file": False},
        {"enable_replica_parallel_separate_folder": True},
    ],
)
def test_options_of_array_handler(
    options: dict[str, Any], tmp_path: Path
) -> None:
    tree = {"r": replicated(), "n": np.arange(3)}
    found = []
    for package, name in ((hfo, "ours"), (ocp, "theirs")):
        path = tmp_path / name
        reg = array_options(package, **options)
        writer = checkpointer(package, type_handler_registry=reg)
        writer.save(path, tree)
        metadata = writer.metadata(path).item_metadata
        names = {entry.name for entry in path.iterdir()}
        found.append(
            (
                metadata_of(path),
                None if metadata is None else str(metadata.tree["r"].storage),
                names - {"_HOLDFAST_DIGESTS"},
            )
        )
    (ours, theirs) = found
    # The engine's own leaves and the handlers' leaves are in separate
    # databases.
    ours[2].discard("ocdbt.process_holdfast0")
    assert ours[:2] == theirs[:2]
    assert ours[2] - {"ocdbt.process_0"} == theirs[2] - {"ocdbt.process_0"}
