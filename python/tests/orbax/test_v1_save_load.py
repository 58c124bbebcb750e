"""holdfast.orbax.v1: save and load of trees."""

from __future__ import annotations

import collections
import json
import signal
import threading
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from holdfast.orbax import v1
from holdfast.orbax.v1.errors import UnregisteredTypeError

Pair = collections.namedtuple("Pair", ["mu", "nu"])


def make_tree() -> dict[str, Any]:
    return {
        "w": np.arange(6, dtype=np.float32).reshape(2, 3),
        "pair": Pair(np.zeros(2, np.uint8), None),
        "n": [5, 2.5, True, "text", {}],
    }


def names_below(path: Path) -> set[str]:
    return {entry.name for entry in path.iterdir()}


def test_files_of_a_checkpoint(ckpt: Path) -> None:
    v1.save(ckpt, make_tree(), custom_metadata={"é": [1, None]})
    assert names_below(ckpt) == {
        "_CHECKPOINT_METADATA",
        "_HOLDFAST_DIGESTS",
        "commit_success.txt",
        "orbax.checkpoint",
        "state",
    }
    recorded = json.loads((ckpt / "_CHECKPOINT_METADATA").read_text())
    assert recorded["item_handlers"] == {
        "state": "orbax.checkpoint.experimental.v1._src.handlers"
        ".pytree_handler.PyTreeHandler"
    }
    assert recorded["custom_metadata"] == {"é": [1, None]}
    item = json.loads((ckpt / "state" / "_METADATA").read_text())
    assert item["use_zarr3"] is True and item["use_ocdbt"] is True
    assert not (ckpt / "state" / "commit_success.txt").exists()


def test_load_with_an_abstract_tree(ckpt: Path) -> None:
    v1.save(ckpt, make_tree())
    wanted = make_tree()
    wanted["w"] = np.zeros((9, 9), np.float64)  # only the dtype counts
    wanted["n"] = [int, 0.0, bool, str, {}]
    loaded = v1.load(ckpt, wanted)
    assert loaded["w"].dtype == np.float64 and loaded["w"].shape == (2, 3)
    assert isinstance(loaded["pair"], Pair)
    assert loaded["n"] == [5, 2.5, True, "text", {}]


def test_metadata_is_an_abstract_tree(ckpt: Path) -> None:
    v1.save(ckpt, make_tree(), custom_metadata={"k": 1})
    found = v1.metadata(ckpt)
    assert found.custom_metadata == {"k": 1}
    assert str(found.path) == str(ckpt)
    assert found.init_timestamp_nsecs and found.commit_timestamp_nsecs
    assert found.init_timestamp_nsecs <= found.commit_timestamp_nsecs
    assert found.metadata["w"].shape == (2, 3)
    assert found.metadata["w"].dtype == np.float32
    assert found.metadata["w"].storage_metadata.chunk_shape == (2, 3)
    assert found.metadata["n"] == [0, 0.0, False, "string", {}]
    loaded = v1.load(ckpt, found)
    np.testing.assert_array_equal(loaded["w"], make_tree()["w"])


def test_placeholder_is_not_loaded(ckpt: Path) -> None:
    v1.save(ckpt, {"a": np.ones(2), "b": 5})
    assert v1.load(ckpt, {"a": v1.PLACEHOLDER, "b": 0}) == {"a": ..., "b": 5}


def test_partial_load(ckpt: Path) -> None:
    v1.save(ckpt, {"a": 1, "b": {"c": 2, "d": 3}})
    with pytest.raises(ValueError, match="tree structures do not match"):
        v1.load(ckpt, {"b": {"c": 0}})
    context = v1.Context()
    context.pytree.loading.partial_load = True
    with context:
        assert v1.load(ckpt, {"b": {"c": 0}, "new": 7}) == {
            "b": {"c": 2},
            "new": 7,
        }


def test_other_name(ckpt: Path) -> None:
    v1.save(ckpt, {"a": 1}, checkpointable_name="model")
    assert (ckpt / "model" / "_METADATA").exists()
    assert v1.load(ckpt) == {"a": 1}
    assert v1.load(ckpt, checkpointable_name="model") == {"a": 1}


def test_bare_leaf(ckpt: Path) -> None:
    v1.save(ckpt, np.arange(3))
    np.testing.assert_array_equal(v1.load(ckpt), np.arange(3))


def test_existing_destination(ckpt: Path) -> None:
    v1.save(ckpt, {"a": 1})
    with pytest.raises(ValueError) as info:
        v1.save(ckpt, {"a": 2})
    assert str(info.value) == f"Destination {ckpt} already exists."
    assert v1.load(ckpt) == {"a": 1}
    v1.save(ckpt, {"b": 2}, overwrite=True)
    assert v1.load(ckpt) == {"b": 2}
    assert names_below(ckpt.parent) == {"ckpt"}


def test_failed_overwrite_keeps_the_old(ckpt: Path) -> None:
    v1.save(ckpt, {"a": 1})
    with pytest.raises(ValueError):
        v1.save(ckpt, {"a": b"bytes"}, overwrite=True)
    assert v1.load(ckpt) == {"a": 1}
    assert names_below(ckpt.parent) == {"ckpt"}


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("", ValueError),
        ("metrics", ValueError),
        ("AUTO", ValueError),
        ("_CHECKPOINT_DELETION", ValueError),
        ("a/b", ValueError),
        ("..", ValueError),
        (5, TypeError),
    ],
)
def test_refused_names(ckpt: Path, name: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        v1.save(ckpt, {"a": 1}, checkpointable_name=name)
    assert names_below(ckpt.parent) == set()


def test_refused_paths(ckpt: Path) -> None:
    with pytest.raises(ValueError, match="Checkpoint path should be absolute"):
        v1.save("relative/path", {"a": 1})
    ckpt.write_text("a file")
    with pytest.raises(NotADirectoryError):
        v1.save(ckpt / "below", {"a": 1})


def test_custom_metadata_must_be_json(ckpt: Path) -> None:
    with pytest.raises(TypeError, match="not JSON serializable"):
        v1.save(ckpt, {"a": 1}, custom_metadata={"x": object()})  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="must be of type <class 'dict'>"):
        v1.save(ckpt, {"a": 1}, custom_metadata=5)  # type: ignore[arg-type]
    assert names_below(ckpt.parent) == set()


class Gate:
    """A checkpointable that delays the items after it until `open` is set."""

    def __init__(self) -> None:
        self.open = threading.Event()

    async def save(self, directory: Any) -> Any:
        async def wait() -> None:
            await directory.await_creation()
            assert self.open.wait(timeout=60)

        return wait()

    async def load(self, directory: Any) -> Any:
        raise NotImplementedError


def save_behind_gate(ckpt: Path, array: Any, context: v1.Context) -> Any:
    """Saves `array`, changes it before it is written, and returns what was
    saved."""
    gate = Gate()
    with context:
        response = v1.save_checkpointables_async(
            ckpt, {"gate": gate, "state": {"a": array}}
        )
    array[:] = -1
    assert not ckpt.exists()
    gate.open.set()
    response.result()
    return v1.load(ckpt)["a"]


def test_async_save_works_on_a_copy(ckpt: Path) -> None:
    saved = save_behind_gate(ckpt, np.arange(9), v1.Context())
    np.testing.assert_array_equal(saved, np.arange(9))


def test_async_save_without_a_copy(ckpt: Path) -> None:
    context = v1.Context()
    context.memory.deepcopy_host_arrays = False
    saved = save_behind_gate(ckpt, np.arange(1 << 16), context)
    np.testing.assert_array_equal(saved, np.full(1 << 16, -1))


def test_result_gives_up_after_its_timeout(ckpt: Path) -> None:
    gate = Gate()
    response = v1.save_checkpointables_async(ckpt, {"gate": gate})
    with pytest.raises(TimeoutError):
        response.result(timeout=0)
    gate.open.set()
    assert response.result() is None


def test_async_callbacks(ckpt: Path) -> None:
    seen: list[Any] = []
    response = v1.save_async(ckpt, {"a": 1})
    response.on_complete(seen.append)
    response.result()
    response.on_complete(seen.append)
    assert seen == [None, None]


def test_async_save_refuses_at_once(ckpt: Path) -> None:
    with pytest.raises(UnregisteredTypeError):
        v1.save_async(ckpt, {"a": np.int32(1)})
    v1.save_async(ckpt, {"a": 1}).result()
    with pytest.raises(ValueError, match="already exists"):
        v1.save_async(ckpt, {"a": 1})


def test_deprecated_names(ckpt: Path) -> None:
    with pytest.warns(DeprecationWarning):
        v1.save_pytree(ckpt, {"a": 1})
    with pytest.warns(DeprecationWarning):
        assert v1.load_pytree(ckpt, {"a": 0}) == {"a": 1}
    with pytest.warns(DeprecationWarning):
        assert v1.pytree_metadata(ckpt).metadata == {"a": 0}
    with pytest.warns(DeprecationWarning):
        v1.save_pytree_async(ckpt, {"a": 2}, overwrite=True).result()
    assert v1.load(ckpt, checkpointable_name="state") == {"a": 2}


@pytest.mark.parametrize(
    "call", [v1.load_async, v1.load_checkpointables_async, v1.load_pytree_async]
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_loading_in_the_background_is_refused(ckpt: Path, call: Any) -> None:
    with pytest.raises(NotImplementedError):
        call(ckpt)


def test_inside_an_event_loop(ckpt: Path) -> None:
    import asyncio

    async def main() -> Any:
        v1.save(ckpt, {"a": 1})
        return v1.load(ckpt)

    assert asyncio.run(main()) == {"a": 1}


def test_interrupt_leaves_nothing(ckpt: Path) -> None:
    class Interrupted:
        went_on = False

        async def save(self, directory: Any) -> Any:
            async def write() -> None:
                path = await directory.await_creation()
                (path / "file").write_text("half")
                signal.raise_signal(signal.SIGINT)
                self.went_on = True

            return write()

        async def load(self, directory: Any) -> Any:
            raise NotImplementedError

    item = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        v1.save_checkpointables(ckpt, {"state": {"a": 1}, "item": item})
    assert not item.went_on
    assert names_below(ckpt.parent) == set()


def test_numpy_trees_need_no_jax(run_python: Any) -> None:
    run_python(
        "import os, sys\n"
        "import numpy as np\n"
        "from holdfast.orbax import v1\n"
        "path = os.path.abspath('ckpt')\n"
        "v1.save(path, {'a': np.arange(3), 'b': [1, 'x']})\n"
        "assert v1.load(path)['a'].tolist() == [0, 1, 2]\n"
        "assert v1.load(path, {'a': np.zeros(3), 'b': [0, '']})['b'] == "
        "[1, 'x']\n"
        "assert v1.metadata(path).metadata['b'] == [0, 'string']\n"
        "for name in ('jax', 'orbax', 'tensorstore'):\n"
        "    assert name not in sys.modules, name\n"
    )


class Point(NamedTuple):
    x: Any
    y: Any


def test_tuples_come_back_as_such_where_the_options_say(ckpt: Path) -> None:
    context = v1.Context()
    context.pytree.saving.pytree_metadata_options.support_rich_types = True
    tree = {"t": (np.arange(3), 1), "p": Point(2.5, {"k": "s"}), "e": ()}
    with context:
        v1.save(ckpt, tree)
        loaded = v1.load(ckpt)
        described = v1.metadata(ckpt).metadata
    assert isinstance(loaded["t"], tuple) and loaded["t"][1] == 1
    assert loaded["p"]._fields == ("x", "y") and loaded["p"].x == 2.5
    assert loaded["p"].y == {"k": "s"} and loaded["e"] == ()
    assert isinstance(described["t"], tuple)
    assert described["t"][0].shape == (3,) and described["p"].y == {
        "k": "string"
    }
    # Without the option, they are lists and dicts.
    plain = v1.load(ckpt)
    assert isinstance(plain["t"], list)
    assert plain["p"] == {"x": 2.5, "y": {"k": "s"}}


def test_missing_chunks_are_zeros_where_the_options_say(ckpt: Path) -> None:
    context = v1.Context()
    context.array.saving.use_ocdbt = False
    context.array.loading.raise_array_data_missing_error = False
    with context:
        v1.save(ckpt, {"a": np.arange(1, 9.0), "b": np.arange(3)})
        chunk = ckpt / "state" / "a" / "c" / "0"
        chunk.unlink()
        with pytest.raises(ValueError, match="DATA_LOSS"):
            v1.load(ckpt)
        (ckpt / "state" / "_HOLDFAST_DIGESTS").unlink()
        loaded = v1.load(ckpt)
    np.testing.assert_array_equal(loaded["a"], np.zeros(8))
    np.testing.assert_array_equal(loaded["b"], np.arange(3))
    with pytest.raises(ValueError):
        v1.load(ckpt)
