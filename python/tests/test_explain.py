"""Explanations list every difference between a target and a checkpoint."""

import json
import subprocess
import sys

import numpy as np
import pytest

import holdfast

TREE = {
    "params": {
        f"layer_{i}": {"kernel": np.zeros((4, 8), np.float32)} for i in range(3)
    },
    "opt": [np.zeros(3, np.float32), 1],
    "name": "text",
    "step": 7,
}


@pytest.fixture
def path(tmp_path):
    holdfast.save(tmp_path / "ckpt", TREE)
    return str(tmp_path / "ckpt")


def target(**changes):
    tree = {
        "params": {
            f"layer_{i}": {"kernel": np.ones((4, 8), np.float32)}
            for i in range(3)
        },
        "opt": [np.ones(3, np.float32), 0],
        "name": "",
        "step": 0,
    }
    tree.update(changes)
    return tree


def test_what_fits_has_no_lines(path):
    assert holdfast.open(path).explain(target()) == []
    assert holdfast.load(path, target())["step"] == 7


def test_shapes_and_dtypes_of_all_leaves_come_in_one_message(path):
    wrong = target(
        params={
            "layer_0": {"kernel": np.ones((4, 9), np.float32)},
            "layer_1": {"kernel": np.ones((4, 8), np.float16)},
            "layer_2": {"kernel": np.ones((5, 8), np.float32)},
        },
        name=3,
    )
    lines = sorted(holdfast.open(path).explain(wrong))
    assert len(lines) == 4
    assert "'name': the checkpoint has a string" in lines[0]
    assert "layer_0.kernel': shape: the checkpoint has (4, 8)" in lines[1]
    assert "layer_1.kernel': dtype" in lines[2]
    assert "layer_2.kernel': shape" in lines[3]
    with pytest.raises(holdfast.errors.InvalidArgumentError) as raised:
        holdfast.load(path, wrong)
    for line in lines:
        assert line in str(raised.value)
    assert len(holdfast.open(path).explain(wrong, cast=True)) == 3


def test_renames_are_seen_and_the_command_that_mends_them_works(path, tmp_path):
    renamed = target(
        params={
            f"layers_{i}": {"kernel": np.ones((4, 8), np.float32)}
            for i in range(3)
        },
        opt=[np.ones(4, np.float32), 0],
    )
    with pytest.raises(holdfast.errors.InvalidArgumentError) as raised:
        holdfast.load(path, renamed)
    message = str(raised.value)
    assert "leaf 'opt.0': shape" in message
    assert "in the target but not in the checkpoint" in message
    assert r"--map 'params\.layer_1\.kernel=params.layers_1.kernel'" in message
    lines = holdfast.open(path).explain(renamed)
    assert lines[0] == (
        "params.layers_0.kernel: in the target but not in the checkpoint"
        " (perhaps params.layer_0.kernel there)"
    )
    words = message.split("`")[1].split(" ")[4:]
    rules = [word.strip("'") for word in words if "=" in word]
    assert len(rules) == 3
    holdfast.convert(
        path, tmp_path / "new", rename=[tuple(r.split("=")) for r in rules]
    )
    renamed["opt"][0] = np.ones(3, np.float32)
    assert holdfast.open(tmp_path / "new").explain(renamed) == []


PROGRAM = """
import numpy as np

def state():
    return {"w": np.zeros((2, 3), np.float32), "step": 0}

def wrong():
    return {"w": np.zeros((2, 4), np.float32), "steps": 0}
"""


def check(tmp_path, *words):
    return subprocess.run(
        [sys.executable, "-m", "holdfast", "check", *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_command_compares_and_has_an_exit_status(tmp_path):
    (tmp_path / "train.py").write_text(PROGRAM)
    saved = {"w": np.zeros((2, 3), np.float32), "step": 1}
    holdfast.save(tmp_path / "7", saved)
    done = check(tmp_path, "7", "--target", "train:state")
    assert (done.returncode, done.stderr) == (0, ""), done
    assert done.stdout.endswith("7 fits train:state\n")
    done = check(tmp_path, "7", "--target", "train:wrong")
    assert done.returncode == 1
    assert len(done.stdout.splitlines()) == 3
    done = check(tmp_path, "7", "--target", "train:wrong", "--json")
    answer = json.loads(done.stdout)
    assert (answer["fits"], len(answer["differences"])) == (False, 3)
    for words in (["7", "--target", "train:lost"], ["7", "--target", "train"]):
        assert check(tmp_path, *words).returncode == 2
    done = check(tmp_path, "lost", "--target", "train:state")
    assert done.returncode == 3 and "lost not found" in done.stderr
