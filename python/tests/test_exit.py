"""How programs end while a background save is running."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import run_program

import holdfast

# Two ranks that are threads. In the middle of the second save, when files are
# written but not committed, the first rank waits for the second until the
# program calls `go()`.
PROGRAM = """
import os, sys, threading, time
import numpy as np
import holdfast

path = sys.argv[1]
begun, goes_on, is_gated = (threading.Event() for _ in range(3))
go = goes_on.set
messages, arrived = {}, threading.Condition()

def has_written():
    directory = path + ".orbax-checkpoint-tmp"
    return os.path.isdir(directory) and bool(os.listdir(directory))

class Rank:
    size = 2

    def __init__(self, rank):
        self.rank = rank

    def send(self, to, topic, message):
        with arrived:
            messages[self.rank, to, topic] = message
            arrived.notify_all()

    def receive(self, from_, topic, timeout):
        if self.rank == 0 and is_gated.is_set() and has_written():
            begun.set()
            goes_on.wait(60)
        key = from_, self.rank, topic
        with arrived:
            arrived.wait_for(lambda: key in messages, timeout)
            return messages.pop(key, None)

groups = [holdfast.ProcessGroup(Rank(rank)) for rank in range(2)]

def save(value, background=False):
    tree = {f"a{i}": np.full(50_000, value + i) for i in range(20)}
    options = {"overwrite": True, "timeout_seconds": 60}
    other = threading.Thread(
        target=holdfast.save,
        args=(path, tree),
        kwargs={**options, "group": groups[1]},
    )
    other.start()
    result = holdfast.save(
        path, tree, group=groups[0], background=background, **options
    )
    if not background:
        other.join()
    return result

save(1)
is_gated.set()
future = save(2, background=True)
begun.wait()
"""


def end(
    program: str, path: Path, code: int = 0
) -> subprocess.CompletedProcess[str]:
    return run_program(PROGRAM + program, path, code=code)


def stored(path: Path) -> int:
    """Checks that the checkpoint at the path is complete; returns the number of
    its save."""
    assert holdfast.verify(path).ok
    tree = holdfast.load(path)
    value = int(tree["a0"][0])
    for i in range(20):
        np.testing.assert_array_equal(tree[f"a{i}"], np.full(50_000, value + i))
    return value


# Lets the save continue when the main thread has ended.
LET_GO = """
def wait_for_the_end():
    threading.main_thread().join()
    go()

threading.Thread(target=wait_for_the_end).start()
"""


@pytest.mark.parametrize(
    ("how", "code"),
    [
        ("", 0),
        ("sys.exit(3)", 3),
        ("raise RuntimeError('the end')", 1),
        ("del future", 0),
        ("import atexit; atexit.register(print, 'bye')", 0),
    ],
)
def test_the_interpreter_waits(ckpt: Path, how: str, code: int) -> None:
    done = end(LET_GO + how, ckpt, code)
    assert stored(ckpt) == 2
    assert os.listdir(ckpt.parent) == ["ckpt"]
    assert "holdfast" not in done.stderr.replace("import holdfast", "")


def test_os_exit_leaves_the_old_checkpoint(ckpt: Path) -> None:
    end("os._exit(5)", ckpt, 5)
    assert stored(ckpt) == 1
    # Files of the unfinished save do not prevent the next save.
    holdfast.save(ckpt, {"a": 1}, overwrite=True)
    assert os.listdir(ckpt.parent) == ["ckpt"]


def test_a_signal_leaves_the_old_checkpoint(ckpt: Path) -> None:
    end("os.kill(os.getpid(), 9)", ckpt, -signal.SIGKILL)
    assert stored(ckpt) == 1


def test_control_c_lets_the_save_end(ckpt: Path) -> None:
    interrupted = LET_GO + "os.kill(os.getpid(), 2)\ntime.sleep(60)"
    done = end(interrupted, ckpt, -signal.SIGINT)
    assert "KeyboardInterrupt" in done.stderr
    assert stored(ckpt) == 2


def test_an_error_that_nobody_sees_is_printed(ckpt: Path) -> None:
    program = """
save(3)
fails = holdfast.save(path, {"a": 1}, background=True)
while not fails.done():
    time.sleep(0.001)
"""
    done = end("go(); future.result()\n" + program, ckpt)
    assert "AlreadyExistsError" in done.stderr
    assert stored(ckpt) == 3


def test_dropping_in_development_mode_warns(
    ckpt: Path, run_python: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    done = run_python(
        "import warnings; warnings.simplefilter('always')\n"
        + PROGRAM
        + "del future; go()",
        ckpt,
    )
    assert "ResourceWarning" in done.stderr
    assert stored(ckpt) == 2


# Three threads that are not joined are working when the program ends.
DAEMONS = """
import sys, threading
import numpy as np
import holdfast

path = sys.argv[1]
tree = {f"a{i}": np.arange(20_000.0) + i for i in range(8)}
holdfast.save(path, tree, durable=False, overwrite=True)
holdfast.save(path + "-run/1", tree, durable=False, overwrite=True)
at_work = threading.Barrier(4)

def loop(work):
    work()
    at_work.wait()
    while True:
        work()

def start(work):
    for _ in range(3):
        threading.Thread(target=loop, args=(work,), daemon=True).start()
    at_work.wait()
"""


@pytest.mark.parametrize(
    "work",
    [
        "holdfast.load(path)",
        "holdfast.load(path, tree)",
        "holdfast.load(path, progress=lambda *told: sum(range(9999)))",
        "holdfast.verify(path, progress=lambda *told: sum(range(9999)))",
        "holdfast.open(path)['a1'][3:5]",
        "holdfast.save(f'{path}-{threading.get_ident()}', tree,"
        " overwrite=True, durable=False)",
        "holdfast.convert(path, f'{path}-{threading.get_ident()}.npz',"
        " format='npz', overwrite=True, durable=False)",
        "holdfast.stats(path)",
        "holdfast.Follower(path + '-run', {'a1': np.zeros(20_000)}).poll()",
        "holdfast.bisect(path + '-run', lambda step: True, good=1)",
    ],
)
def test_daemon_threads_do_not_abort_the_program(ckpt: Path, work: str) -> None:
    program = f"""
def work():
    try:
        {work}
    except holdfast.errors.HoldfastError:
        pass
    except ValueError:
        pass

start(work)
"""
    for _ in range(3):
        run_program(DAEMONS + program, ckpt)
