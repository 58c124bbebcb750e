"""async_serialize and async_deserialize, compared with Orbax's."""

from __future__ import annotations

import asyncio
import functools
from pathlib import Path
from typing import Any

import meshes
import numpy as np
import pytest

from holdfast.orbax import serialization as ours

jax = pytest.importorskip("jax")
orbax = pytest.importorskip("orbax.checkpoint")
theirs = orbax.serialization


def spec_of(path: Path, driver: str = "zarr") -> dict[str, Any]:
    kvstore = {"driver": "file", "path": f"{path}/"}
    return {"driver": driver, "kvstore": kvstore}


sharding = functools.partial(meshes.sharding, (4, 2))


def array(shape: tuple[int, ...], *axes: str | None) -> Any:
    values = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    return jax.device_put(values, sharding(*axes))


def tree_of(path: Path) -> dict[str, bytes]:
    files = (file for file in sorted(path.rglob("*")) if file.is_file())
    return {str(file.relative_to(path)): file.read_bytes() for file in files}


@pytest.mark.parametrize("axes", [("x", "y"), ("x", None), (None, None), ()])
@pytest.mark.parametrize("shares", [True, False])
def test_both_write_the_same(
    axes: tuple[Any, ...], shares: bool, tmp_path: Path
) -> None:
    given = array((8, 4), *axes)
    for module, name in ((ours, "ours"), (theirs, "theirs")):
        spec = spec_of(tmp_path / name)
        call = module.async_serialize(given, spec, use_replica_parallel=shares)
        asyncio.run(call)
        assert spec["dtype"] == "float32"
    written, want = tree_of(tmp_path / "ours"), tree_of(tmp_path / "theirs")
    assert written.keys() == want.keys()
    assert written[".zarray"] == want[".zarray"]


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("shape", [None, (8, 4), (4, 4), (12, 6)])
@pytest.mark.parametrize("dtype", [None, np.int32])
def test_both_read_the_same(
    shape: Any, dtype: Any, strict: bool, tmp_path: Path
) -> None:
    given = array((8, 4), "x")
    spec = spec_of(tmp_path / "a")
    asyncio.run(ours.async_serialize(given, dict(spec)))

    def read(module: Any) -> Any:
        try:
            call = module.async_deserialize(
                sharding("x", "y"), dict(spec), shape, dtype, strict=strict
            )
            result, size = asyncio.run(call)
        except Exception as error:
            cause = error.__cause__ or error
            return str(cause).split(" See ")[0]
        return (
            np.asarray(result).tolist(),
            result.dtype,
            result.sharding,
            size,
        )

    assert read(ours) == read(theirs)


def test_a_shape_that_changes_is_told(tmp_path: Path) -> None:
    spec = spec_of(tmp_path / "a")
    asyncio.run(ours.async_serialize(array((8, 4)), dict(spec)))
    seen: list[str] = []
    jax.monitoring.register_event_listener(
        lambda event, **_: seen.append(event)
    )
    try:
        for axes in ((), ("x",)):
            asyncio.run(ours.async_deserialize(sharding(*axes), dict(spec)))
    finally:
        jax.monitoring.clear_event_listeners()
    assert seen == ["/jax/orbax/checkpoint/deserialize/shard_shape_changed"]


def test_what_cannot_be(tmp_path: Path) -> None:
    spec = spec_of(tmp_path / "a")
    with pytest.raises(NotImplementedError, match="transaction"):
        asyncio.run(
            ours.async_serialize(array((8,)), spec, transaction=object())
        )
    assert not (tmp_path / "a").exists()
    asyncio.run(ours.async_serialize(array((8,)), spec))
    for chunk in (tmp_path / "a").glob("[0-9]*"):
        chunk.write_bytes(b"not zstd")
    for module in (ours, theirs):
        with pytest.raises(Exception, match="reading array index") as info:
            asyncio.run(
                module.async_deserialize(sharding(), spec_of(tmp_path / "a"))
            )
        assert type(info.value) is Exception
    with pytest.raises(ValueError, match="should be specified, concrete"):
        asyncio.run(ours.async_deserialize(None, spec))
