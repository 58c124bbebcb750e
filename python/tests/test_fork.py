"""Processes that are forked from a process that has used holdfast."""

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
        assert "parent process" in str(error)
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
    """Children work that were forked at any point of a save by another
    thread."""
    run_python(MANY, tmp_path)


HUNDREDS = (
    PROGRAM
    + """
import random, time

CHILDREN, AT_ONCE, SECONDS_MAX = 200, 4, 20
random = random.Random(7)
small = {name: tree[name][:1000] for name in ("a1", "a2")}
holdfast.save(root + "/first", tree)
stops = threading.Event()

def save_again_and_again():
    path = root + "/saved"
    while not stops.is_set():
        holdfast.save(
            path, tree, background=True, overwrite=True, durable=False
        ).result()
        assert holdfast.verify(path).ok

def load_again_and_again():
    while not stops.is_set():
        check(root + "/first")

def watched(work):
    # A thread that fails ends the program, which would else go on without it.
    try:
        work()
    except BaseException:
        import traceback
        traceback.print_exc()
        os._exit(1)

def child(number):
    signal.alarm(SECONDS_MAX)  # ends one that hangs
    own = f"{root}/child{number}"
    holdfast.save(own, small, durable=False)
    for name, array in holdfast.load(own).items():
        assert (array == small[name]).all()
    if number % 4 == 0:
        check(root + "/first")

def fork(number):
    made = os.fork()
    if made == 0:
        code = 1
        try:
            child(number)
            code = 0
        except BaseException:
            import traceback
            traceback.print_exc()
        finally:
            os._exit(code)
    return made

def reap(running):
    made, status = os.wait()
    number = running.pop(made)
    assert status == 0, (
        f"child {number}: {os.waitstatus_to_exitcode(status)}"
        f" (-{signal.SIGALRM:d}: it hung)"
    )

threads = [
    threading.Thread(target=watched, args=(work,), daemon=True)
    for work in (save_again_and_again, load_again_and_again)
]
for thread in threads:
    thread.start()
running = {}
for number in range(CHILDREN):
    time.sleep(random.random() * 0.02)  # at any moment of their work
    running[fork(number)] = number
    if len(running) == AT_ONCE:
        reap(running)
while running:
    reap(running)
stops.set()
for thread in threads:
    thread.join(SECONDS_MAX)
    assert not thread.is_alive(), "the parent hangs"
"""
)


def test_hundreds_of_forks_while_threads_save_and_load(
    tmp_path: Path, run_python: Callable[..., object]
) -> None:
    """No lock that a thread of the parent holds may stay locked in a child."""
    run_python(HUNDREDS, tmp_path)


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
    """Otherwise the child would have a partly imported module, whose lock is
    held forever."""
    run_python(IMPORTING, tmp_path)
