"""torch.distributed.checkpoint directories, read and written without torch."""

from __future__ import annotations

import random
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import holdfast

torch = pytest.importorskip("torch")
pytest.importorskip("ml_dtypes")
if not torch.distributed.is_available():
    pytest.skip("torch without torch.distributed", allow_module_level=True)

import torch.distributed.checkpoint as dcp  # noqa: E402
from test_torch_files import DTYPES, bits_of, random_tensor  # noqa: E402


def state_of(seed: int) -> dict[str, Any]:
    source = random.Random(seed)
    return {
        "model": {f"w{i}": random_tensor(source) for i in range(len(DTYPES))},
        "layers": [random_tensor(source), {"b": random_tensor(source)}],
        "step": 7,
        "name": "grün",
    }


@pytest.mark.parametrize("seed", range(3))
def test_reads_what_torch_writes(seed: int, tmp_path: Path) -> None:
    state = state_of(seed)
    writer = dcp.FileSystemWriter(
        tmp_path / "c", single_file_per_rank=bool(seed % 2)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dcp.save(state, storage_writer=writer, no_dist=True)
    tree = holdfast.load(tmp_path / "c")
    want = {f"w{i}": state["model"][f"w{i}"] for i in range(len(DTYPES))}
    for name, tensor in want.items():
        got = np.asarray(tree["model"][name])
        assert got.tobytes() == bits_of(tensor), name
        assert got.shape == tuple(tensor.shape)
        assert str(got.dtype) == str(tensor.dtype)[len("torch.") :]
    assert np.asarray(tree["layers"][1]["b"]).tobytes() == bits_of(
        state["layers"][1]["b"]
    )
    assert tree["step"] == 7
    assert tree["name"] == "grün"
