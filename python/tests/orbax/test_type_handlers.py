"""holdfast's type handlers, called directly, and the registry's rules.

If Orbax is installed, every result is compared with Orbax's.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from meshes import sharding
from type_handler_cases import CASES, ROWS

import holdfast.orbax as hfo
from holdfast import _engine
from holdfast.orbax._type_handlers.array_metadata import Store

jax = pytest.importorskip("jax")
ocp = pytest.importorskip("orbax.checkpoint")
epath = pytest.importorskip("etils.epath")


def infos_of(
    package: Any, directory: Path, names: Sequence[str], **options: Any
) -> list[Any]:
    options.setdefault("is_ocdbt_checkpoint", True)
    if package is ocp:
        options["ts_context"] = ocp.type_handlers.get_ts_context(
            use_ocdbt=options["is_ocdbt_checkpoint"]
        )
    return [
        package.type_handlers.ParamInfo(
            name=name, parent_dir=epath.Path(directory), **options
        )
        for name in names
    ]


def write(
    package: Any,
    handler: Any,
    directory: Path,
    values: dict[str, Any],
    args: Sequence[Any] | None = None,
    **options: Any,
) -> None:
    """Makes the calls with which a save writes the values of one handler."""
    infos = infos_of(package, directory, list(values), **options)

    async def serialize() -> Any:
        return await handler.serialize(list(values.values()), infos, args)

    for future in asyncio.run(serialize()):
        future.result()
    if options.get("is_ocdbt_checkpoint", True):
        context = None
        if package is ocp:
            context = ocp.type_handlers.get_ts_context(use_ocdbt=True)
        asyncio.run(
            package.type_handlers.merge_ocdbt_per_process_files(
                epath.Path(directory),
                ts_context=context,
                use_zarr3=options.get("use_zarr3", False),
            )
        )


def read(
    package: Any,
    handler: Any,
    directory: Path,
    names: Sequence[str],
    args: Sequence[Any] | None = None,
    **options: Any,
) -> Any:
    infos = infos_of(package, directory, names, **options)
    return asyncio.run(handler.deserialize(infos, args))


def described(
    package: Any,
    handler: Any,
    directory: Path,
    names: Sequence[str],
    **options: Any,
) -> str:
    infos = infos_of(package, directory, names, **options)
    return str(list(asyncio.run(handler.metadata(infos))))


def files_of(directory: Path) -> list[str]:
    """Returns the relative paths of the files, without data files, whose names
    are random."""
    found = [
        os.path.relpath(os.path.join(parent, name), directory)
        for parent, _, names in os.walk(directory)
        for name in names
    ]
    return sorted(name for name in found if "d" not in Path(name).parts[:-1])


def equal(left: Any, right: Any) -> bool:
    if type(left) is not type(right):
        return False
    if isinstance(left, np.ndarray) or isinstance(left, jax.Array):
        return left.dtype == right.dtype and np.array_equal(left, right)
    return bool(left == right)


@pytest.mark.filterwarnings("ignore:Sharding info")
@pytest.mark.parametrize("case", CASES)
def test_handler_called_directly(case: str, tmp_path: Path) -> None:
    make, values, save_args, restore_args, options = CASES[case]
    results, texts = [], []
    for package, name in ((hfo, "ours"), (ocp, "theirs")):
        directory = tmp_path / name
        directory.mkdir()
        write(
            package,
            make(package),
            directory,
            values,
            save_args(package),
            **options,
        )
    assert files_of(tmp_path / "ours") == files_of(tmp_path / "theirs")
    for name in ("ours", "theirs"):
        for package in (hfo, ocp):
            directory = tmp_path / name
            handler = make(package)
            got = read(
                package,
                handler,
                directory,
                list(values),
                restore_args(package),
                **options,
            )
            results.append(list(got))
            text = described(
                package, handler, directory, list(values), **options
            )
            texts.append(text.replace(f"/{name}", "/X"))
    for other in results[1:]:
        for left, right in zip(results[0], other, strict=True):
            assert equal(left, right), (left, right)
            if isinstance(left, jax.Array):
                assert left.sharding == right.sharding
    assert texts == [texts[0]] * 4


def test_sharding_file_is_optional(tmp_path: Path) -> None:
    handler = hfo.type_handlers.ArrayHandler(enable_write_sharding_file=False)
    write(hfo, handler, tmp_path, {"a": jax.numpy.arange(3)})
    assert "_sharding" not in files_of(tmp_path)
    with pytest.raises(ValueError) as caught:
        read(hfo, handler, tmp_path, ["a"], [hfo.ArrayRestoreArgs()])
    assert str(caught.value) == (
        "Sharding of jax.Array cannot be None. Provide `mesh` and `mesh_axes`"
        " OR `sharding`"
    )


def test_metadata_key_in_a_database(tmp_path: Path) -> None:
    handler = hfo.type_handlers.NumpyHandler(metadata_key="meta.json")
    infos = infos_of(hfo, tmp_path, ["a", "x/y"])

    async def serialize() -> Any:
        return await handler.serialize([ROWS, ROWS + 1], infos)

    for future in asyncio.run(serialize()):
        future.result()
    asyncio.run(
        hfo.type_handlers.merge_ocdbt_per_process_files(
            tmp_path, None, False, enable_validation=False
        )
    )
    first, second = read(
        hfo,
        handler,
        tmp_path,
        ["a", "x/y"],
        [hfo.RestoreArgs(dtype=np.dtype("int16")), hfo.RestoreArgs()],
    )
    assert first.dtype == np.int16
    np.testing.assert_array_equal(first, ROWS)
    np.testing.assert_array_equal(second, ROWS + 1)


def test_merge_refuses_arrays_without_metadata(tmp_path: Path) -> None:
    handler = hfo.type_handlers.NumpyHandler(metadata_key="meta.json")
    with pytest.raises(ValueError) as caught:
        write(hfo, handler, tmp_path, {"a": ROWS})
    assert str(caught.value) == (
        "Save failed: 2/2 params are missing .zarray in checkpoint:\na"
        f" \na/meta.json.\nTensorstore KvStore: {tmp_path}."
    )


def test_two_handlers_share_a_database(tmp_path: Path) -> None:
    numpy, scalar = (
        hfo.type_handlers.NumpyHandler(),
        hfo.type_handlers.ScalarHandler(),
    )

    async def serialize() -> list[Any]:
        return [
            *await numpy.serialize([ROWS], infos_of(hfo, tmp_path, ["a"])),
            *await scalar.serialize([7], infos_of(hfo, tmp_path, ["b"])),
        ]

    for future in asyncio.run(serialize()):
        future.result()
    asyncio.run(
        hfo.type_handlers.merge_ocdbt_per_process_files(tmp_path, None, False)
    )
    assert files_of(tmp_path) == [
        "manifest.ocdbt",
        "ocdbt.process_0/manifest.ocdbt",
    ]
    assert read(ocp, ocp.type_handlers.ScalarHandler(), tmp_path, ["b"]) == [7]
    (array,) = read(ocp, ocp.type_handlers.NumpyHandler(), tmp_path, ["a"])
    np.testing.assert_array_equal(array, ROWS)


def test_arrays_are_copied_before_serialize_returns(tmp_path: Path) -> None:
    array = np.zeros(1000)
    handler = hfo.type_handlers.NumpyHandler()

    async def serialize() -> Any:
        return await handler.serialize([array], infos_of(hfo, tmp_path, ["a"]))

    futures = asyncio.run(serialize())
    array[:] = 1
    for future in futures:
        future.result()
    asyncio.run(
        hfo.type_handlers.merge_ocdbt_per_process_files(tmp_path, None, False)
    )
    (stored,) = read(hfo, handler, tmp_path, ["a"])
    assert not stored.any()


def test_typed_keys_need_a_store(tmp_path: Path) -> None:
    key = jax.random.key(3)
    plain = hfo.type_handlers.ArrayHandler()
    write(hfo, plain, tmp_path, {"k": key})
    args = [hfo.ArrayRestoreArgs()]
    with pytest.warns(UserWarning, match="Sharding info not provided"):
        (data,) = read(hfo, plain, tmp_path, ["k"], args)
    assert data.dtype == np.uint32
    assert "array_metadatas/process_0" not in files_of(tmp_path)


def _outcome(call: Callable[[], Any]) -> tuple[str, str] | Any:
    try:
        return call()
    except Exception as error:
        return type(error).__name__, str(error)


ERRORS: list[Callable[[Any, Path], Any]] = [
    lambda p, _: p.type_handlers.get_type_handler(np.bool_),
    lambda p, _: p.type_handlers.register_type_handler(
        complex, p.type_handlers.ScalarHandler()
    ),
    lambda p, _: p.type_handlers.register_standard_handlers_with_options(),
    lambda p, _: p.type_handlers.register_standard_handlers_with_options(
        use_ocdbt=True, ts_context=None, no_such_option=1
    ),
    lambda p, _: asyncio.run(p.type_handlers.NumpyHandler().serialize([], [])),
    lambda p, d: write(
        p,
        p.type_handlers.NumpyHandler(),
        d,
        {"a": np.zeros((0, 2))},
        value_typestr="np.ndarray",
    ),
    lambda p, d: write(
        p, p.type_handlers.NumpyHandler(), d, {"a": np.array(["a", "bc"])}
    ),
    lambda p, d: write(p, p.type_handlers.ScalarHandler(), d, {"a": 1 << 70}),
    lambda p, d: write(
        p,
        p.type_handlers.ArrayHandler(replica_id=None),
        d,
        {"a": jax.numpy.arange(2)},
    ),
    lambda p, d: read(p, p.type_handlers.ArrayHandler(), d, ["a"]),
    lambda p, d: read(p, p.type_handlers.SingleReplicaArrayHandler(), d, ["a"]),
    lambda p, d: read(
        p,
        p.type_handlers.SingleReplicaArrayHandler(),
        d,
        ["a"],
        [p.type_handlers.SingleReplicaArrayRestoreArgs()],
    ),
    lambda p, d: read(
        p,
        p.type_handlers.SingleReplicaArrayHandler(),
        d,
        ["a"],
        [
            p.type_handlers.SingleReplicaArrayRestoreArgs(
                sharding=sharding((1, 8), "y")
            )
        ],
    ),
]


@pytest.mark.parametrize("index", range(len(ERRORS)))
def test_errors(index: int, tmp_path: Path) -> None:
    ours = _outcome(lambda: ERRORS[index](hfo, tmp_path))
    theirs = _outcome(lambda: ERRORS[index](ocp, tmp_path))
    assert ours == theirs
    assert isinstance(ours, tuple)


@pytest.mark.parametrize(
    "kind",
    [int, bool, bytes, np.bool_, np.float32, complex, str, type(...)]
    + ["string", "jax.Array", "placeholder", jax.Array, np.ndarray],
)
def test_has_type_handler(kind: Any) -> None:
    ours = hfo.type_handlers.has_type_handler(kind)
    assert ours == ocp.type_handlers.has_type_handler(kind)


def test_supported_types() -> None:
    assert (
        hfo.type_handlers.supported_types()
        == ocp.type_handlers.supported_types()
    )
    for value in ((), b"", 1j, None, {}, "x", np.zeros(0), object()):
        assert hfo.type_handlers.is_supported_type(
            value
        ) == ocp.type_handlers.is_supported_type(value)


class _Texted(hfo.type_handlers.PlaceholderHandler):
    def __init__(self, text: str) -> None:
        self._text = text

    def typestr(self) -> str:
        return self._text


def test_registry_rules(caplog: pytest.LogCaptureFixture) -> None:
    create = hfo.type_handlers.create_type_handler_registry
    first, second, third = (_Texted(text) for text in "abc")
    registry = create((int, first))
    assert registry.get(bool) is first
    registry.add(object, second)
    assert registry.get(int) is first
    assert registry.get(str) is second
    registry.add(bool, third, override=True)
    # The new handler has replaced the entry for bool, with its rule.
    assert registry.get(bool) is third
    assert registry.get(int) is second
    assert registry.get("a") is first
    assert "overriding c" in caplog.text
    assert {record.name for record in caplog.records} == {"holdfast"}
    even = create()
    even.add(int, first, func=lambda kind: kind.__name__ == "float")
    assert even.get(float) is first
    assert not even.has(int)


def test_limits() -> None:
    limits = hfo.type_handlers
    for make in (limits.LimitInFlightBytes, limits.get_byte_limiter):
        with pytest.raises(ValueError, match="Must provide positive"):
            make(0)
    limiter = limits.LimitInFlightBytes(10)
    assert limiter.max_bytes == 10
    with pytest.raises(ValueError) as caught:
        asyncio.run(limiter.wait_for_bytes(10))
    assert str(caught.value) == (
        "Requested more bytes than we reserved space for: 10 > 10"
    )
    order: list[str] = []

    async def contend() -> None:
        await limiter.wait_for_bytes(6)

        async def second() -> None:
            await limiter.wait_for_bytes(6)
            order.append("granted")

        task = asyncio.create_task(second())
        await asyncio.sleep(0)
        order.append("released")
        await limiter.release_bytes(6)
        await task

    asyncio.run(contend())
    assert order == ["released", "granted"]
    assert isinstance(
        limits.get_byte_limiter(None), limits.UnlimitedInFlightBytes
    )


def test_param_info() -> None:
    info = hfo.type_handlers.ParamInfo(name="a.b", parent_dir=Path("/x"))
    assert info.path == Path("/x/a.b")
    other = info.replace(name="c", skip_deserialize=True)
    assert (other.name, other.path) == ("c", Path("/x/a.b"))
    assert (info.name, info.skip_deserialize) == ("a.b", None)
    assert repr(info).startswith(
        "<orbax.checkpoint._src.serialization.types.ParamInfo object at 0x"
    )


@pytest.mark.parametrize(
    ("platforms", "rows"), [("cpu", 1), ("CUDA", 8), ("gpu", 8)]
)
def test_every_way_shares_replicas_by_the_same_platforms(
    platforms: str, rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replicated = jax.device_put(np.arange(8, dtype=np.int32), sharding((8,)))
    monkeypatch.setenv("JAX_PLATFORMS", platforms)
    handlers = hfo.type_handlers
    alone = handlers.ArrayHandler(array_metadata_store=Store())
    (tmp_path / "alone").mkdir()
    write(hfo, alone, tmp_path / "alone", {"a": replicated})
    hfo.PyTreeCheckpointer().save(tmp_path / "tree", {"a": replicated})
    for name in ("alone", "tree"):
        text = (tmp_path / name / "array_metadatas/process_0").read_text()
        (entry,) = json.loads(text)["array_metadatas"]
        assert entry["array_metadata"]["write_shape"] == [rows], name


class Counter:
    """Calls a function, and counts the calls."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.count = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.count += 1
        return self._function(*args, **kwargs)


def test_files_that_leaves_share_are_read_and_written_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handlers = hfo.type_handlers
    texts = {f"text_{i}": str(i) for i in range(40)}
    one_device = sharding((1,), "x")
    arrays = {
        f"array_{i}": jax.device_put(np.arange(i + 1), one_device)
        for i in range(40)
    }
    writes = Counter(_engine.serialize_strings)
    found_texts = Counter(_engine.deserialize_strings)
    reads = Counter(_engine.recorded_shardings)
    monkeypatch.setattr(_engine, "serialize_strings", writes)
    monkeypatch.setattr(_engine, "deserialize_strings", found_texts)
    monkeypatch.setattr(_engine, "recorded_shardings", reads)
    write(hfo, handlers.StringHandler(), tmp_path, texts)
    assert writes.count == 1
    found = read(hfo, handlers.StringHandler(), tmp_path, list(texts))
    assert (found, found_texts.count) == (list(texts.values()), 1)
    write(hfo, handlers.ArrayHandler(), tmp_path, arrays)
    reads.count = 0
    wanted = [handlers.ArrayRestoreArgs() for _ in arrays]
    with pytest.warns(UserWarning, match="Sharding info"):
        read(hfo, handlers.ArrayHandler(), tmp_path, list(arrays), wanted)
    assert reads.count == 1
    reads.count = 0
    described(hfo, handlers.ArrayHandler(), tmp_path, list(arrays))
    assert reads.count == 1


@pytest.mark.parametrize(
    ("handler", "values"),
    [
        ("NumpyHandler", {"a": np.arange(3, dtype=np.float32)}),
        ("StringHandler", {"b": "after"}),
    ],
)
def test_handler_called_alone_drops_checksums_of_what_it_replaces(
    handler: str, values: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "ckpt"
    before = {"a": np.zeros(3, np.float32), "b": "before"}
    item_handler = hfo.PyTreeCheckpointHandler(use_ocdbt=False)
    with hfo.Checkpointer(item_handler) as checkpointer:
        checkpointer.save(path, before)
        alone = getattr(hfo.type_handlers, handler)()
        write(hfo, alone, path, values, is_ocdbt_checkpoint=False)
        restored = checkpointer.restore(path)
    theirs = ocp.PyTreeCheckpointer().restore(path)
    for name, value in {**before, **values}.items():
        np.testing.assert_array_equal(restored[name], value)
        np.testing.assert_array_equal(theirs[name], value)
