#!/usr/bin/env python3
"""Plays the game: random worlds of operations, judged by a model.

usage: run_world.py [--worlds N] [--operations N] [--seed S] [--kept]
                    [--seconds T] [--jobs J] [--out DIR] [--dir SCRATCH]
                    [--without OPERATION,...] [--broken-door DOOR]
       run_world.py --replay FILE [--keep]

Plays N worlds (default 100) of 20 operations, and more until T seconds have
passed. A world is drawn from its seed. It has roots, steps, deltas, views,
copies, managers and followers, a stranger who moves, copies, links, removes and
damages files, kills, and failing disks. After each operation, everything that
`model.py` promises is opened. A world that breaks a promise is shrunk to a few
operations, which are written to DIR (default build/world) as a file for
--replay. Exit status 1 if a world broke a promise.

A third of all seeds, those with remainder 2 modulo 3, are kept in reserve: they
are played only with --kept, before a release, so that nothing is tuned to them.

Each job plays in its own process, with a small library (`faults.c`, which this
program compiles) preloaded over libc. Without a C compiler, no process is
killed and no disk fails.
"""

from __future__ import annotations

import argparse
import collections
import faulthandler
import importlib.util
import json
import os
import pathlib
import queue
import select
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
WORLD_SECONDS_MAX = 180.0
SHRUNK_PER_SIGNATURE = 2


def seeds(first: int, *, kept: bool) -> Iterator[int]:
    """Yields the open seeds from `first` on, or the kept ones."""
    seed = first
    while True:
        if (seed % 3 == 2) == kept:
            yield seed
        seed += 1


# A job's process, which answers requests. Each is one line of JSON.


def work(options: dict[str, Any]) -> None:
    """Plays the requests on standard input until its end."""
    sys.path.insert(0, str(HERE))
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    import calls
    import game

    faulthandler.enable()
    calls.quiet()
    folder = options["folder"]
    for line in sys.stdin:
        request = json.loads(line)
        if "shrink" not in request:
            faulthandler.dump_traceback_later(WORLD_SECONDS_MAX - 20)
        if "seed" in request:
            result = game.play_drawn(
                request["seed"],
                request["operations"],
                folder,
                options | {"log": _logger(options["journal"])},
            )
        elif "shrink" in request:
            result = _shrink(game, request, folder, options)
        else:
            result = game.play_list(request["play"], folder, options)
        faulthandler.cancel_dump_traceback_later()
        answers.write(json.dumps(_as_json(result)) + "\n")
        answers.flush()


def _logger(journal: str) -> Any:
    """Returns a function that writes a world's operations to a file, where the
    parent finds them if this process crashes."""
    open(journal, "w").close()

    def log(words: dict[str, Any]) -> None:
        with open(journal, "a") as file:
            file.write(json.dumps(words) + "\n")

    return log


def _shrink(
    game: Any, request: dict[str, Any], folder: str, options: dict[str, Any]
) -> Any:
    from shrink import shrunk

    def fails(words: list[dict[str, Any]]) -> bool:
        failure = game.play_list(words, folder, options).failure
        return failure is not None and failure.signature == request["signature"]

    return game.play_list(shrunk(request["shrink"], fails), folder, options)


def _as_json(result: Any) -> dict[str, Any]:
    failure = result.failure
    return {
        "words": result.words,
        "counts": result.counts,
        "books": result.books if failure else "",
        "signature": failure.signature if failure else "",
        "text": str(failure) if failure else "",
    }


# The parent.


class Job:
    """A process that plays worlds, and is restarted when it ends."""

    def __init__(self, args: argparse.Namespace, number: int) -> None:
        self._args = args
        self._folder = f"{args.dir}/job{number}"
        self._journal = f"{args.dir}/job{number}.journal"
        self._process: subprocess.Popen[str] | None = None

    def _start(self) -> subprocess.Popen[str]:
        options = {
            "folder": self._folder,
            "journal": self._journal,
            "without": self._args.without,
            "broken_door": self._args.broken_door,
            "keep": self._args.keep,
            "jax": _has("jax") and not self._args.plain,
            "stock": _has("orbax.checkpoint") and not self._args.plain,
        }
        environment = os.environ | {
            "JAX_PLATFORMS": "cpu",
            "OMP_NUM_THREADS": "1",
        }
        if self._args.faults:
            environment["LD_PRELOAD"] = self._args.faults
            environment["WORLD_FAULTS"] = self._args.faults
        return subprocess.Popen(
            [sys.executable, __file__, "--work", json.dumps(options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
        )

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Returns the process's answer; a crash or hang is an answer, too."""
        if self._process is None:
            self._process = self._start()
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        limit = WORLD_SECONDS_MAX * (10 if "shrink" in request else 1)
        if _answers(process, limit):
            line = process.stdout.readline()
            if line:
                answer: dict[str, Any] = json.loads(line)
                return answer
            kind = f"crash (status {process.wait()})"
        else:
            kind = "hang (a world)"
            process.kill()
            process.wait()
        self._process = None
        return {
            "words": self._told(request),
            "counts": {},
            "books": "",
            "signature": kind,
            "text": kind,
        }

    def _told(self, request: dict[str, Any]) -> list[dict[str, Any]]:
        if "seed" not in request:
            return list(request.get("play", request.get("shrink", [])))
        with open(self._journal) as file:
            return [json.loads(line) for line in file]

    def shrink(self, answer: dict[str, Any]) -> dict[str, Any]:
        """Returns the same failure with fewer operations, if possible."""
        signature = answer["signature"]
        if signature.startswith("hang (a world)"):
            return answer  # each attempt would take minutes
        if not signature.startswith("crash"):
            request = {"shrink": answer["words"], "signature": signature}
            found = self.ask(request)
            return found if found["signature"] == signature else answer
        from shrink import shrunk

        def fails(words: list[dict[str, Any]]) -> bool:
            return self.ask({"play": words})["signature"] == signature

        words = shrunk(answer["words"], fails, plays_max=60)
        return answer | {"words": words}

    def close(self) -> None:
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait()


def _answers(process: subprocess.Popen[str], seconds_max: float) -> bool:
    """Waits for a line of output; returns False if none comes in time. Time in
    which the process waits for a processor counts less."""
    assert process.stdout is not None
    seconds = 0.0
    while seconds < seconds_max:
        if select.select([process.stdout], [], [], 1.0)[0]:
            return True
        try:
            with open(f"/proc/{process.pid}/stat") as file:
                state = file.read().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True  # it has ended
        seconds += 0.1 if state == "R" else 1.0
    return False


def _has(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


class Game:
    """Collects the findings of all jobs."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.counts: dict[str, list[int]] = {}
        self.failures: collections.Counter[str] = collections.Counter()
        self.world_count = 0
        self.begun = time.monotonic()
        self._lock = threading.Lock()
        self._seeds = seeds(args.seed, kept=args.kept)
        self._given = 0
        self._errors: queue.Queue[BaseException] = queue.Queue()

    def _next_seed(self) -> int | None:
        with self._lock:
            late = time.monotonic() - self.begun > self.args.seconds
            if self._given >= self.args.worlds and late:
                return None
            self._given += 1
            return next(self._seeds)

    def play(self) -> None:
        threads = [
            threading.Thread(target=self._play_job, args=(number,))
            for number in range(self.args.jobs)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if not self._errors.empty():
            raise self._errors.get()

    def _play_job(self, number: int) -> None:
        job = Job(self.args, number)
        try:
            while (seed := self._next_seed()) is not None:
                count = self.args.operations
                answer = job.ask({"seed": seed, "operations": count})
                self._take(job, seed, answer)
        except BaseException as error:  # raised by `play`
            self._errors.put(error)
        finally:
            job.close()

    def _take(self, job: Job, seed: int, answer: dict[str, Any]) -> None:
        signature = answer["signature"]
        with self._lock:
            self.world_count += 1
            for name, row in answer["counts"].items():
                total = self.counts.setdefault(name, [0, 0, 0])
                for i, count in enumerate(row):
                    total[i] += count
            if not signature:
                return
            self.failures[signature] += 1
            number = self.failures[signature]
        print(f"seed {seed}: {answer['text'][:400]}", flush=True)
        if number <= SHRUNK_PER_SIGNATURE:
            self._report(seed, job.shrink(answer), number)

    def _report(self, seed: int, short: dict[str, Any], number: int) -> None:
        out = pathlib.Path(self.args.out)
        out.mkdir(parents=True, exist_ok=True)
        name = "".join(
            c if c.isalnum() else "-" for c in short["signature"].lower()
        )
        path = out / f"{name.strip('-')}-{number}.json"
        record = {
            "signature": short["signature"],
            "text": short["text"],
            "seed": seed,
            "operations": short["words"],
            "books": json.loads(short["books"] or "{}"),
        }
        path.write_text(json.dumps(record, indent=1) + "\n")
        shown = "\n".join(f"    {json.dumps(w)}" for w in short["words"])
        print(f"  {path}: {short['text'][:600]}\n{shown}", flush=True)

    def summary(self) -> str:
        rows = [f"{'operation':30} {'done':>9} {'refused':>9} {'killed':>9}"]
        for name, row in sorted(self.counts.items()):
            rows.append(f"{name:30} {row[0]:9,} {row[1]:9,} {row[2]:9,}")
        for signature, count in self.failures.most_common():
            rows.append(f"FAILED {count:6,} x {signature}")
        played = sum(row[0] + row[1] + row[2] for row in self.counts.values())
        seconds = time.monotonic() - self.begun
        kind = "kept" if self.args.kept else "open"
        rows.append(
            f"{self.world_count} {kind} worlds, {played} operations in"
            f" {seconds:.0f} s, {self.failures.total()} worlds failed in"
            f" {len(self.failures)} ways"
        )
        return "\n".join(rows)


def compile_faults(folder: str) -> str:
    """Compiles faults.c; returns its path, or "" without a C compiler."""
    path = f"{folder}/faults.so"
    command = [
        os.environ.get("CC", "cc"),
        "-O1",
        "-shared",
        "-fPIC",
        "-o",
        path,
    ]
    try:
        subprocess.run([*command, str(HERE / "faults.c")], check=True)
    except FileNotFoundError:
        print("no C compiler: nothing is killed, no disk fails")
        return ""
    return path


def replay(args: argparse.Namespace) -> int:
    """Plays a list of operations from a file; returns the exit status."""
    record = json.loads(pathlib.Path(args.replay).read_text())
    words = record["operations"] if isinstance(record, dict) else record
    job = Job(args, 0)
    answer = job.ask({"play": words})
    job.close()
    for row in words:
        print(json.dumps(row))
    print(answer["books"])
    print(answer["text"] or "nothing is broken")
    return 1 if answer["signature"] else 0


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--worlds", type=int, default=100)
    parser.add_argument("--operations", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kept", action="store_true")
    parser.add_argument("--seconds", type=float, default=0.0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument(
        "--out", default=str(HERE.parent.parent / "build/world")
    )
    parser.add_argument("--dir", help="where worlds are; default: in memory")
    parser.add_argument("--without", default="", type=_names)
    parser.add_argument("--plain", action="store_true", help="without jax")
    parser.add_argument("--broken-door", default="")
    parser.add_argument("--replay")
    parser.add_argument("--keep", action="store_true", help="the last folder")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    return parser.parse_args()


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def main() -> int:
    args = parsed()
    if args.work:
        work(json.loads(args.work))
        return 0
    sys.path.insert(0, str(HERE))
    above = args.dir or ("/dev/shm" if os.path.isdir("/dev/shm") else None)
    with tempfile.TemporaryDirectory(prefix="world", dir=above) as folder:
        args.dir = folder
        args.faults = compile_faults(folder)
        if args.replay:
            return replay(args)
        game = Game(args)
        game.play()
    print(game.summary())
    return 1 if game.failures else 0


if __name__ == "__main__":
    sys.exit(main())
