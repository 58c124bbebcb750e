"""holdfast.orbax.v1.Context: options and their effects, nesting, threads."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from holdfast.orbax import v1
from holdfast.orbax.v1.context import get_context

StorageOptions = v1.options.ArrayOptions.Saving.StorageOptions


def test_defaults() -> None:
    saving = v1.Context().array.saving
    assert (saving.use_ocdbt, saving.use_zarr3, saving.use_compression) == (
        True,
        True,
        True,
    )
    context = v1.Context()
    assert context.checkpoint_layout is v1.options.CheckpointLayout.ORBAX
    assert context.pytree.loading.partial_load is False
    assert context.array.loading.raise_array_data_missing_error is True
    assert context.asynchronous.timeout_secs == 1200
    assert context.memory.deepcopy_host_arrays is True
    assert context.array_options is context.array
    assert context.async_options is context.asynchronous


def test_active_context_does_not_change() -> None:
    context = v1.Context()
    with context:
        for holder, name in (
            (context.array.saving, "use_ocdbt"),
            (context.array.saving.storage_options, "chunk_byte_size"),
            (context.memory, "read_concurrent_bytes"),
        ):
            with pytest.raises(RuntimeError) as info:
                setattr(holder, name, 0)
            assert str(info.value) == (
                "Cannot mutate options of an active context. Configure before "
                "entering the `with` block."
            )
        with pytest.raises(RuntimeError, match="Cannot mutate an active Cont"):
            context.checkpoint_layout = "auto"
        assert context.array.saving.use_ocdbt is True
    context.array.saving.use_ocdbt = False
    context.checkpoint_layout = "auto"


def test_options_are_copied_from_a_parent() -> None:
    parent = v1.Context()
    parent.array.saving.use_ocdbt = False
    with parent:
        child = v1.Context(parent)
        child.array.saving.use_zarr3 = False
        assert child.array.saving.use_ocdbt is False
    assert parent.array.saving.use_zarr3 is True
    replaced = v1.Context(parent, array_options=v1.options.ArrayOptions())
    assert replaced.array.saving.use_ocdbt is True


def test_nesting() -> None:
    outer, inner = v1.Context(), v1.Context()
    with outer:
        with inner:
            with outer:
                assert get_context() is outer
            assert get_context() is inner
        assert get_context() is outer
    assert get_context() is not outer


def test_contexts_are_of_one_thread() -> None:
    seen: list[Any] = []
    context = v1.Context()
    with context:
        thread = threading.Thread(target=lambda: seen.append(get_context()))
        thread.start()
        thread.join()
        assert get_context() is context
    assert seen[0] is not context


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: v1.Context(no_such_option=1), TypeError),
        (lambda: v1.Context(checkpoint_layout="nonsense"), ValueError),
        (lambda: v1.options.ArrayOptions.Saving(*[True]), TypeError),
        (lambda: setattr(v1.Context(), "array", None), AttributeError),
        (lambda: v1.Context().no_such_attribute, AttributeError),
    ],
)
def test_wrong_use(call: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        call()


def save_with(ckpt: Path, **options: Any) -> dict[str, Any]:
    context = v1.Context()
    for name, value in options.items():
        setattr(context.array.saving, name, value)
    tree = {"a": np.arange(64.0), "b": {"c": np.ones(4, np.int32)}}
    with context:
        v1.save(ckpt, tree)
    loaded = v1.load(ckpt)
    np.testing.assert_array_equal(loaded["a"], tree["a"])
    result: dict[str, Any] = loaded
    return result


def zarr_json(ckpt: Path, name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(
        (ckpt / "state" / name / "zarr.json").read_text()
    )
    return document


def test_without_database(ckpt: Path) -> None:
    save_with(ckpt, use_ocdbt=False, use_compression=False)
    assert zarr_json(ckpt, "b.c")["shape"] == [4]
    assert not (ckpt / "state" / "manifest.ocdbt").exists()


def test_zarr_2(ckpt: Path) -> None:
    save_with(ckpt, use_ocdbt=False, use_zarr3=False)
    assert (ckpt / "state" / "a" / ".zarray").exists()


def test_storage_options(ckpt: Path) -> None:
    def create(keypath: Any, value: Any) -> StorageOptions | None:
        if str(keypath[-1]) == "['c']" or getattr(keypath[-1], "key", 0) == "c":
            return StorageOptions(dtype=np.int8, chunk_byte_size=2)
        return None

    loaded = save_with(
        ckpt,
        use_ocdbt=False,
        storage_options=StorageOptions(chunk_byte_size=256),
        scoped_storage_options_creator=create,
    )
    assert loaded["b"]["c"].dtype == np.int8
    grid = zarr_json(ckpt, "a")["chunk_grid"]["configuration"]
    assert grid["chunk_shape"] == [32]
    grid = zarr_json(ckpt, "b.c")["chunk_grid"]["configuration"]
    assert grid["chunk_shape"] == [2]


def test_replicated_arrays_in_a_database_of_their_own(ckpt: Path) -> None:
    jax = pytest.importorskip("jax")
    mesh = jax.sharding.Mesh(jax.devices(), ("x",))
    replicated = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    sharded = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x"))
    values = np.arange(16, dtype=np.float32)
    tree = {
        "n": values,
        "r": jax.device_put(values, replicated),
        "s": jax.device_put(values, sharded),
    }
    context = v1.Context()
    context.array.saving.enable_replica_parallel_separate_folder = True
    with context:
        v1.save(ckpt, tree)
        restored = v1.load(ckpt, tree)
    assert (ckpt / "state" / "ocdbt.process_replica_0").is_dir()
    for name in tree:
        np.testing.assert_array_equal(restored[name], values)


def test_permission_mode(ckpt: Path) -> None:
    context = v1.Context()
    context.file.path_permission_mode = 0o750
    with context:
        v1.save(ckpt, {"a": 1})
    assert ckpt.stat().st_mode & 0o777 == 0o750


def test_path_class(ckpt: Path) -> None:
    class MyPath(type(ckpt)):  # type: ignore[misc]
        pass

    v1.save(ckpt, {"a": 1})
    context = v1.Context()
    context.file.path_class = MyPath
    with context:
        assert type(v1.metadata(ckpt).path) is MyPath
