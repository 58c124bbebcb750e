"""Child processes that answer requests: one line of JSON for each.

A request that crashes its process or takes too long is the only one to fail;
the caller then starts another child for the rest. A child answers {"ready":
true} when it is started, and may take its time before that to import what it
needs.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import pathlib
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

STDERR_BYTES_SHOWN = 3000


class ChildFailed(Exception):
    """The child has died, or did not answer in time and was killed."""


class Child:
    """One child. Not thread-safe. Leaves no process behind if it is closed."""

    def __init__(
        self, command: Sequence[str], env: Mapping[str, str] | None = None
    ) -> None:
        self._stderr = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env={**os.environ, **(env or {})},
            start_new_session=True,
        )
        self._buffer = b""

    def answer(self, seconds: float) -> dict[str, Any]:
        """Returns the next answer. Raises ChildFailed."""
        deadline = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            assert self._process.stdout is not None
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._buffer:
                left = deadline - time.monotonic()
                if left <= 0 or not selector.select(left):
                    self.close()
                    raise ChildFailed(
                        f"took longer than {seconds:.0f} s and was stopped"
                        f"{self._last_words()}"
                    )
                data = os.read(self._process.stdout.fileno(), 1 << 16)
                if not data:
                    raise ChildFailed(self._end())
                self._buffer += data
        line, self._buffer = self._buffer.split(b"\n", 1)
        answer: dict[str, Any] = json.loads(line)
        return answer

    def ask(self, request: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        """Sends a request and returns its answer. Raises ChildFailed."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise ChildFailed(self._end()) from None
        return self.answer(seconds)

    def close(self) -> None:
        """Kills the child and the processes that it has started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _end(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(10)  # its output ends before it does
        self.close()
        code = self._process.returncode
        return f"the process ended with status {code}{self._last_words()}"

    def _last_words(self) -> str:
        self._stderr.seek(0, os.SEEK_END)
        size = self._stderr.tell()
        self._stderr.seek(max(0, size - STDERR_BYTES_SHOWN))
        text = self._stderr.read().decode(errors="replace").strip()
        return f"; its last words: {text}" if text else ""


def serve(answer: Callable[[dict[str, Any]], Mapping[str, Any]]) -> None:
    """Answers requests until stdin ends. Prints of `answer` and of libraries
    go to stderr."""
    _end_with_parent()
    output = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def say(value: Mapping[str, Any]) -> None:
        output.write(json.dumps(value) + "\n")
        output.flush()

    say({"ready": True})
    for line in sys.stdin:
        say(answer(json.loads(line)))


def _end_with_parent() -> None:
    """Asks Linux to kill this process when its parent's thread ends."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


def write_json(path: pathlib.Path, value: Any) -> None:
    """Replaces a file in one step, so that a reader never sees half of it."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
    os.replace(part, path)
