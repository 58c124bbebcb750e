"""Saves that Orbax refuses are refused with its messages, and leave nothing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import holdfast.orbax as ocp

jax = pytest.importorskip("jax")
pytest.importorskip("ml_dtypes")

import replay_cases  # noqa: E402

CASES = replay_cases.recorded("save_errors.json")

# Saves that holdfast refuses itself, before TensorStore would, with its own
# messages.
OWN_WORDS = {
    "dirs_key_dotdot": "leaf '..': name cannot be a directory",
    "dirs_key_too_long": "has a part longer than 255 bytes",
    "param_name_collision": (
        "parameter name 'a.b' names two leaves: ('a', 'b') and ('a.b',)"
    ),
    "string_key_tilde": "'~' must be followed by '0' or '1'",
}

# The names that the recorded expressions may use.
NAMES = {"SA": ocp.SaveArgs, "jax": jax, "jnp": jax.numpy, "np": np}


pytestmark = pytest.mark.usefixtures("wide_types")


def save(case: dict[str, Any], path: Path) -> None:
    options = dict(case["options"])
    twice = options.pop("twice", False)
    for name in ("save_args", "custom_metadata"):
        if name in options:
            options[name] = eval(options[name], dict(NAMES))
    item = eval(case["item_python"], dict(NAMES))
    kind = case["api"].partition("CheckpointHandler")[0]
    handler = getattr(ocp, f"{kind}CheckpointHandler")(**case["handler"])
    args = getattr(ocp.args, f"{kind}Save")
    for _ in range(2 if twice else 1):
        ocp.Checkpointer(handler).save(path, args=args(item, **options))


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_refused(tmp_path: Path, case: dict[str, Any]) -> None:
    with pytest.raises(Exception) as caught:
        save(case, tmp_path / "ckpt")
    wanted = case["error"]
    classes = {cls.__name__ for cls in type(caught.value).__mro__}
    assert wanted["class"] in classes
    text = replay_cases.message_of(caught.value, tmp_path)
    recorded = wanted["message"].replace("$DIR", "$CASE")
    assert OWN_WORDS.get(case["id"], recorded) in text
    left = ["ckpt"] if case["committed"] else []
    assert os.listdir(tmp_path) == left
