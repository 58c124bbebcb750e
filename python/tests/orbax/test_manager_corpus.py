"""CheckpointManager on the corpus that Orbax wrote."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")
pytest.importorskip("ml_dtypes")

import replay_cases  # noqa: E402
from replay_encode import encode  # noqa: E402

import holdfast.orbax as ocp  # noqa: E402


def manager(root: Path, **options: Any) -> ocp.CheckpointManager:
    return ocp.CheckpointManager(
        root, options=ocp.CheckpointManagerOptions(read_only=True, **options)
    )


def test_random_keys(corpus: Path) -> None:
    restored = manager(corpus / "mgr_random_keys" / "ckpt").restore(4)
    assert jax.dtypes.issubdtype(restored.key.dtype, jax.dtypes.prng_key)
    assert restored.raw.dtype == np.uint32
    assert isinstance(restored.nplegacy, tuple)
    assert restored.nplegacy[0] == "MT19937"
    assert restored.npdict["bit_generator"] == "MT19937"


@pytest.mark.filterwarnings("ignore:Sharding info not provided")
def test_corpus(corpus: Path, wide_types: None) -> None:
    """Every step of the corpus's managers restores what was saved."""
    options = {
        "mgr_step_format": {
            "step_prefix": "ckpt",
            "step_format_fixed_length": 8,
        },
        "mgr_with_tmp_open": {"step_prefix": "st"},
    }
    num_items = 0
    for case in sorted(corpus.glob("*/expected.json")):
        expected = json.loads(case.read_text("utf-8"))
        if expected["layout"] != "manager" or "v1" in expected["features"]:
            continue
        root = case.parent / "ckpt"
        found = manager(root, **options.get(case.parent.name, {}))
        steps = expected["steps"]
        assert found.all_steps() == sorted(step["step"] for step in steps)
        items = {item["path"]: item for item in expected["items"]}
        for step in steps:
            assert found.metrics(step["step"]) == step.get("metrics"), case
            for name, path in step["items"].items():
                item = items.get(path, {"type": "of several"})
                num_items += check_item(found, step["step"], name, item)
    assert num_items > 30


@pytest.mark.parametrize(
    "name, options",
    [
        ("mgr_standard_steps", {"max_to_keep": 2}),
        ("mgr_commit_file", {"mode": "COMMIT_FILE", "max_to_keep": 1}),
        (
            "mgr_step_format",
            {
                "step_prefix": "ckpt",
                "step_format_fixed_length": 8,
                "best_fn": lambda metrics: metrics["loss"],
                "best_mode": "min",
                "max_to_keep": 2,
            },
        ),
        (
            "mgr_with_tmp_open",
            {"step_prefix": "st", "cleanup_tmp_directories": True},
        ),
    ],
)
def test_runs_of_orbax_go_on(
    tmp_path: Path, name: str, options: dict[str, Any]
) -> None:
    """A holdfast manager continues a run that Orbax's began, and Orbax's
    continues it again."""
    stock = pytest.importorskip("orbax.checkpoint")
    root = replay_cases.unpack_corpus(tmp_path) / name / "ckpt"
    expected = json.loads((root.parent / "expected.json").read_text("utf-8"))
    steps = [step["step"] for step in expected["steps"]]
    new = max(steps) + 7
    for package in (ocp, stock):
        given = dict(options)
        mode = given.pop("mode", None)
        if mode is not None:
            given["atomicity_options"] = package.options.AtomicityOptions(
                mode=package.options.AtomicityMode[mode]
            )
        with package.CheckpointManager(
            root, options=package.CheckpointManagerOptions(**given)
        ) as found:
            assert list(found.all_steps()) == steps
            tree = {"a": np.arange(4) + new}
            assert found.save(
                new,
                args=package.args.PyTreeSave(tree)
                if name == "mgr_with_tmp_open"
                else package.args.StandardSave(tree),
                metrics={"loss": 0.01 * (40 - new)},
            )
            steps = steps + [new]
            if "best_fn" in options:
                loss = {s: found.metrics(s)["loss"] for s in steps[:-1]}
                loss[new] = 0.01 * (40 - new)
                steps = sorted(sorted(steps, key=lambda s: loss[s])[:2])
            elif "max_to_keep" in options:
                steps = steps[-options["max_to_keep"] :]
            found.wait_until_finished()
            assert list(found.all_steps()) == steps
            restored = found.restore(new)
            np.testing.assert_array_equal(restored["a"], np.arange(4) + new)
        new += 1
    left = [n for n in os.listdir(root) if "orbax-checkpoint-tmp" in n]
    assert left == []


def check_item(
    found: ocp.CheckpointManager, step: int, name: str, item: dict[str, Any]
) -> int:
    """Compares an item with its record. Returns 1, or 0 if the item's kind is
    not compared."""
    is_readable = item.get("default_restore", "ok") == "ok"
    if item["type"] not in ("json", "pytree") or not is_readable:
        return 0
    is_json = item["type"] == "json"
    args: Any = ocp.args.JsonRestore() if is_json else ocp.args.PyTreeRestore()
    if name == "metrics":
        restored = found.metrics(step)
    elif name == "default":
        restored = found.restore(step, args=args)
    else:
        restored = found.restore(step, args=ocp.args.Composite(**{name: args}))
        restored = restored[name]
    if is_json:
        assert restored == item["value"]
        return 1
    for leaf in item["leaves"]:
        if leaf["leaf"] == "array":
            array = encode(at(restored, leaf["path"]))
            assert array["shape"] == leaf["shape"]
            assert array["sha256"] == leaf["sha256"]
    return 1


def at(tree: Any, path: list[dict[str, Any]]) -> Any:
    """Returns the leaf at a recorded path."""
    for key in path:
        is_sequence = key["kind"] == "sequence"
        tree = tree[int(key["key"]) if is_sequence else key["key"]]
    return tree
