"""Processes that were forked from one that has used holdfast."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

PROGRAM = """
import os, signal, sys, threading
import numpy as np
import holdfast
from holdfast import errors

root = sys.argv[1]
tree = {f"a{i}": np.full(50_000, i) for i in range(20)}

def in_child(work):
    child = os.fork()
    if child == 0:
        work()
        sys.exit(0)  # a child that ends as programs do
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

def check(path):
    for name, array in holdfast.load(path).items():
        assert (array == tree[name]).all()
"""

AFTER_USE = (
    PROGRAM
    + """
holdfast.save(root + "/parent", tree)

def work():
    check(root + "/parent")
    holdfast.save(root + "/child", tree)
    holdfast.save(root + "/later", tree, background=True).result()

in_child(work)
for name in ("parent", "child", "later"):
    check(f"{root}/{name}")
holdfast.save(root + "/again", tree)
"""
)

DURING_A_SAVE = (
    PROGRAM
    + """
begun, goes_on = threading.Event(), threading.Event()

def progress(phase, done, total):
    begun.set()
    goes_on.wait()

future = holdfast.save(
    root + "/parent", tree, background=True, progress=progress
)
begun.wait()

def work():
    assert future.done() and future.state == "cancelled"
    try:
        future.result()
        raise AssertionError("the child has nothing to wait for")
    except errors.CancelledError as error:
        assert "parent of this process" in str(error)
    holdfast.save(root + "/child", tree)
    check(root + "/child")

in_child(work)
assert future.state == "staged"
goes_on.set()
future.result()
check(root + "/parent")
check(root + "/child")
"""
)

PENDING = (
    PROGRAM
    + """
from holdfast import _engine
pending = _engine.PendingSave(root + "/parent")
built = _engine.build_tree(tree, adapt=lambda value, path: value)
pending.save_item("state", built)

def work():
    global pending
    try:
        pending.commit()
        raise AssertionError("the save is the parent's")
    except errors.HoldfastError as error:
        assert "ended already" in str(error)
    pending.discard()
    del pending

in_child(work)
in_child(lambda: None)
pending.commit()
assert holdfast.load(root + "/parent/state")["a3"][0] == 3
"""
)


def test_a_child_saves_and_loads(
    tmp_path: Path, run_python: Callable[..., object]
) -> None:
    run_python(AFTER_USE, tmp_path)


def test_a_child_that_is_forked_while_its_parent_saves(
    tmp_path: Path, run_python: Callable[..., object]
) -> None:
    run_python(DURING_A_SAVE, tmp_path)


def test_a_childs_end_leaves_its_parents_save_alone(
    tmp_path: Path, run_python: Callable[..., object]
) -> None:
    run_python(PENDING, tmp_path)


MANY = (
    PROGRAM
    + """
for round_number in range(5):
    path = f"{root}/{round_number}"
    future = holdfast.save(path, tree, background=True)
    forks = 0
    while not future.done() or forks == 0:
        child = os.fork()
        if child == 0:
            signal.alarm(100)  # ends one that hangs
            own = f"{root}/child"
            holdfast.save(own, tree, overwrite=True, durable=False)
            check(own)
            os._exit(0 if future.done() else 1)
        assert os.waitpid(child, 0)[1] == 0
        forks += 1
    future.result()
    check(path)
    assert holdfast.verify(path).ok
"""
)


def test_many_forks_at_any_moment_of_a_save(
    tmp_path: Path, run_python: Callable[..., object]
) -> None:
    """Children that are forked wherever the working thread just is."""
    run_python(MANY, tmp_path)


IMPORTING = """
import os, sys, threading

import holdfast._lazy
is_importing, has_forked = threading.Event(), threading.Event()

class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == "slow":
            is_importing.set()
            has_forked.wait(2)  # in vain where forks wait for imports
        return None

sys.meta_path.insert(0, Slow())
open(sys.argv[1] + "/slow.py", "w").close()
sys.path.insert(0, sys.argv[1])

def import_it():
    with holdfast._lazy.importing:
        import slow

thread = threading.Thread(target=import_it)
thread.start()
assert is_importing.wait(100)
child = os.fork()
if child == 0:
    import faulthandler
    faulthandler.dump_traceback_later(20, exit=True)
    import_it()
    os._exit(0)
has_forked.set()
thread.join()
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""


def test_a_fork_waits_for_imports_under_way(
    tmp_path: Path, run_python: Callable[..., object]
) -> None:
    """Else the child would have half a module, and its lock for ever."""
    run_python(IMPORTING, tmp_path)
