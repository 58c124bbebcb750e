"""The switches that turn on byte planes in the drop-in: an argument, a context,
an environment variable."""

import json
import pathlib

import numpy as np
import orbax.checkpoint as stock
import pytest
from orbax.checkpoint import v1 as stock_v1

import holdfast.orbax as ocp
from holdfast.orbax import v1 as ocp_v1

VARIABLE = "HOLDFAST_COMPRESSION"


def make_tree():
    values = np.random.default_rng(1).normal(0, 0.02, (3000, 1024))
    return {"w": values.astype(np.float32), "b": np.zeros(7, np.float32)}



def save_v0(path, **options):
    handler = ocp.PyTreeCheckpointHandler(use_ocdbt=False, **options)
    with ocp.Checkpointer(handler) as checkpointer:
        checkpointer.save(path, make_tree())


def zarray(path, name="w"):
    return json.loads((pathlib.Path(path) / name / ".zarray").read_text())


def assert_stock_restores(path):
    handler = stock.PyTreeCheckpointHandler(use_ocdbt=False)
    restored = stock.Checkpointer(handler).restore(path)
    for name, value in make_tree().items():
        np.testing.assert_array_equal(restored[name], value)


def test_default_is_orbax_own(tmp_path, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    save_v0(tmp_path / "a")
    metadata = zarray(tmp_path / "a")
    assert metadata["compressor"] == {"id": "zstd", "level": 1}
    assert metadata["chunks"] == [3000, 1024]


@pytest.mark.parametrize("way", ["argument", "environment"])
def test_planes(tmp_path, monkeypatch, way):
    monkeypatch.delenv(VARIABLE, raising=False)
    if way == "environment":
        monkeypatch.setenv(VARIABLE, "planes")
        save_v0(tmp_path / "a")
    else:
        save_v0(tmp_path / "a", use_compression="planes")
    metadata = zarray(tmp_path / "a")
    assert metadata["compressor"]["id"] == "blosc"
    assert metadata["compressor"]["cname"] == "zstd"
    assert metadata["chunks"] == [1500, 1024]  # about 8 MiB
    assert zarray(tmp_path / "a", "b")["compressor"]["id"] == "zstd"
    assert_stock_restores(tmp_path / "a")
    stored = sum(f.stat().st_size for f in (tmp_path / "a" / "w").iterdir())
    assert stored < 0.845 * make_tree()["w"].nbytes


def test_no_compression_wins_over_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, "planes")
    save_v0(tmp_path / "a", use_compression=False)
    assert zarray(tmp_path / "a")["compressor"] is None


def test_v1_context(tmp_path, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    saving = ocp_v1.options.ArrayOptions.Saving(use_compression="planes")
    options = ocp_v1.options.ArrayOptions(saving=saving)
    with ocp_v1.Context(array_options=options):
        ocp_v1.save(tmp_path / "a", make_tree())
    stored = sum(
        f.stat().st_size for f in tmp_path.rglob("*") if f.is_file()
    )
    assert stored < 0.85 * make_tree()["w"].nbytes
    restored = stock_v1.load(tmp_path / "a")
    np.testing.assert_array_equal(restored["w"], make_tree()["w"])


def test_unknown_names_are_refused(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, "lzma")
    with pytest.raises(ValueError, match="HOLDFAST_COMPRESSION.*lzma.*planes"):
        save_v0(tmp_path / "a")
    monkeypatch.delenv(VARIABLE)
    with pytest.raises(ValueError, match="lzma"):
        save_v0(tmp_path / "b", use_compression="lzma")
    assert not (tmp_path / "a").exists() and not (tmp_path / "b").exists()
