"""Signals, memory, forks, imports and the end of a process.

Each test runs a separate program.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Script

INTERRUPTED = """
import os, signal, sys
import numpy as np
import holdfast

noise = np.random.default_rng(0).integers(0, 255, 4 << 20, np.uint8) & 0x77
tree = {f"a{i}": noise for i in range(300)}
seen = []

def progress(phase, done, total):
    if phase == "write":
        seen.append((phase, done, total))
        os.kill(os.getpid(), signal.SIGINT)

try:
    holdfast.save(sys.argv[1], tree, threads=1, progress=progress)
except KeyboardInterrupt:
    ((phase, done, total),) = seen
    assert done < total / 4, seen
    print("interrupted")
"""


def test_interrupt_during_a_save(run_python: Script, ckpt: Path) -> None:
    done = run_python(INTERRUPTED, ckpt)
    assert done.stdout == "interrupted\n"
    assert list(ckpt.parent.iterdir()) == []


INTERRUPTED_WITHOUT_PROGRESS = """
import os, signal, sys, threading
import numpy as np
import holdfast

noise = np.random.default_rng(0).integers(0, 255, 4 << 20, np.uint8) & 0x77
tree = {f"a{i}": noise for i in range(300)}
temporary = sys.argv[1] + ".orbax-checkpoint-tmp"

def interrupt():
    while not os.path.isdir(temporary):
        pass
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt).start()
try:
    holdfast.save(sys.argv[1], tree, threads=1)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_interrupt_from_outside(run_python: Script, ckpt: Path) -> None:
    done = run_python(INTERRUPTED_WITHOUT_PROGRESS, ckpt)
    assert done.stdout == "interrupted\n"
    assert list(ckpt.parent.iterdir()) == []


HANDLED = """
import os, signal, sys
import numpy as np
import holdfast

handled = []
signal.signal(signal.SIGUSR1, lambda *_: handled.append(1))

def progress(phase, done, total):
    if not handled:
        os.kill(os.getpid(), signal.SIGUSR1)

holdfast.save(sys.argv[1], {"a": np.ones(1 << 22)}, progress=progress)
assert handled
print(holdfast.load(sys.argv[1])["a"].sum() == 1 << 22)
"""


def test_a_handled_signal_does_not_disturb(
    run_python: Script, ckpt: Path
) -> None:
    assert run_python(HANDLED, ckpt).stdout == "True\n"


MEMORY = """
import resource, sys
import numpy as np
import holdfast

kind, path = sys.argv[1:]
MIB = 1 << 20
COUNT = 256 * MIB // 4

def peak_mib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

if kind == "jax":
    import jax.numpy as jnp
    array = jnp.ones(COUNT, jnp.float32).block_until_ready()
    jnp.sum(array).block_until_ready()
else:
    array = np.ones(COUNT, np.float32)
    array.flags.writeable = False
holdfast.save(path + "-warm", {"a": np.ones(10)})
before = peak_mib()
holdfast.save(
    path, {"a": array}, compression=None, durable=False, memory_bytes=32 * MIB
)
saving = peak_mib() - before
target = None
if kind == "jax":
    import jax
    target = {"a": jax.ShapeDtypeStruct(array.shape, array.dtype)}
before = peak_mib()
loaded = holdfast.load(path, target, memory_bytes=32 * MIB)
loading = peak_mib() - before
assert float(loaded["a"][-1]) == 1
print(saving, loading)
"""


@pytest.mark.parametrize("kind", ["numpy", "jax"])
def test_nothing_is_copied_on_either_way(
    run_python: Script, ckpt: Path, kind: str
) -> None:
    if kind == "jax":
        pytest.importorskip("jax")
    saving, loading = map(float, run_python(MEMORY, kind, ckpt).stdout.split())
    # MiB in addition to the array itself, which has 256 MiB.
    assert saving < 100
    assert loading < 256 + 100


FORKED = """
import os, sys
import numpy as np
import holdfast

path = sys.argv[1]
holdfast.save(path, {"a": np.arange(1000)})
loaded = holdfast.load(path)
child = os.fork()
if child == 0:
    try:
        holdfast.save(path + "-child", loaded)
        again = holdfast.load(path + "-child")
        ok = again["a"].tolist() == list(range(1000))
        holdfast.save(path + "-bg", again, background=True).result()
    except BaseException as error:
        print(error, file=sys.stderr)
        os._exit(1)
    os._exit(0 if ok else 2)
_, status = os.waitpid(child, 0)
assert status == 0, status
assert holdfast.load(path + "-bg")["a"].sum() == loaded["a"].sum()
"""


def test_forks(run_python: Script, ckpt: Path) -> None:
    run_python(FORKED, ckpt)


def test_the_end_of_the_program_waits(run_python: Script, ckpt: Path) -> None:
    program = """
import sys
import numpy as np
import holdfast
holdfast.save(sys.argv[1], {"a": np.ones(1 << 22)}, background=True)
"""
    run_python(program, ckpt)
    program = """
import sys, holdfast
kept = holdfast.load(sys.argv[1])  # freed after the module is
opened = holdfast.open(sys.argv[1])
print(kept["a"].sum() == 1 << 22)
"""
    assert run_python(program, ckpt).stdout == "True\n"


UNASKED = """
import gc, sys, threading
import numpy as np
import holdfast

path = sys.argv[1]
holdfast.save(path, {"a": 1})
if sys.argv[2] == "dropped-after":
    future = holdfast.save(path, {"a": 2}, background=True)
    while not future.done():
        pass
    del future
else:
    goes_on = threading.Event()
    holdfast.save(
        path, {"a": np.ones(9)}, background=True, overwrite=True,
        progress=lambda *_: goes_on.wait() and 1 / 0,
    )
    goes_on.set()
"""


@pytest.mark.parametrize(
    ("when", "words"),
    [
        ("dropped-after", ["Exception ignored", "already exists"]),
        ("dropped-before", ["Exception in thread", "ZeroDivisionError"]),
    ],
)
def test_errors_that_nobody_asked_for_are_reported(
    run_python: Script, ckpt: Path, when: str, words: list[str]
) -> None:
    done = run_python(UNASKED, ckpt, when)
    for word in words:
        assert word in done.stderr


def test_importing_imports_numpy_alone(run_python: Script) -> None:
    program = """
import sys
import holdfast
print([m for m in ("jax", "torch", "ml_dtypes", "tqdm", "html", "asyncio")
       if m in sys.modules])
"""
    assert run_python(program).stdout == "[]\n"


def test_modules_of_the_package_are_attributes(run_python: Script) -> None:
    program = """
import holdfast
print(holdfast.orbax.__name__)
print(holdfast.megatron.__name__)
try:
    holdfast.nothing
except AttributeError as error:
    print(error)
"""
    assert run_python(program).stdout.splitlines() == [
        "holdfast.orbax",
        "holdfast.megatron",
        "module 'holdfast' has no attribute 'nothing'",
    ]


def test_numpy_trees_never_import_the_others(
    run_python: Script, ckpt: Path
) -> None:
    program = """
import sys
import numpy as np
import holdfast
tree = {"a": np.ones(3), "b": [1, {"c": "x"}]}
holdfast.save(sys.argv[1], tree)
holdfast.load(sys.argv[1], tree)
repr(holdfast.open(sys.argv[1]))
print([m for m in ("jax", "torch", "ml_dtypes") if m in sys.modules])
"""
    assert run_python(program, ckpt).stdout == "[]\n"


def test_a_missing_ml_dtypes_is_told_with_the_leaf(
    run_python: Script, ckpt: Path
) -> None:
    pytest.importorskip("ml_dtypes")
    program = """
import sys
import ml_dtypes, numpy as np
import holdfast
holdfast.save(sys.argv[1], {"p": {"w": np.ones(3, ml_dtypes.bfloat16)}})
"""
    run_python(program, ckpt)
    program = """
import sys
sys.modules["ml_dtypes"] = None
import holdfast
try:
    holdfast.load(sys.argv[1])
except ImportError as error:
    print(error)
print(holdfast.digest(sys.argv[1], "p.w")[:4])
"""
    lines = run_python(program, ckpt).stdout.splitlines()
    assert lines[0].startswith("leaf 'p.w': dtype bfloat16 needs the package")
    assert len(lines[1]) == 4


def test_a_bar_without_tqdm(run_python: Script, ckpt: Path) -> None:
    program = """
import sys
sys.modules["tqdm"] = sys.modules["tqdm.auto"] = None
import numpy as np
import holdfast
holdfast.save(sys.argv[1], {"a": np.ones(1 << 20)}, progress=True)
"""
    err = run_python(program, ckpt).stderr
    assert "save write" in err and "100%" in err and "8.0 MiB/8.0 MiB" in err
    assert err.endswith("\n")


def test_threads_may_save_and_load(run_python: Script, ckpt: Path) -> None:
    program = """
import concurrent.futures, sys
import numpy as np
import holdfast

def work(i):
    path = f"{sys.argv[1]}-{i}"
    holdfast.save(path, {"a": np.full(50_000, i)})
    opened = holdfast.open(path)
    return opened["a"][0] == i and holdfast.load(path)["a"].sum() == 50_000 * i

with concurrent.futures.ThreadPoolExecutor(8) as pool:
    print(all(pool.map(work, range(24))))
"""
    assert run_python(program, ckpt).stdout == "True\n"
