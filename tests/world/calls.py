"""Calls holdfast for the game, in this process, in a child process, or as the
command, and records the outcome of the call.

The command runs in this process (as a function of the module), which takes one
millisecond instead of thirty. Thread-safety: one thread.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import faulthandler
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any

from holdfast import _engine, errors

DEADLINE_SECONDS = 120.0
_TRACES = os.memfd_create("traces")  # tracebacks of processes that crash


class Failure(Exception):
    """A broken promise.

    Attributes:
        kind: "lost", "wrong", "refused", ...; failures of the same kind and
            subject count as the same fault when a world is shrunk.
        subject: the kind of checkpoint, or the operation.
        after: the operation that was played last.
    """

    def __init__(self, kind: str, subject: str, text: str) -> None:
        super().__init__(f"{kind} ({subject}): {text}")
        self.kind, self.subject, self.text = kind, subject, text
        self.after = ""

    @property
    def signature(self) -> str:
        return f"{self.kind} ({self.subject}) after {self.after}"


@dataclasses.dataclass
class Outcome:
    """The outcome of a call: "done", "refused", "killed"."""

    kind: str
    error: str = ""
    error_class: str = ""


class CommandError(Exception):
    """The command ended with an exit code other than 0."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"exit {code}: {text.strip()}")
        self.code = code


def command(*words: str) -> str:
    """Returns the output of `holdfast WORDS...`; raises CommandError."""
    code, out, err = run_command(*words)
    if code != 0:
        raise CommandError(code, err or out)
    return out


def run_command(*words: str) -> tuple[int, str, str]:
    """Returns the exit code, standard output and standard error."""
    run = ctypes.CDLL(_engine.__file__).holdfast_command
    argv = [os.fsencode(word) for word in ("holdfast", *words)]
    sys.stdout.flush()
    sys.stderr.flush()
    files = [os.memfd_create(name) for name in ("out", "err")]
    saved = [os.dup(1), os.dup(2)]
    try:
        for number, file in enumerate(files, 1):
            os.dup2(file, number)
        code = run(len(argv), (ctypes.c_char_p * len(argv))(*argv))
    finally:
        for number, file in enumerate(saved, 1):
            os.dup2(file, number)
            os.close(file)
    texts = []
    for file in files:
        size = os.lseek(file, 0, os.SEEK_END)
        texts.append(os.pread(file, size, 0).decode(errors="replace"))
        os.close(file)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    return code, texts[0], texts[1]


def call_here(call: Callable[[], Any]) -> Outcome:
    """Makes the call in this process."""
    try:
        call()
    except CommandError as error:
        text = str(error)
        return Outcome("refused", text, f"exit {error.code}")
    except Exception as error:  # judged by its class
        judge_class(error)
        return Outcome("refused", str(error), type(error).__name__)
    return Outcome("done")


# Further exceptions that the drop-in raises, as Orbax does.
_ALLOWED = (ValueError, OSError, KeyError, NotImplementedError, MemoryError)


def judge_class(error: Exception) -> None:
    """Raises a Failure for an exception class that no user should see."""
    if isinstance(error, Failure):
        raise error
    known = isinstance(error, (errors.HoldfastError, CommandError, *_ALLOWED))
    if isinstance(error, errors.InternalError) or not known:
        where = "".join(traceback.format_exception(error)[-3:])
        raise Failure("internal", type(error).__name__, where)


def in_child(call: Callable[[], Any]) -> tuple[int, int]:
    """Starts a process that makes the call; returns its id, and a pipe with the
    outcome."""
    read, write = os.pipe()
    sys.stdout.flush()
    pid = os.fork()
    if pid != 0:
        os.close(write)
        return pid, read
    status = 3
    try:
        os.close(read)
        faulthandler.enable(_TRACES)
        with open(os.devnull, "w") as nothing:
            os.dup2(nothing.fileno(), 1)
            os.dup2(nothing.fileno(), 2)
        outcome = call_here(call)
        os.write(
            write,
            "\0".join(
                (outcome.kind, outcome.error_class, outcome.error[:3000])
            ).encode(),
        )
        status = 0
    except BaseException as error:  # reported to the parent
        text = error.text if isinstance(error, Failure) else repr(error)
        os.write(write, f"failure\0\0{text[:3000]}".encode())
    finally:
        os._exit(status)


def end_of(pid: int, pipe: int, what: str, *, may_die: bool) -> Outcome:
    """Waits for a process of `in_child`; raises Failures for crashes and
    hangs."""
    text, status = _wait(pid, pipe, what)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if may_die and number == signal.SIGKILL:
            return Outcome("killed")
        size = os.lseek(_TRACES, 0, os.SEEK_END)
        trace = os.pread(_TRACES, size, 0).decode(errors="replace")
        os.ftruncate(_TRACES, 0)
        raise Failure("crash", what, f"signal {number}; {trace}")
    kind, error_class, error = (text.split("\0") + ["", "", ""])[:3]
    if kind == "failure" or not kind:
        raise Failure("internal", what, error or "the process told nothing")
    return Outcome(kind, error, error_class)


def _wait(pid: int, pipe: int, what: str) -> tuple[str, int]:
    with watched(pid, what), os.fdopen(pipe, "rb") as file:
        text = file.read().decode(errors="replace")
        _, status = os.waitpid(pid, 0)
    return text, status


@contextlib.contextmanager
def watched(pid: int, what: str) -> Iterator[None]:
    """Kills a process that takes too long, and fails the call."""

    def expire(*_: Any) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        raise Failure("hang", what, f"no end after {DEADLINE_SECONDS:.0f} s")

    before = signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, DEADLINE_SECONDS)
    try:
        yield
    except Failure:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)
        raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def while_child(
    call: Callable[[], Any], beside: Callable[[int], Any]
) -> Outcome:
    """Makes `call` here while a child process runs `beside(stop)`, which must
    return when the pipe `stop` ends; raises a Failure that the child found."""
    stop_read, stop_write = os.pipe()

    def until_stopped() -> None:
        os.close(stop_write)
        os.set_blocking(stop_read, False)
        beside(stop_read)

    pid, pipe = in_child(until_stopped)
    os.close(stop_read)
    try:
        outcome = call_here(call)
    finally:
        os.close(stop_write)
        other = end_of(pid, pipe, "a process beside", may_die=False)
    if other.kind != "done":
        raise Failure("internal", "a process beside", other.error)
    return outcome


def has_stopped(stop: int) -> bool:
    """Whether the parent of `while_child` is done."""
    try:
        return os.read(stop, 1) == b""
    except BlockingIOError:
        return False


def is_damage(outcome: Outcome) -> bool:
    """Whether the error says that stored bytes are damaged."""
    if outcome.error_class.startswith("exit"):
        return outcome.error_class == "exit 1"
    named = getattr(errors, outcome.error_class, None)
    return named is not None and issubclass(named, errors.DataLossError)


def quiet() -> None:
    """Silences warnings about damaged checkpoints and forks."""
    import warnings

    warnings.simplefilter("ignore", errors.HoldfastWarning)
    warnings.filterwarnings("ignore", message=".*fork.*")
