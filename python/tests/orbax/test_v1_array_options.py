"""v1's options for array handlers and memory, compared with Orbax's."""

from __future__ import annotations

import copy
import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import holdfast.orbax as ours

jax = pytest.importorskip("jax")
orbax = pytest.importorskip("orbax.checkpoint")

pytestmark = pytest.mark.filterwarnings("ignore")

# The modules of classes that are values of options, in each package.
_PLACES = {
    "TransferPriority": ("_src.serialization.types", "_leaves.param_info"),
    "MemoryProfiler": (
        "_src.serialization.memory_regulator",
        "_devices.memory_regulator",
    ),
    "Store": (
        "_src.metadata.array_metadata_store",
        "_type_handlers.array_metadata",
    ),
}


class Package:
    """One of the two packages, and the calls that its options get."""

    def __init__(self, ocp: Any, index: int) -> None:
        self.v1 = ocp.v1
        self.heard: list[Any] = []
        self._ocp, self._index = ocp, index

    def cls(self, name: str) -> Any:
        module = f"{self._ocp.__name__}.{_PLACES[name][self._index]}"
        return getattr(importlib.import_module(module), name)

    def callback(self) -> Any:
        heard, priority = self.heard, self.cls("TransferPriority")

        class Callback:
            def key_priority(self, path: Any) -> Any:
                key = jax.tree_util.keystr(path)
                heard.append(("priority", key))
                return (
                    priority.ASYNCHRONOUS_DEPRIORITIZED
                    if "b" in key
                    else priority.SYNCHRONOUS
                )

            def on_transfer_end(self, path: Any) -> None:
                heard.append(("copied", jax.tree_util.keystr(path)))

            def on_write_end(self, path: Any) -> None:
                heard.append(("written", jax.tree_util.keystr(path)))

        return Callback()

    def profiler(self) -> Any:
        heard, base = self.heard, self.cls("MemoryProfiler")

        class Profiler(base):  # type: ignore[misc]
            total_memory_gib = 64.0

            def profiler_start(self) -> None:
                heard.append("start")

            def profiler_end(self) -> None:
                heard.append("end")
                self._peak_usage_bytes = 2**33

        return Profiler()

    def store(self) -> Any:
        heard, base = self.heard, self.cls("Store")

        class Store(base):  # type: ignore[misc]
            async def write(self, *args: Any, **kwargs: Any) -> None:
                heard.append("stored")
                await super().write(*args, **kwargs)

        return Store()


PACKAGES = [Package(orbax, 0), Package(ours, 1)]


@pytest.fixture(params=PACKAGES, ids=["orbax", "holdfast"])
def package(request: Any) -> Package:
    request.param.heard.clear()
    return request.param  # type: ignore[no-any-return]


def tree() -> dict[str, Any]:
    return {
        "a": jax.numpy.arange(4.0),
        "b": jax.numpy.arange(8.0),
        "k": jax.random.key(1),
        "n": np.arange(3),
    }


def test_a_callback_hears_of_arrays(package: Package, ckpt: Path) -> None:
    context = package.v1.Context()
    context.memory.serialization_status_callback = package.callback()
    with context:
        package.v1.save(ckpt, tree())
    keys = ["['a']", "['b']", "['k']"]
    assert package.heard == [
        *(("copied", key) for key in keys),
        *(("written", key) for key in keys),
    ]
    assert package.v1.load(ckpt)["k"] == tree()["k"]


def test_a_callback_chooses_what_waits(package: Package, ckpt: Path) -> None:
    context = package.v1.Context()
    context.memory.serialization_status_callback = package.callback()
    context.memory.transfer_concurrent_bytes = 40
    with context:
        response = package.v1.save_async(ckpt, tree())
        response.result()
    assert [note for note in package.heard if note[0] != "priority"] == [
        ("copied", "['a']"),
        ("copied", "['k']"),
        ("written", "['a']"),
        ("written", "['k']"),
        ("copied", "['b']"),
        ("written", "['b']"),
    ]


def test_only_options_without_an_effect_warn(
    ckpt: Path, caplog: pytest.LogCaptureFixture
) -> None:
    context = ours.v1.Context()
    context.memory.serialization_status_callback = PACKAGES[1].callback()
    context.memory.transfer_concurrent_bytes = 40
    context.memory.expected_surge_bytes = 1
    with context:
        ours.v1.save(ckpt, tree())
    warned = [line for line in caplog.messages if "has no effect" in line]
    assert len(warned) == 1 and "expected_surge_bytes" in warned[0]


def test_a_regulator_measures_saves(package: Package, tmp_path: Path) -> None:
    options = package.v1.options.MemoryOptions.RegulatorOptions(
        max_memory_limit_gib=40, profiler=package.profiler()
    )
    context = package.v1.Context()
    context.memory.regulator_options = options
    limits = []
    with package.v1.Context(context) as active:
        assert active.memory.regulator_options.regulator is options.regulator
        for name in ("a", "b"):
            package.v1.save(tmp_path / name, tree())
            limits.append(options.regulator.current_limit_bytes)
    assert package.heard == ["start", "end"] * 2
    assert limits == [38225208934, 42949672960]
    assert copy.deepcopy(options).regulator is options.regulator
    with pytest.raises(ValueError, match="requires a `profiler`"):
        type(options)(max_memory_limit_gib=40, profiler=None)


def test_without_a_store_of_metadata(package: Package, ckpt: Path) -> None:
    context = package.v1.Context()
    context.array.saving.array_metadata_store = None
    with context:
        package.v1.save(ckpt, tree())
        restored = package.v1.load(ckpt)
    item = ckpt / "state"
    assert not (item / "array_metadatas").exists()
    entries = json.loads((item / "_METADATA").read_text())["tree_metadata"]
    assert "write_shape" not in entries["('a',)"]["value_metadata"]
    np.testing.assert_array_equal(
        restored["k"], jax.random.key_data(tree()["k"])
    )


def test_a_store_of_ones_own(package: Package, ckpt: Path) -> None:
    context = package.v1.Context()
    context.array.saving.array_metadata_store = package.store()
    with context:
        package.v1.save(ckpt, tree())
    assert package.heard == ["stored"]
    assert package.v1.load(ckpt)["k"] == tree()["k"]


def test_options_of_the_older_interface(package: Package) -> None:
    options = package.v1.options
    assert vars(options.AsyncOptions(timeout_secs=5).v0()) == {
        "timeout_secs": 5,
        "barrier_sync_fn": None,
        "post_finalization_callback": None,
        "create_directories_asynchronously": True,
    }
    older = options.MultiprocessingOptions(primary_host=None).v0()
    assert (older.primary_host, older.active_processes) == (None, None)
    older = options.FileOptions(path_permission_mode=0o750).v0()
    assert vars(older) == {
        "path_permission_mode": 0o750,
        "skip_sync_file_validations": False,
    }


def test_a_validator_of_arrays(ckpt: Path) -> None:
    seen = []

    class Validator:
        def validate_all_array_metadatas(self, found: Any) -> None:
            seen.append(sorted(found))

    handler = ours.v1.handlers.PyTreeHandler(
        array_metadata_validator=Validator()
    )
    with pytest.raises(NotImplementedError, match="leaf_handler_registry"):
        ours.v1.handlers.PyTreeHandler(leaf_handler_registry=object())
    with pytest.raises(NotImplementedError, match="partial.save"):
        ours.v1.handlers.PyTreeHandler(partial_save_mode=True)
    handler.validate_leaves_handleable(tree())
    with pytest.raises(ValueError, match="leaf types are not registered"):
        handler.validate_leaves_handleable({"a": object()})
    with pytest.raises(ValueError, match="abstract leaf types are not"):
        handler.validate_abstract_leaves_handleable({"a": object()})

    class Handled(ours.v1.handlers.PyTreeHandler):
        def __init__(self) -> None:
            super().__init__(array_metadata_validator=Validator())

    registry = ours.v1.handlers.local_registry()
    registry.add(Handled, checkpointable_name="mine")
    context = ours.v1.Context()
    context.checkpointables.registry = registry
    with context:
        ours.v1.save_checkpointables(ckpt, {"mine": tree()})
    assert seen == [[0]]
