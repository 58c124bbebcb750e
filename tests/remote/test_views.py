"""Tests views in buckets, made by the command line and read by TensorStore and
stock Orbax, on moto with signatures and on the fake of Google's store."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import servers
from python_programs import state_of
from safetensors.numpy import save_file
from test_cli import ok, sums

Run = Callable[..., "subprocess.CompletedProcess[str]"]
BIG_BYTES = 4 << 20


@pytest.fixture(params=["moto", "gcs"])
def store(request: pytest.FixtureRequest) -> Iterator[servers.Chaos]:
    """Yields a writable store behind a proxy that counts requests."""
    with servers.chaos(request.getfixturevalue(request.param)) as counting:
        yield counting


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Returns the folder of a model: two safetensors files and other files."""
    folder = tmp_path / "model"
    folder.mkdir()
    state = {name: np.asarray(value) for name, value in state_of(3).items()}
    files = {
        "model-00001-of-00002.safetensors": state,
        "model-00002-of-00002.safetensors": {
            "big": np.arange(BIG_BYTES // 4, dtype=np.int32).reshape(-1, 64)
        },
    }
    for file, arrays in files.items():
        save_file(arrays, folder / file)
    weights = {name: file for file, arrays in files.items() for name in arrays}
    index = {"metadata": {}, "weight_map": weights}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "config.json").write_text('{"heads": 4}')
    return folder


def base_of(store: servers.Server, url: str) -> dict[str, str]:
    """Returns TensorStore's kvstore spec of a directory."""
    key = url.split(servers.BUCKET + "/", 1)[1] + "/"
    base = {"bucket": servers.BUCKET, "path": key}
    if store.kind == "gcs":
        return {"driver": "gcs", **base}
    return {
        "driver": "s3",
        **base,
        "endpoint": store.url,
        "aws_region": servers.REGION,
    }


READS = """
import json, sys, numpy as np, tensorstore as ts
kvstore = {'driver': 'ocdbt', 'base': json.loads(sys.argv[1]), 'path': 'big/'}
array = ts.open({'driver': 'zarr3', 'kvstore': kvstore}, open=True).result()
wanted = np.arange(int(sys.argv[2]) // 4, dtype=np.int32).reshape(-1, 64)
np.testing.assert_array_equal(array.read().result(), wanted)
np.testing.assert_array_equal(array[100:105, 7].read().result(),
                              wanted[100:105, 7])
print('read')
"""


def python(
    store: servers.Server, *words: str
) -> subprocess.CompletedProcess[str]:
    """Runs this Python against that server."""
    return subprocess.run(
        [sys.executable, *words],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
        env=store.environment(),
    )


def test_the_server_copies_and_everybody_reads(
    run: Run, store: servers.Chaos, model: Path, tmp_path: Path
) -> None:
    place = f"{store.root}/{uuid.uuid4().hex}"
    source, view = f"{place}/model", f"{place}/view"
    ok(run(store, "cp", str(model), source))

    refused = run(store, "view", source, view)
    assert refused.returncode != 0
    assert "--link copy" in refused.stderr
    assert "2 objects" in refused.stderr
    assert run(store, "ls", view).returncode != 0

    store.reset()
    report = json.loads(
        ok(run(store, "view", source, view, "--link", "copy", "--json"))
    )
    moved = store.counters()
    assert moved["sent_bytes"] + moved["received_bytes"] < BIG_BYTES // 10
    assert not report["copied"]
    assert report["referred_bytes"] > BIG_BYTES

    ok(run(store, "verify", view))
    ok(run(store, "diff", source, view))
    done = python(
        store, "-c", READS, json.dumps(base_of(store, view)), str(BIG_BYTES)
    )
    assert done.stdout == "read\n", done.stderr
    if store.kind == "gcs":  # Orbax builds no specs of s3://
        program = Path(__file__).with_name("python_programs.py")
        done = python(store, str(program), "orbax_restores", view)
        assert done.stdout == "restored\n", done.stderr

    # The source is unchanged, and the view is a model as well.
    ok(run(store, "cp", source, str(tmp_path / "source")))
    assert sums(tmp_path / "source") == sums(model)
    ok(run(store, "cp", view, str(tmp_path / "view")))
    seen = sums(tmp_path / "view")
    assert {name: seen[name] for name in sums(model)} == sums(model)
    ok(run(store, "verify", str(tmp_path / "view")))

    # The view becomes an independent checkpoint in its place.
    ok(run(store, "convert", view, view, "--overwrite", "--quiet"))
    ok(run(store, "verify", view))
    ok(run(store, "diff", source, view))
    ok(run(store, "cp", view, str(tmp_path / "own")))
    assert not list((tmp_path / "own").glob("*.safetensors"))
    ok(run(store, "cp", source, str(tmp_path / "again")))
    assert sums(tmp_path / "again") == sums(model)
