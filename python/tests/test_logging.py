"""The messages that `enable_logging` shows, in a separate process."""

import logging

import pytest

import holdfast

PROGRAM = """
import sys
import numpy as np
import holdfast

holdfast.enable_logging()
holdfast.enable_logging()
root = sys.argv[1]
tree = {"w": np.zeros(8, np.float32)}
holdfast.save(f"{root}/now", tree)
holdfast.save(f"{root}/later", tree, background=True).result()
holdfast.load(f"{root}/now")
try:
    holdfast.save(f"{root}/now", tree)
except holdfast.errors.AlreadyExistsError:
    pass
"""


def test_saves_and_loads_have_their_lines(tmp_path, run_python):
    done = run_python(PROGRAM, tmp_path)
    lines = [line.split(": ", 1)[1] for line in done.stderr.splitlines()]
    assert [line.split()[0] for line in lines] == [
        "saving",
        "saved",
        "saving",
        "saved",
        "loaded",
        "saving",
        "saving",
    ]
    assert lines[1].startswith(f"saved {tmp_path}/now: 32 B in ")
    assert lines[3].startswith(f"saved {tmp_path}/later: 32 B in ")
    assert lines[6].startswith(f"saving {tmp_path}/now failed: ")


def test_a_level_that_is_none_is_refused():
    with pytest.raises(ValueError, match="LOUD"):
        holdfast.enable_logging("LOUD")
    assert logging.getLogger("holdfast").level == logging.NOTSET
