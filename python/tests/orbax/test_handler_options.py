"""Every option of PyTreeCheckpointHandler."""

from __future__ import annotations

import collections
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from handler_cases import (
    array_options,
    checkpointer,
    metadata_of,
    replicated,
)

import holdfast.orbax as hfo
from holdfast.orbax._devices import memory_regulator

jax = pytest.importorskip("jax")
ocp = pytest.importorskip("orbax.checkpoint")
ocp_base = pytest.importorskip(
    "orbax.checkpoint._src.handlers.base_pytree_checkpoint_handler"
)

Pair = collections.namedtuple("Pair", "mu nu")
Empty = collections.namedtuple("Empty", "")


def rich_tree() -> Any:
    return {
        "t": (np.ones(2), Pair(np.arange(4), None)),
        "e": Empty(),
        "et": (),
        "l": [1, (2.5, "s")],
        "d": {5: {"z": Pair(1, 2)}},
        "j": replicated(),
    }


def rich(package: Any) -> Any:
    if package is hfo:
        options = hfo.options.PyTreeMetadataOptions(support_rich_types=True)
    else:
        from orbax.checkpoint._src.metadata import pytree_metadata_options

        options = pytree_metadata_options.PyTreeMetadataOptions(
            support_rich_types=True
        )
    return checkpointer(package, pytree_metadata_options=options)


@jax.tree_util.register_pytree_node_class
class ByPosition:
    def __init__(self, *children: Any) -> None:
        self.children = children

    def tree_flatten(self) -> tuple[Any, None]:
        return self.children, None

    @classmethod
    def tree_unflatten(cls, aux: None, children: Any) -> Any:
        return cls(*children)


@jax.tree_util.register_pytree_with_keys_class
class ByName(ByPosition):
    def tree_flatten_with_keys(self) -> tuple[Any, None]:
        key = jax.tree_util.GetAttrKey
        names = (key("z"), key("a"))
        return tuple(zip(names, self.children, strict=True)), None


def test_rich_types_of_registered_nodes(tmp_path: Path) -> None:
    tree = {
        "p": ByPosition(1, [2, ByName(3, (4,))]),
        "e": ByPosition(),
        "o": collections.OrderedDict(z=1, a=2),
        "d": {10: 1, 2: 2},
    }
    rich(hfo).save(tmp_path / "ours", tree)
    rich(ocp).save(tmp_path / "theirs", tree)
    ours, theirs = (
        json.loads((tmp_path / name / "_METADATA").read_text())
        for name in ("ours", "theirs")
    )
    key = "value_metadata_tree"
    assert json.loads(ours[key]) == json.loads(theirs[key])


@pytest.mark.filterwarnings("ignore:Sharding info")
def test_rich_types(tmp_path: Path) -> None:
    rich(hfo).save(tmp_path / "ours", rich_tree())
    rich(ocp).save(tmp_path / "theirs", rich_tree())
    assert metadata_of(tmp_path / "ours") == metadata_of(tmp_path / "theirs")
    for name in ("ours", "theirs"):
        ours = rich(hfo).restore(tmp_path / name)
        theirs = rich(ocp).restore(tmp_path / name)
        assert str(ours) == str(theirs)
        assert type(ours["e"]).__name__ == "OrbaxEmptyNamedTuple"
        assert type(ours["t"][1]).__name__ == type(theirs["t"][1]).__name__
        assert ours["t"][1]._fields == ("mu", "nu")
        trees = [
            str(reader.metadata(tmp_path / name).item_metadata.tree)
            for reader in (rich(hfo), rich(ocp))
        ]
        assert trees[0] == trees[1]
        # Other handlers read the tree as lists and dicts.
        plain = hfo.PyTreeCheckpointer().restore(tmp_path / name)
        assert plain["l"] == [1, [2.5, "s"]]
        assert plain["e"] is None
        target = rich(hfo).restore(
            tmp_path / name, args=hfo.args.PyTreeRestore(item=rich_tree())
        )
        assert type(target["t"][1]) is Pair
        part = rich(hfo).restore(
            tmp_path / name,
            args=hfo.args.PyTreeRestore(item={"l": [0, (0, 0)]}),
        )
        assert part == {"l": [1, (2.5, "s")]}


def fixture(name: str) -> Path:
    """Returns the path of an old release's aggregate file, which Orbax
    ships."""
    root = Path(ocp.__file__).parent / "testing"
    return root / f"{name}.checkpoint" / "checkpoint"


@pytest.mark.parametrize("package", [hfo, ocp])
def test_aggregate_filename(package: Any, tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    shutil.copy(fixture("aggregate_all"), tmp_path / "x" / "old.msgpack")
    handler = package.PyTreeCheckpointHandler(aggregate_filename="old.msgpack")
    from etils import epath

    restored = handler.restore(epath.Path(tmp_path / "x"))
    assert set(restored)
    with pytest.raises(FileNotFoundError) as caught:
        package.PyTreeCheckpointHandler().restore(epath.Path(tmp_path / "x"))
    assert str(caught.value) == (
        "No structure could be identified for the checkpoint at"
        f" {tmp_path / 'x'}."
    )


@pytest.mark.filterwarnings("ignore:Sharding info")
def test_arrays_larger_than_the_bounds_go_in_pieces(tmp_path: Path) -> None:
    """Orbax refuses such arrays: "Requested more bytes than we reserved space
    for"."""
    from etils import epath

    base = hfo.BasePyTreeCheckpointHandler
    path = epath.Path(tmp_path / "item")
    path.mkdir()
    tree = {"array": jax.numpy.arange(100_000), "host": np.arange(100_000)}
    args = hfo.base_pytree_checkpoint_handler.BasePyTreeSaveArgs(tree)
    with pytest.raises(ValueError) as caught:
        ocp.BasePyTreeCheckpointHandler(save_concurrent_bytes=400).save(
            epath.Path(tmp_path),
            args=ocp_base.BasePyTreeSaveArgs(tree),
        )
    assert "Requested more bytes than we reserved space for" in str(
        caught.value
    )
    base(save_concurrent_bytes=400).save(path, args=args)
    restored = base(restore_concurrent_bytes=400).restore(path)
    np.testing.assert_array_equal(restored["array"], np.arange(100_000))
    np.testing.assert_array_equal(restored["host"], tree["host"])


def test_handler_impl(tmp_path: Path) -> None:
    calls: list[Any] = []

    class Impl:
        def save(self, directory: Any, args: Any) -> None:
            calls.append(("save", args.item, args.custom_metadata))

        def restore(self, directory: Any, args: Any) -> Any:
            calls.append(("restore", args.item, args.partial_restore))
            return "restored"

        def metadata(self, directory: Any) -> Any:
            return "metadata"

        def finalize(self, directory: Any) -> None:
            calls.append(("finalize",))

        def close(self) -> None:
            calls.append(("close",))

    handler = hfo.PyTreeCheckpointHandler(handler_impl=Impl())
    handler.save(
        tmp_path, args=hfo.args.PyTreeSave({"a": 1}, custom_metadata={"k": 2})
    )
    (tmp_path / "_METADATA").write_text("{}")
    args = hfo.args.PyTreeRestore(item={"a": 0}, partial_restore=True)
    assert handler.restore(tmp_path, args=args) == "restored"
    assert handler.metadata(tmp_path) == "metadata"
    handler.finalize(tmp_path)
    handler.close()
    assert calls == [
        ("save", {"a": 1}, {"k": 2}),
        ("restore", {"a": 0}, True),
        ("finalize",),
        ("close",),
    ]


def test_array_metadata_validator(ckpt: Path) -> None:
    seen: list[Any] = []

    class Validator:
        def validate_all_array_metadatas(self, metadatas: Any) -> None:
            seen.append(
                {
                    process: [
                        (a.param_name, a.write_shape, a.chunk_shape)
                        for a in arrays
                    ]
                    for process, arrays in metadatas.items()
                }
            )

    tree = {"j": replicated(), "n": np.arange(3)}
    checkpointer(hfo, array_metadata_validator=Validator()).save(ckpt, tree)
    assert seen == [{0: [("j", (1, 8), (1, 8))]}]

    class Refusing:
        def validate_all_array_metadatas(self, metadatas: Any) -> None:
            raise ValueError("not like this")

    refused = ckpt.with_name("refused")
    with pytest.raises(ValueError, match="not like this"):
        checkpointer(hfo, array_metadata_validator=Refusing()).save(
            refused, tree
        )
    assert not refused.exists()


def test_processes_must_agree() -> None:
    from orbax.checkpoint._src.metadata import (
        array_metadata,
        array_metadata_store,
    )

    from holdfast.orbax._type_handlers.array_metadata import (
        SerializedArrayMetadata,
        Validator,
    )

    def texts(first: list[Any], second: list[Any]) -> list[str]:
        found = []
        for validator, cls in (
            (Validator(), SerializedArrayMetadata),
            (
                array_metadata_store.Validator(),
                array_metadata.SerializedArrayMetadata,
            ),
        ):
            with pytest.raises(ValueError) as caught:
                validator.validate_all_array_metadatas(
                    {
                        0: [cls(**fields) for fields in first],
                        1: [cls(**fields) for fields in second],
                    }
                )
            found.append(str(caught.value))
        return found

    def row(name: str, **changes: Any) -> dict[str, Any]:
        fields = {
            "param_name": name,
            "write_shape": (2,),
            "chunk_shape": (2,),
            "ext_metadata": None,
        }
        return {**fields, **changes}

    key = {"random_key_impl": "rbg"}
    for first, second in (
        ([], [row("a")]),
        ([row("a")], [row("a"), row("b")]),
        ([row("a")], [row("b")]),
        ([row("a")], [row("a", chunk_shape=(1,))]),
        ([row("a")], [row("a", write_shape=(1,))]),
        ([row("a")], [row("a", ext_metadata=key)]),
        (
            [row("a", ext_metadata=key)],
            [row("a", ext_metadata={"random_key_impl": "x"})],
        ),
    ):
        ours, theirs = texts(first, second)
        assert ours == theirs


def test_arrays_are_copied_by_priority(ckpt: Path) -> None:
    events: list[tuple[str, str]] = []
    priority = hfo.type_handlers.TransferPriority

    class Callback:
        def key_priority(self, keypath: Any) -> Any:
            return {
                "now": priority.SYNCHRONOUS,
                "first": priority.ASYNCHRONOUS_PRIORITIZED,
                "later": priority.ASYNCHRONOUS_DEPRIORITIZED,
            }[keypath[0].key]

        def on_transfer_end(self, keypath: Any) -> None:
            events.append(("transfer", keypath[0].key))

        def on_write_end(self, keypath: Any) -> None:
            events.append(("write", keypath[0].key))

    tree = {name: jax.numpy.arange(8) for name in ("first", "later", "now")}
    checkpointer(
        hfo,
        save_device_host_concurrent_gb=1,
        type_handler_registry=array_options(hfo, callback=Callback()),
    ).save(ckpt, tree)
    assert events == [
        ("transfer", "now"),
        ("write", "now"),
        ("transfer", "first"),
        ("transfer", "later"),
        ("write", "first"),
        ("write", "later"),
    ]


def test_copies_are_bounded(ckpt: Path) -> None:
    events: list[str] = []
    priority = hfo.type_handlers.TransferPriority

    class Callback:
        def key_priority(self, keypath: Any) -> Any:
            return priority.ASYNCHRONOUS_DEPRIORITIZED

        def on_transfer_end(self, keypath: Any) -> None:
            events.append(f"transfer {keypath[0].key}")

        def on_write_end(self, keypath: Any) -> None:
            events.append(f"write {keypath[0].key}")

    handler = hfo.BasePyTreeCheckpointHandler(
        save_device_host_concurrent_bytes=100,
        type_handler_registry=array_options(hfo, callback=Callback()),
    )
    tree = {
        name: jax.numpy.arange(10, dtype=np.int32) for name in ("a", "b", "c")
    }
    ckpt.mkdir()
    handler.save(
        ckpt, hfo.base_pytree_checkpoint_handler.BasePyTreeSaveArgs(tree)
    )
    # An array has 40 bytes, so two fit at once.
    assert events == [
        "transfer a",
        "transfer b",
        "write a",
        "write b",
        "transfer c",
        "write c",
    ]


def test_auto_limit(ckpt: Path) -> None:
    limits = hfo.options.MemoryLimitOptions(max_transfer_concurrent_gb=100)
    handler = hfo.PyTreeCheckpointHandler(
        save_device_host_concurrent_gb="auto", memory_limit_options=limits
    )
    hfo.Checkpointer(handler).save(ckpt, {"j": jax.numpy.arange(3)})
    with pytest.warns(UserWarning, match="Sharding info not provided"):
        restored = hfo.PyTreeCheckpointer().restore(ckpt)
    np.testing.assert_array_equal(restored["j"], np.arange(3))
    with pytest.raises(ValueError) as caught:
        hfo.PyTreeCheckpointHandler(
            save_device_host_concurrent_gb="auto",
            memory_limit_options=hfo.options.MemoryLimitOptions(
                max_transfer_concurrent_gb=1
            ),
        )
    assert str(caught.value).startswith(
        "min_memory_limit_gib must be less than target memory (0.745"
    )


def test_memory_regulator_is_orbax_s() -> None:
    from orbax.checkpoint._src.serialization import memory_regulator as theirs

    rng = np.random.default_rng(0)
    regulators = [
        module.MemoryRegulator(max_memory_limit_gib=100.0)
        for module in (memory_regulator, theirs)
    ]
    limits = [10.0, 10.0]
    readings = rng.uniform(0, 130, size=(200, 2))
    surges = rng.choice([0.0, 0.0, 5.0, 40.0], size=200)
    readings[50, 0] = np.nan
    for (peak, total), surge in zip(readings, surges, strict=True):
        limits = [
            regulator.get_next_memory_limit(
                current_limit_gib=limit,
                peak_memory_usage_gib=peak,
                blocking_time_sec=0.0,
                expected_surge_gib=surge,
                total_memory_gib=total,
            )
            for regulator, limit in zip(regulators, limits, strict=True)
        ]
        assert limits[0] == limits[1]


def test_write_chunk_shapes(ckpt: Path) -> None:
    array = np.arange(64.0).reshape(8, 8)
    args = {
        "a": hfo.SaveArgs(write_chunk_shape=(4, 8), read_chunk_shape=(2, 4)),
        "b": hfo.SaveArgs(),
    }
    writer = checkpointer(hfo, use_zarr3=True)
    writer.save(ckpt, {"a": array, "b": array}, save_args=args)
    tree = writer.metadata(ckpt).item_metadata.tree
    assert tree["a"].storage.chunk_shape == (2, 4)
    assert tree["a"].storage.zarr_metadata.chunk_shape == (4, 8)
    np.testing.assert_array_equal(ocp_restore(ckpt)["a"], array)
    with pytest.raises(ValueError, match="Zarr3 is not enabled when"):
        checkpointer(hfo).save(
            ckpt.with_name("x"), {"a": array, "b": array}, save_args=args
        )
    args["a"] = hfo.SaveArgs(write_chunk_shape=(3, 8))
    with pytest.raises(ValueError, match=r"is not a divisor of"):
        writer.save(
            ckpt.with_name("y"), {"a": array, "b": array}, save_args=args
        )


def ocp_restore(path: Path) -> Any:
    return checkpointer(ocp).restore(path)
