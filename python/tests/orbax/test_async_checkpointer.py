"""AsyncCheckpointer: snapshots, errors, timeouts, cancellation, futures."""

from __future__ import annotations

import asyncio
import concurrent.futures
import dataclasses
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Script

import holdfast.orbax as ocp
from holdfast import _engine, _files
from holdfast.orbax import future as futures
from holdfast.orbax.future import HandlerAwaitableSignal as Signal


class Gated:
    """A future that ends when the test sets `opened`."""

    def __init__(self, error: Exception | None = None) -> None:
        self.opened = threading.Event()
        self.error = error
        self.is_cancelled = False

    def result(self, timeout: float | None = None) -> None:
        if not self.opened.wait(timeout):
            raise TimeoutError
        if self.is_cancelled:
            raise concurrent.futures.CancelledError
        if self.error is not None:
            raise self.error

    def cancel(self) -> None:
        self.is_cancelled = True
        self.opened.set()


class OwnHandler(ocp.AsyncCheckpointHandler):
    """A handler that writes a string and returns the test's futures."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.contract: Any = None
        self.threads: list[str] = []

    async def async_save(self, directory: Any, args: OwnArgs) -> Any:
        contract = futures.AwaitableSignalsContract
        self.contract = list(contract.get_awaitable_signals_from_contract())
        assert directory.is_dir()

        async def write() -> None:
            await asyncio.sleep(0)
            (directory / "text").write_text(args.text)

        commit = futures.CommitFutureAwaitingContractedSignals(
            write(), name="own"
        )
        return [commit, None, *self.answers]

    def save(self, directory: Any, args: OwnArgs) -> None:
        (directory / "text").write_text(args.text)

    def restore(self, directory: Any, args: Any = None) -> str:
        return str((directory / "text").read_text())

    def finalize(self, directory: Any) -> None:
        self.threads.append(threading.current_thread().name)


@ocp.args.register_with_handler(OwnHandler, for_save=True, for_restore=True)
@dataclasses.dataclass
class OwnArgs(ocp.args.CheckpointArgs):
    text: str = ""


def checkpointer(*answers: Any, **options: Any) -> ocp.AsyncCheckpointer:
    return ocp.AsyncCheckpointer(
        OwnHandler(*answers), async_options=ocp.AsyncOptions(**options)
    )


def test_every_array_is_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller may overwrite every array right after the call."""
    written_into = threading.Event()
    save_item = _engine.save_item

    def late(*args: Any, **kwargs: Any) -> Any:
        assert written_into.wait(60)
        return save_item(*args, **kwargs)

    monkeypatch.setattr(_engine, "save_item", late)
    rng = np.random.default_rng(5)
    tree = {f"a{i}": rng.standard_normal(10_000) for i in range(8)}
    tree["order"] = np.asfortranarray(rng.standard_normal((50, 70)))
    tree["strided"] = rng.standard_normal(900)[::3]
    want = {name: array.copy() for name, array in tree.items()}
    single = rng.standard_normal(1000)
    want_single = single.copy()
    document = {"steps": [1, 2]}
    key = np.random.RandomState(3).get_state(legacy=False)
    want_key = key["state"]["key"].copy()
    args = ocp.args.Composite(
        tree=ocp.args.PyTreeSave(tree),
        standard=ocp.args.StandardSave(tree),
        single=ocp.args.ArraySave(single),
        document=ocp.args.JsonSave(document),
        key=ocp.args.NumpyRandomKeySave(key),
    )
    handler = ocp.CompositeCheckpointHandler()
    with ocp.AsyncCheckpointer(handler) as saver:
        saver.save(tmp_path / "c", args=args)
        for array in (*tree.values(), single, key["state"]["key"]):
            array[...] = 0
        document["steps"].append(3)
        written_into.set()
        saver.wait_until_finished()
        restored = saver.restore(tmp_path / "c")
    for name, array in want.items():
        np.testing.assert_array_equal(restored.tree[name], array)
        np.testing.assert_array_equal(restored.standard[name], array)
    np.testing.assert_array_equal(restored.single, want_single)
    assert restored.document == {"steps": [1, 2]}
    np.testing.assert_array_equal(restored.key["state"]["key"], want_key)


def test_validations_that_are_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The destination is not checked before the save has begun."""
    looked: list[str] = []
    lexists = _files.lexists

    def look(path: Any) -> bool:
        looked.append(str(path))
        return lexists(path)

    monkeypatch.setattr(_files, "lexists", look)
    for skips in (False, True):
        path = tmp_path / str(skips)
        looked.clear()
        options = ocp.options.FileOptions(skip_sync_file_validations=skips)
        with ocp.AsyncCheckpointer(
            ocp.StandardCheckpointHandler(), file_options=options
        ) as checkpointer:
            args = ocp.args.StandardSave({"w": np.ones(2)})
            checkpointer.save(path, args=args)
            checkpointer.wait_until_finished()
            assert (str(path) in looked) is not skips
            with pytest.raises(ValueError, match="exists"):
                checkpointer.save(path, args=args)
                checkpointer.wait_until_finished()
            with pytest.raises(ValueError, match="absolute"):
                checkpointer.save("relative", args=args)


def test_own_handler(tmp_path: Path) -> None:
    saver = checkpointer([], [[futures.NoopFuture()], None])
    saver.save(tmp_path / "c", OwnArgs("one"))
    saver.wait_until_finished()
    assert saver.restore(tmp_path / "c") == "one"
    assert saver.handler.contract == [
        Signal.STEP_DIRECTORY_CREATION,
        Signal.ITEM_DIRECTORY_CREATION,
    ]
    assert saver.handler.threads == ["async_save"]
    contract = futures.AwaitableSignalsContract
    assert contract.get_awaitable_signals_from_contract() == []
    saver.close()


@pytest.mark.parametrize("ask", ["wait", "check", "save", "restore", "close"])
def test_error_is_raised_once(tmp_path: Path, ask: str) -> None:
    saver = checkpointer(Gated(OSError("the disk has gone")))
    saver.handler.answers[0].opened.set()
    saver.save(tmp_path / "c", OwnArgs("one"))
    if ask == "check":
        assert saver._background._thread is not None
        saver._background._thread.join()
    saver.handler.answers.clear()
    calls = {
        "wait": saver.wait_until_finished,
        "check": saver.check_for_errors,
        "save": lambda: saver.save(tmp_path / "d", OwnArgs("two")),
        "restore": lambda: saver.restore(tmp_path / "c"),
        "close": saver.close,
    }
    with pytest.raises(OSError, match="the disk has gone"):
        calls[ask]()
    saver.check_for_errors()
    saver.wait_until_finished()
    assert os.listdir(tmp_path) == []
    saver.save(tmp_path / "c", OwnArgs("three"))
    saver.wait_until_finished()
    assert saver.restore(tmp_path / "c") == "three"


def test_timeout(tmp_path: Path) -> None:
    gate = Gated()
    gate.cancel = lambda: None  # type: ignore[method-assign]
    saver = checkpointer(gate, timeout_secs=1)
    saver.save(tmp_path / "c", OwnArgs("one"))
    with pytest.raises(TimeoutError) as caught:
        saver.wait_until_finished()
    assert str(caught.value).startswith(
        "ChainedFuture completed 1/2 futures but timed out after "
    )
    assert not (tmp_path / "c").exists()
    gate.opened.set()


@pytest.mark.parametrize("seconds", [0, -1])
def test_timeouts_are_positive(seconds: int) -> None:
    with pytest.raises(ValueError) as caught:
        checkpointer(timeout_secs=seconds)
    assert str(caught.value) == (
        f"Timeout must be positive, but got {seconds} seconds."
    )
    assert ocp.AsyncCheckpointer(OwnHandler(), 7).timeout_secs == 7


def test_cancel_leaves_nothing(tmp_path: Path) -> None:
    gate = Gated()
    saver = checkpointer(gate)
    saver.cancel()  # nothing to cancel
    saver.save(tmp_path / "c", OwnArgs("one"))
    saver.cancel()
    saver.wait_until_finished()
    saver.check_for_errors()
    assert os.listdir(tmp_path) == []
    saver.handler.answers.clear()
    saver.save(tmp_path / "c", OwnArgs("two"))
    saver.wait_until_finished()
    assert saver.restore(tmp_path / "c") == "two"


def test_cancel_of_large_arrays(tmp_path: Path) -> None:
    """A cancellation stops the engine's writing, too."""
    tree = {"a": np.zeros(1 << 22)}
    saver = ocp.StandardCheckpointer()
    saver.save(tmp_path / "c", tree)
    saver.cancel()
    saver.wait_until_finished()
    # The save had committed already, or left nothing.
    assert os.listdir(tmp_path) in ([], ["c"])


def test_refusal_of_a_handler(tmp_path: Path) -> None:
    saver = ocp.AsyncCheckpointer(ocp.CompositeCheckpointHandler())
    good = ocp.args.StandardSave({"a": np.zeros(10)})
    bad = ocp.args.StandardSave({"a": object()})
    with pytest.raises(ValueError, match="Unsupported type"):
        saver.save(tmp_path / "c", ocp.args.Composite(a=good, b=bad))
    assert os.listdir(tmp_path) == []
    saver.save(tmp_path / "c", ocp.args.Composite(a=good))
    saver.close()
    assert sorted(p.name for p in (tmp_path / "c").iterdir() if p.is_dir()) == [
        "a"
    ]


def test_interpreter_exit_waits(tmp_path: Path, run_python: Script) -> None:
    program = f"""
import numpy as np, holdfast.orbax as ocp
saver = ocp.StandardCheckpointer()
saver.save({str(tmp_path / "c")!r}, {{"a": np.arange(1 << 20)}})
"""
    run_python(program)
    with ocp.StandardCheckpointer() as saver:
        restored = saver.restore(tmp_path / "c")
    np.testing.assert_array_equal(restored["a"], np.arange(1 << 20))


@pytest.mark.filterwarnings("ignore:.*fork")
@pytest.mark.parametrize("has_own_class", [False, True])
def test_a_fork_leaves_the_save_alone(
    tmp_path: Path, has_own_class: bool
) -> None:
    """A forked child that ends does not remove what its parent is writing."""
    kind: Any = ocp.path.atomicity.AtomicRenameTemporaryPath
    own = type("Own", (kind,), {}) if has_own_class else None
    gate = Gated()
    saver = ocp.AsyncCheckpointer(OwnHandler(gate), temporary_path_class=own)
    saver.save(tmp_path / "c", OwnArgs("one"))
    child = os.fork()
    if child == 0:
        saver._background = None  # type: ignore[assignment]
        import gc

        gc.collect()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    gate.opened.set()
    saver.wait_until_finished()
    assert saver.restore(tmp_path / "c") == "one"


def test_inside_of_a_loop(tmp_path: Path) -> None:
    async def run() -> None:
        saver = checkpointer()
        saver.save(tmp_path / "c", OwnArgs("one"))
        saver.wait_until_finished()
        assert saver.restore(tmp_path / "c") == "one"

    asyncio.run(run())


async def _value(value: Any) -> Any:
    await asyncio.sleep(0)
    if isinstance(value, Exception):
        raise value
    return value


def test_commit_future() -> None:
    assert futures.CommitFuture(_value(3), name="three").result() == 3

    async def awaited() -> Any:
        return await futures.CommitFuture(_value(4))

    assert asyncio.run(awaited()) == 4
    failed = futures.CommitFuture(_value(KeyError("x")))
    for _ in range(2):
        with pytest.raises(KeyError):
            failed.result()
    coroutine = _value(1)
    with pytest.raises(ValueError, match="Timeout must be positive"):
        futures.CommitFuture(coroutine, timeout_secs=-1)


def test_signals_between_commit_futures() -> None:
    """The second future runs after the first has ended, whichever is started
    first."""
    order: list[str] = []

    async def note(name: str) -> None:
        order.append(name)

    signal = Signal.ITEM_DIRECTORY_CREATION
    late = futures.CommitFuture(
        note("second"), receive_signals=[signal], operation_id="a test"
    )
    with pytest.raises(TimeoutError, match=r"within 0.01 seconds"):
        late.result(timeout=0.01)
    futures.CommitFuture(
        note("first"), send_signals=[signal], operation_id="a test"
    )
    late.result()
    assert order == ["first", "second"]
    futures.AwaitableSignalsContract.remove_all_awaitable_signals("a test")
    with pytest.raises(TimeoutError):
        futures.wait_for_signals(
            [signal], timeout_secs=0.01, operation_id="a test"
        )


def test_cancelled_commit_future() -> None:
    started = threading.Event()

    async def forever() -> None:
        started.set()
        await asyncio.Event().wait()

    running = futures.CommitFuture(forever())
    assert started.wait(60)
    running.cancel()
    with pytest.raises(concurrent.futures.CancelledError):
        running.result()


def test_chained_future() -> None:
    called: list[int] = []
    chain = futures.ChainedFuture(
        [futures.NoopFuture(), futures.CommitFuture(_value(1))],
        lambda: called.append(1),
    )
    chain.result(timeout=60)
    assert called == [1]
    gate = Gated()
    late = futures.ChainedFuture([futures.NoopFuture(), gate], lambda: None)
    with pytest.raises(TimeoutError, match="completed 1/2 futures"):
        late.result(timeout=0.01)
    late.cancel()
    assert gate.is_cancelled
    with pytest.raises(TimeoutError, match="Timed out after"):
        futures.get_remaining_time(0, 1)
