"""Wrong input is refused with Megatron Core's message, and with its name."""

from __future__ import annotations

import json
import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from shards import cut, request, saved, table

from holdfast import errors, megatron


def test_absent_chunk_is_zeros_and_a_warning_that_names_it(
    ckpt: Path,
) -> None:
    whole = saved(ckpt)
    (ckpt / "w" / "1.0").unlink()

    with pytest.warns(megatron.AbsentChunksWarning, match=r"w/1\.0"):
        loaded = megatron.load({"w": request()}, ckpt)["w"]

    whole[4:] = 0
    np.testing.assert_array_equal(loaded, whole)


Damage = Callable[[Path], None]


def write(name: str, text: str) -> Damage:
    return lambda path: (path / name).write_text(text) and None


def config(**changes: Any) -> Damage:
    document = {"sharded_backend": "zarr", "sharded_backend_version": 1}
    return write("metadata.json", json.dumps({**document, **changes}))


def cut_off(name: str) -> Damage:
    return lambda path: os.truncate(path / name, 5)


@pytest.mark.parametrize(
    ("damage", "asked", "kind", "code", "text"),
    [
        (
            lambda path: (path / "metadata.json").unlink(),
            request(),
            megatron.CheckpointingException,
            "NOT_A_DIST_CKPT",
            "is not a distributed checkpoint",
        ),
        (
            lambda path: (path / "common.pt").unlink(),
            request(),
            megatron.CheckpointingException,
            "COMMON_NOT_FOUND",
            "Common file .*common.pt does not exist",
        ),
        (
            lambda _: None,
            request("no.such"),
            megatron.CheckpointingException,
            "ARRAY_NOT_FOUND",
            "Array .*/no.such could not be loaded",
        ),
        (
            lambda _: None,
            request(shape=(9, 6)),
            megatron.CheckpointingException,
            "GLOBAL_SHAPE_MISMATCH",
            r"loaded \(\(8, 6\)\) and expected \(\(9, 6\)\) tensor for key w",
        ),
        (
            config(sharded_backend_version=2),
            request(),
            megatron.CheckpointingException,
            "UNKNOWN_STRATEGY",
            r"\('load_sharded', 'zarr', 2\)",
        ),
        (
            config(sharded_backend="foo"),
            request(),
            megatron.CheckpointingException,
            "UNKNOWN_STRATEGY",
            r"\('load_sharded', 'foo', 1\).*zarr version 1",
        ),
        (
            config(sharded_backend=["zarr"]),
            request(),
            megatron.CheckpointingException,
            "UNKNOWN_STRATEGY",
            "load_sharded",
        ),
        (
            write("metadata.json", "[]"),
            request(),
            TypeError,
            None,
            "want an object",
        ),
        (
            write("metadata.json", "[" * 100000),
            request(),
            json.JSONDecodeError,
            None,
            "nested",
        ),
        (
            cut_off("w/0.0"),
            request(),
            ValueError,
            "CHUNK_SIZE",
            "Not enough data",
        ),
        (
            write("w/.zarray", "{"),
            request(),
            megatron.CheckpointingException,
            "ARRAY_METADATA_INVALID",
            "could not be loaded",
        ),
        (
            lambda _: None,
            request("../w"),
            Exception,
            "REFUSED_KEY",
            r"\.\.",
        ),
        (cut_off("common.pt"), request(), errors.DataLossError, None, "."),
    ],
)
def test_loads(
    ckpt: Path,
    damage: Damage,
    asked: megatron.ShardedTensor,
    kind: type[Exception],
    code: str | None,
    text: str,
) -> None:
    saved(ckpt)
    damage(ckpt)

    with pytest.raises(kind, match=text) as raised:
        megatron.load({"w": asked}, str(ckpt))

    assert getattr(raised.value, "code", None) == code


def test_shape_mismatch_that_is_allowed_is_padded(ckpt: Path) -> None:
    whole = saved(ckpt)

    loaded = megatron.load(
        {"w": request(shape=(10, 6), allow_shape_mismatch=True)}, ckpt
    )["w"]

    np.testing.assert_array_equal(loaded[:8], whole)
    np.testing.assert_array_equal(loaded[8:], 0)


class Hostile:
    """An object whose pickle calls a function when it is loaded."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> tuple[Any, ...]:
        return self.call


@pytest.mark.parametrize(
    "value",
    [
        Hostile(os.system, "touch hostile"),
        Hostile(eval, "open('hostile', 'w')"),
        Hostile(getattr, os, "system"),
        {"x": [Hostile(os.mkdir, "hostile")]},
    ],
)
def test_a_hostile_common_state_is_refused(
    ckpt: Path, tmp_path: Path, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved(ckpt)
    monkeypatch.chdir(tmp_path)
    with zipfile.ZipFile(ckpt / "common.pt", "w") as archive:
        archive.writestr("common/data.pkl", safe_dumps(value))
        archive.writestr("common/byteorder", "little")
        archive.writestr("common/version", "3\n")

    with pytest.raises(errors.HoldfastError):
        megatron.load_common_state_dict(ckpt)

    assert not (tmp_path / "hostile").exists()


def safe_dumps(value: Any) -> bytes:
    if isinstance(value, Hostile) and value.call[0] is getattr:
        # getattr's argument, a module, cannot be pickled, so the pickle is
        # written by hand.
        return b"cos\nsystem\n(S'touch hostile'\ntR."
    return pickle.dumps(value, protocol=2)


@pytest.mark.parametrize(
    ("ranks", "text"),
    [
        (
            lambda w: [{"w": cut("w", w, 0, 2)}, {}],
            r"Invalid access pattern for ShardedTensor\(key='w'",
        ),
        (
            lambda w: [{"w": cut("w", w, 0, 1)}, {"w": cut("w", w, 0, 1)}],
            r"Invalid access pattern for ShardedTensor\(key='w'",
        ),
        (
            lambda w: [
                {"w": cut("w", w, 0, 2)},
                {"w": cut("w", w.astype("f8"), 1, 2)},
            ],
            "torch.float64, torch.float32",
        ),
    ],
)
def test_shards_that_do_not_cover_a_tensor(
    ckpt: Path, ranks: Callable[[Any], list[Any]], text: str
) -> None:
    ckpt.mkdir()

    results = megatron.save_ranks(ranks(table()), ckpt, return_exceptions=True)

    for result in results:
        with pytest.raises(megatron.CheckpointingException, match=text):
            raise result
    assert list(ckpt.iterdir()) == []


@pytest.mark.parametrize(
    "key", ["../out", "a/../../out", "/out", "", "a\0b", "w.zip", "\udcff", "."]
)
def test_keys_that_name_no_directory_of_the_checkpoint(
    ckpt: Path, key: str
) -> None:
    ckpt.mkdir()
    before = sorted(ckpt.parent.rglob("*"))

    with pytest.raises((megatron.CheckpointingException, ValueError)):
        megatron.save({"w": cut(key, table(), 0, 1)}, ckpt)
    with pytest.raises((megatron.CheckpointingException, ValueError)):
        megatron.save({"o": megatron.ShardedObject(key, 1, (1,), (0,))}, ckpt)

    made = set(ckpt.parent.rglob("*")) - set(before)
    assert {path.name for path in made} <= {"common.pt"}
    assert not megatron.check_is_distributed_checkpoint(ckpt)


def test_a_directory_that_has_the_array_already(ckpt: Path) -> None:
    saved(ckpt)

    with pytest.raises(
        megatron.CheckpointingException, match="Array .*/w already exists"
    ):
        megatron.save({"w": cut("w", table(), 0, 1)}, ckpt)


def test_an_explicit_zarr_strategy_on_torch_dist_says_how_to_convert(
    ckpt: Path,
) -> None:
    saved(ckpt)
    config(sharded_backend="torch_dist")(ckpt)

    with pytest.raises(megatron.CheckpointingException, match="convert"):
        megatron.load(
            {"w": request()}, ckpt, megatron.ZarrLoadShardedStrategy()
        )
