"""Tests deltas in buckets: saving, loading, following, materializing,
pruning."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Callable

import pytest
import servers
from test_cli import ok
from test_views import python

Run = Callable[..., "subprocess.CompletedProcess[str]"]

PROGRAM = """
import sys
import ml_dtypes, numpy as np
import holdfast, holdfast.remote

root = sys.argv[1]
random = np.random.default_rng(0)
words = random.integers(0, 2**16, (300, 200), np.uint16)

def state(step):
    changed = words.copy()
    for past in range(1, step + 1):
        drawn = np.random.default_rng(past).random(words.shape)
        changed += (drawn < 0.02).astype(np.uint16)
    return {"w": changed.view(ml_dtypes.bfloat16), "kept": np.arange(10),
            "step": step}

def same(a, b):
    return all(np.asarray(a[n]).tobytes() == np.asarray(b[n]).tobytes()
               for n in ("w", "kept")) and a["step"] == b["step"]

holdfast.save(f"{root}/0", state(0))
memory = {"w": np.zeros_like(state(0)["w"])}
follower = holdfast.Follower(root, memory)
assert follower.poll().step == 0
for step in (1, 2, 3):
    holdfast.save(f"{root}/{step}", state(step), base=step - 1)
    assert same(holdfast.load(f"{root}/{step}"), state(step)), step
assert holdfast.verify(f"{root}/3").ok
update = follower.poll()
assert (update.step, update.delta_count) == (3, 3), update
assert memory["w"].tobytes() == state(3)["w"].tobytes()
part = holdfast.open(f"{root}/3")["w"][7:9, 5:50]
assert np.asarray(part).tobytes() == state(3)["w"][7:9, 5:50].tobytes()
try:
    holdfast.save(f"{root}/0", state(1), overwrite=True)
except holdfast.errors.FailedPreconditionError as error:
    assert "/1 refers to it" in str(error), error
else:
    raise AssertionError("a delta refers to it")
assert same(holdfast.load(f"{root}/3"), state(3))
holdfast.remote.RemotePath(f"{root}/0").rmtree()
holdfast.save(f"{root}/0", state(1))
try:
    holdfast.load(f"{root}/3")
except holdfast.errors.FailedPreconditionError as error:
    assert "/0" in str(error)
else:
    raise AssertionError("the base is another")
holdfast.save(f"{root}/4", state(4))
holdfast.save(f"{root}/5", state(5), base=4)
holdfast.save(f"{root}/6", state(6), base=5)
print("done")
"""


@pytest.mark.parametrize("kind", ["moto", "gcs"])
def test_chains_live_in_buckets(
    run: Run, request: pytest.FixtureRequest, kind: str
) -> None:
    store: servers.Server = request.getfixturevalue(kind)
    root = f"{store.root}/{uuid.uuid4().hex}"
    done = python(store, "-c", PROGRAM, root)
    assert done.stdout == "done\n", done.stderr
    plan = ok(run(store, "prune", root, "--keep-latest", "1"))
    assert "the delta 5" in plan, plan
    assert "the delta 6" in plan, plan
    ok(run(store, "materialize", f"{root}/5", "--quiet"))
    ok(run(store, "prune", root, "--keep-latest", "1", "--yes"))
    assert run(store, "ls", f"{root}/4").returncode != 0
    ok(run(store, "verify", f"{root}/6"))
