"""CheckpointManager with `fingerprints`, whose steps Orbax still reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as stock
import pytest

import holdfast
from holdfast import orbax as ocp


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("args", [ocp.args.StandardSave, ocp.args.PyTreeSave])
def test_steps_have_them(tmp_path: Path, is_async: bool, args: Any) -> None:
    state = {"w": jnp.arange(100.0), "opt": (np.full(5, 3), 4)}
    options = ocp.CheckpointManagerOptions(
        fingerprints=True, enable_async_checkpointing=is_async
    )
    with ocp.CheckpointManager(tmp_path, options=options) as manager:
        assert manager.save(1, args=args(state))
    want = holdfast.fingerprint(state)
    assert holdfast.open(tmp_path / "1").fingerprints() == want
    holdfast.load(tmp_path / "1", fingerprints=True)
    stats = holdfast.last_stats()
    assert stats is not None and stats.fingerprint_count == 3
    with stock.CheckpointManager(tmp_path) as manager:
        got = manager.restore(1, args=stock.args.StandardRestore(state))
    jax.tree.map(np.testing.assert_array_equal, got, state)
