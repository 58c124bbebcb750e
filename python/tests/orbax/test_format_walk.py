"""The walk through a checkpoint's files that Orbax's format guide takes, with
either package; its TensorStore part is TensorStore's own."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")
ts = pytest.importorskip("tensorstore")
stock = pytest.importorskip("orbax.checkpoint")
epath = pytest.importorskip("etils.epath")

import holdfast.orbax as ours  # noqa: E402


def make_state(ocp: Any) -> tuple[Any, Any]:
    sharding = jax.sharding.NamedSharding(
        jax.sharding.Mesh(jax.devices(), ("model",)),
        jax.sharding.PartitionSpec("model"),
    )
    state: dict[str, Any] = {"a": np.arange(16), "b": np.ones(16)}
    state = jax.tree_util.tree_map(lambda x: jax.device_put(x, sharding), state)
    abstract = jax.tree_util.tree_map(ocp.utils.to_shape_dtype_struct, state)
    state["c"] = np.arange(4)
    state["d"] = 5
    state["e"] = "foo"
    return state, abstract


def tree_of(directory: Any, level: int = 0) -> list[str]:
    """What the guide prints, in order; data files have random names."""
    directory = epath.Path(directory)
    assert directory.is_dir()
    lines = []
    for path in sorted(directory.iterdir()):
        name = re.sub("[0-9a-f]{32}", "DATA", path.name)
        if name == "_HOLDFAST_DIGESTS":
            continue
        lines.append(f"{'..' * (level + 1)}{name}{'/' * path.is_dir()}")
        if path.is_dir():
            lines += tree_of(path, level + 1)
    return list(dict.fromkeys(lines))


def walk(ocp: Any, checkpoint: str) -> dict[str, Any]:
    state, abstract = make_state(ocp)
    path = ocp.test_utils.erase_and_create_empty(checkpoint)
    global_metadata = {"global_property": "foo"}
    with ocp.CheckpointManager(
        path, item_names=("state", "custom_data"), metadata=global_metadata
    ) as mngr:
        mngr.save(
            0,
            args=ocp.args.Composite(
                state=ocp.args.PyTreeSave(state),
                custom_data=ocp.args.JsonSave({"lang": "en", "version": 1.2}),
            ),
        )
    state_dir = path / "0" / "state"
    info = ocp.type_handlers.ParamInfo(
        name="a",
        path=path,
        parent_dir=state_dir,
        is_ocdbt_checkpoint=True,
        use_zarr3=True,
    )
    tspec = ocp.type_handlers.get_json_tspec_read(info, use_ocdbt=True)
    base = f"file://{checkpoint}/0/state/"
    context = ts.Context(
        {"cache_pool#ocdbt": {"total_bytes_limit": 100000000}},
        parent=jax.experimental.array_serialization.serialization.TS_CONTEXT,
    )
    kvstore = {"driver": "ocdbt", "base": base}
    keys = ts.KvStore.open(kvstore).result().list().result()
    spec = {"driver": "zarr", "kvstore": {**kvstore, "path": "a"}}
    array = ts.open(ts.Spec(spec), open=True, context=context).result()
    return {
        "abstract": str(abstract),
        "root": tree_of(path),
        "state": tree_of(state_dir),
        "metadata": json.loads((state_dir / "_METADATA").read_text()),
        "sharding": json.loads((state_dir / "_sharding").read_text()),
        "tspec": json.loads(json.dumps(tspec).replace(checkpoint, "ROOT")),
        "keys": sorted(keys),
        "a": array.read().result().tolist(),
    }


def test_walk(tmp_path: Path) -> None:
    pytest.importorskip("jax.experimental.array_serialization.serialization")
    want = walk(stock, str(tmp_path / "stock"))
    got = walk(ours, str(tmp_path / "ours"))
    for name, value in want.items():
        assert got[name] == value, name
    assert got["a"] == list(range(16))
    assert "..0/" in got["root"] and "..metadata/" in got["root"]
