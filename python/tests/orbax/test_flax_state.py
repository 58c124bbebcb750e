"""Partial restores into a flax model's state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from holdfast import orbax as ocp
from holdfast.orbax import v1

jax = pytest.importorskip("jax")
nnx = pytest.importorskip("flax.nnx")


class Model(nnx.Module):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        rngs = nnx.Rngs(0)
        self.linear = nnx.Linear(2, 3, rngs=rngs)
        self.norm = nnx.BatchNorm(3, rngs=rngs)


def _args_in_dicts(node: Any, wrap: bool) -> Any:
    if isinstance(node, nnx.State):
        return {key: _args_in_dicts(n, wrap) for key, n in node.items()}
    args = ocp.ArrayRestoreArgs(restore_type=jax.Array)
    return {"value": args} if wrap else args


@pytest.mark.parametrize("kind", [nnx.Param, nnx.BatchStat])
@pytest.mark.parametrize("wrap", [False, True])
def test_arguments_in_plain_dicts(
    tmp_path: Path, kind: Any, wrap: bool
) -> None:
    model = Model()
    whole = nnx.state(model)
    checkpointer = ocp.Checkpointer(ocp.PyTreeCheckpointHandler())
    checkpointer.save(tmp_path / "c", args=ocp.args.PyTreeSave(whole))
    target = jax.tree.map(lambda x: x * 0, nnx.state(model, kind))
    for item, has_others in ((target, False), (target, True)):
        of = whole if has_others else item
        got = checkpointer.restore(
            tmp_path / "c",
            args=ocp.args.PyTreeRestore(
                item=item,
                restore_args=_args_in_dicts(of, wrap),
                partial_restore=True,
            ),
        )
        assert isinstance(got, nnx.State)
        want = nnx.state(model, kind)
        assert jax.tree.structure(got) == jax.tree.structure(want)
        jax.tree.map(np.testing.assert_array_equal, got, want)
    got = checkpointer.restore(
        tmp_path / "c",
        args=ocp.args.PyTreeRestore(
            item=whole, restore_args=_args_in_dicts(whole, wrap)
        ),
    )
    jax.tree.map(np.testing.assert_array_equal, got, whole)


def test_arguments_that_lack_a_leaf(tmp_path: Path) -> None:
    state = nnx.state(Model(), nnx.Param)
    checkpointer = ocp.Checkpointer(ocp.PyTreeCheckpointHandler())
    checkpointer.save(tmp_path / "c", args=ocp.args.PyTreeSave(state))
    args = _args_in_dicts(state, wrap=True)
    del args["linear"]["bias"]
    with pytest.raises(ValueError):
        checkpointer.restore(
            tmp_path / "c",
            args=ocp.args.PyTreeRestore(
                item=state, restore_args=args, partial_restore=True
            ),
        )


def test_v1_partial_load(tmp_path: Path) -> None:
    model = Model()
    v1.save(tmp_path / "c", nnx.state(model))
    want = nnx.state(model, nnx.Param)
    target = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), want
    )
    context = v1.Context()
    context.pytree.loading.partial_load = True
    with context:
        got = v1.load(tmp_path / "c", target)
    assert jax.tree.structure(got) == jax.tree.structure(want)
    jax.tree.map(np.testing.assert_array_equal, got, want)
