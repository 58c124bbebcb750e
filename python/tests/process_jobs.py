"""Several jax processes on this machine, which stay alive for many calls.

    with Job(processes=2, devices=2) as job:
        results = job.run("some_module:function", path="/tmp/x")

Each process runs `process_worker.py`, which joins the others through
`jax.distributed` (CPU devices, gloo collectives) and then calls functions on
request. Calls have a deadline. A job that misses it is killed, and the error
has what its processes have printed. Units: seconds.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

_WORKER = Path(__file__).with_name("process_worker.py")
_KEPT_VARIABLES = ("HOME", "LD_LIBRARY_PATH", "PATH", "PYTHONPATH", "TMPDIR")
_START_SECONDS = 120


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The outcome of a call on one process.

    Attributes:
        value: what the function returned, which must be JSON.
        error: the class and the message of what it raised, or "".
        seconds: how long the call took.
    """

    value: Any
    error: str
    seconds: float


class Job:
    """Several processes. A context manager: leaving it ends the processes."""

    def __init__(
        self,
        processes: int,
        devices: int = 2,
        *,
        modules: Path | str = Path(__file__).parent,
        environment: dict[str, str] | None = None,
    ) -> None:
        """Does not start the processes yet.

        Args:
            processes: the number of processes.
            devices: the number of devices per process.
            modules: the directory of the modules whose functions are called.
            environment: additional environment variables.
        """
        self.processes = processes
        self._devices = devices
        self._modules = str(modules)
        self._environment = environment or {}
        self._workers: list[subprocess.Popen[bytes]] = []
        self._answers: list[int] = []
        self._unread: list[bytes] = []
        self._logs = tempfile.TemporaryDirectory(prefix="holdfast-job-")

    def __enter__(self) -> Job:
        try:
            port = _free_port()
            for index in range(self.processes):
                self._start(index, port)
            self._receive(range(self.processes), _START_SECONDS)
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            self._end()
        self.kill()
        self._logs.cleanup()

    def _start(self, index: int, port: int) -> None:
        environment = {
            name: os.environ[name]
            for name in _KEPT_VARIABLES
            if name in os.environ
        }
        environment |= {
            "JAX_PLATFORMS": "cpu",
            "XLA_FLAGS": (
                "--xla_force_host_platform_device_count="
                f"{self._devices} --xla_cpu_multi_thread_eigen=false"
            ),
            **self._environment,
        }
        reading, writing = os.pipe()
        with open(self._log(index), "wb") as log:
            worker = subprocess.Popen(
                [
                    sys.executable,
                    str(_WORKER),
                    str(index),
                    str(self.processes),
                    str(port),
                    str(writing),
                    self._modules,
                ],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=environment,
                pass_fds=[writing],
            )
        os.close(writing)
        self._workers.append(worker)
        self._answers.append(reading)
        self._unread.append(b"")

    def _log(self, index: int) -> str:
        return os.path.join(self._logs.name, f"{index}.log")

    def call(
        self,
        function: str,
        *,
        each: list[dict[str, Any]] | None = None,
        only: list[int] | None = None,
        timeout: float = 120,
        **arguments: Any,
    ) -> dict[int, Outcome]:
        """Calls a function on every process at once.

        Args:
            function: "module:name".
            each: additional arguments for each process.
            only: the processes that make the call; None for all.
            timeout: time limit for all processes together.
            **arguments: the arguments, which must be JSON.

        Returns:
            The outcomes by process.

        Raises:
            AssertionError: if a process has died, or has not answered in time.
        """
        chosen = list(range(self.processes)) if only is None else only
        for index in chosen:
            own = {} if each is None else each[index]
            self._tell(index, function, {**arguments, **own})
        return self._receive(chosen, timeout)

    def call_and_kill(
        self, function: str, victim: int, after: float, **arguments: Any
    ) -> None:
        """Begins a call, kills a process with SIGKILL, and ends the job.

        Args:
            function: as in `call`.
            victim: the process to kill.
            after: seconds between the beginning of the call and the kill.
            **arguments: as in `call`.
        """
        for index in range(self.processes):
            self._tell(index, function, arguments)
        time.sleep(after)
        self._workers[victim].send_signal(signal.SIGKILL)
        # jax would end the other processes, but takes too long to notice.
        time.sleep(0.2)
        self.kill()

    def run(self, function: str, **arguments: Any) -> list[Any]:
        """Makes a call that must succeed on every process; returns the
        values."""
        outcomes = self.call(function, **arguments)
        for index, outcome in outcomes.items():
            assert not outcome.error, f"process {index}: {outcome.error}"
        return [outcome.value for outcome in outcomes.values()]

    def kill(self) -> None:
        """Kills the processes that are still running."""
        for worker in self._workers:
            if worker.poll() is None:
                worker.send_signal(signal.SIGKILL)
        for worker in self._workers:
            worker.wait()
            if worker.stdin is not None:
                with contextlib.suppress(OSError):
                    worker.stdin.close()
        for reading in self._answers:
            os.close(reading)
        self._workers, self._answers = [], []

    def _tell(
        self, index: int, function: str, arguments: dict[str, Any]
    ) -> None:
        request = {"function": function, "arguments": arguments}
        stdin = self._workers[index].stdin
        assert stdin is not None
        try:
            stdin.write(json.dumps(request).encode() + b"\n")
            stdin.flush()
        except OSError as error:
            raise AssertionError(self._report(f"{error}")) from error

    def _receive(self, chosen: Any, timeout: float) -> dict[int, Outcome]:
        deadline = time.monotonic() + timeout
        missing = set(chosen)
        found: dict[int, Outcome] = {}
        while missing:
            fds = {self._answers[index]: index for index in missing}
            left = max(0.0, deadline - time.monotonic())
            ready, _, _ = select.select(list(fds), [], [], left)
            if not ready:
                raise AssertionError(
                    self._report(f"no answer of {sorted(missing)} in {timeout}")
                )
            for fd in ready:
                index = fds[fd]
                line = self._read_line(index)
                if line is not None:
                    found[index] = Outcome(**json.loads(line))
                    missing.remove(index)
        return dict(sorted(found.items()))

    def _read_line(self, index: int) -> bytes | None:
        data = os.read(self._answers[index], 1 << 16)
        if not data:
            raise AssertionError(self._report(f"process {index} has died"))
        self._unread[index] += data
        line, separator, rest = self._unread[index].partition(b"\n")
        if not separator:
            return None
        self._unread[index] = rest
        return line

    def _report(self, what: str) -> str:
        """Kills the processes; returns a failure's message with the tail of
        every log."""
        self.kill()
        parts = [what]
        for index in range(self.processes):
            with open(self._log(index), errors="replace") as log:
                parts.append(f"--- process {index}\n{log.read()[-4000:]}")
        return "\n".join(parts)

    def _end(self) -> None:
        for worker in self._workers:
            if worker.stdin is not None:
                with contextlib.suppress(OSError):
                    worker.stdin.close()
        deadline = time.monotonic() + 20
        for worker in self._workers:
            with contextlib.suppress(subprocess.TimeoutExpired):
                worker.wait(max(0.1, deadline - time.monotonic()))


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("localhost", 0))
        return int(listener.getsockname()[1])
