#!/usr/bin/env python3
"""Builds holdfast and runs its checks: the steps of scripts/steps.toml.

usage: scripts/test [STEP...] [--quick | --changed [BASE] | --all]
                    [--no-deps] [--ledger] [--list | --dry-run]

  STEP            these steps and the steps they need; default: the steps that
                  run on every change
  --quick         a few minutes: the build, ctest and the golden checkpoints
  --changed       the steps for the files that differ from BASE; default BASE:
                  where this branch left origin/main, or main
  --all           every step, with the sizes of nightly runs; with STEPs: these
                  steps with those sizes
  --no-deps       without the steps that the chosen steps need
  --ledger        record the seconds of each step in bench/results
  --list          print the steps, and run none
  --dry-run       print what would run, with its commands, and run none

Two steps run at the same time (four if there are enough processors); the steps
that the most work waits for run first. The output of each goes to build/logs; a
summary is printed at the end. Exit status 1 when a step failed, 2 when the
arguments are wrong. HOLDFAST_PYTHON: see scripts/setup. Needs only Python 3.11.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterable, Mapping

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLE = ROOT / "scripts/steps.toml"
LEDGER = ROOT / "bench/results/test-seconds.json"
WHENS = ("every", "areas", "needed")
ANY = "*"  # in the areas of a step: every file
COLUMNS_MAX = 80
LOG_LINES_SHOWN = 80
SECONDS_GUESSED = 30  # for a step that the ledger does not list


class Wrong(Exception):
    """The table or the command's arguments are wrong."""


@dataclasses.dataclass(frozen=True)
class Step:
    """A row of the table; scripts/steps.toml explains the fields."""

    name: str
    what: str
    run: str
    when: str
    needs: tuple[str, ...] = ()
    areas: tuple[str, ...] = ()
    sizes: Mapping[str, list[int]] = dataclasses.field(default_factory=dict)
    is_heavy: bool = False
    is_quick: bool = False


@dataclasses.dataclass(frozen=True)
class Table:
    """The steps in the table's order, the paths of each area, and the shell
    text that runs before each step."""

    steps: Mapping[str, Step]
    areas: Mapping[str, frozenset[str]]
    prelude: str = ""


@dataclasses.dataclass(frozen=True)
class Outcome:
    step: Step
    status: int | None  # None: left out, because what it needs failed
    seconds: float
    last_line: str


# ----- The table.


def read_table(text: str) -> Table:
    """Parses scripts/steps.toml; raises Wrong for an error in it."""
    parsed = tomllib.loads(text)
    areas = {
        name: frozenset(paths_of(name, parsed["areas"], ()))
        for name in parsed["areas"]
    }
    steps = {}
    for name, row in parsed["steps"].items():
        try:
            step = Step(name=name, **row)
        except TypeError as error:
            raise Wrong(f"step {name}: {error}") from None
        check_step(step, steps, areas)
        steps[name] = step
    return Table(steps, areas, parsed.get("prelude", ""))


def paths_of(
    name: str, areas: Mapping[str, list[str]], inside: tuple[str, ...]
) -> Iterable[str]:
    """Yields the paths of an area and of the areas that it names."""
    if name in inside:
        raise Wrong(f"area {name} contains itself")
    for word in areas[name]:
        if is_path(word):
            yield word
        elif word in areas:
            yield from paths_of(word, areas, (*inside, name))
        else:
            raise Wrong(f"area {name}: no area {word!r}")


def is_path(word: str) -> bool:
    return "/" in word or "." in word


def check_step(
    step: Step,
    above: Mapping[str, Step],
    areas: Mapping[str, frozenset[str]],
) -> None:
    if step.when not in WHENS:
        raise Wrong(f"step {step.name}: when: got {step.when!r}, want {WHENS}")
    for need in step.needs:
        if need not in above:
            raise Wrong(f"step {step.name}: needs {need!r}, not a step above")
    for area in step.areas:
        if not is_path(area) and area not in areas and area != ANY:
            raise Wrong(f"step {step.name}: no area {area!r}")
    if bool(step.areas) == (step.when == "needed"):
        raise Wrong(f"step {step.name}: areas are for what is not `needed`")
    for variable, pair in step.sizes.items():
        if len(pair) != 2 or pair[0] > pair[1]:
            raise Wrong(f"step {step.name}: {variable}: want [every, all]")


# ----- Which steps.


def with_needs(table: Table, names: Iterable[str]) -> list[Step]:
    """Returns the steps and all steps they need, in the table's order."""
    wanted: set[str] = set()
    left = list(names)
    while left:
        name = left.pop()
        if name not in wanted:
            wanted.add(name)
            left.extend(table.steps[name].needs)
    return [step for step in table.steps.values() if step.name in wanted]


def steps_for(table: Table, files: Iterable[str]) -> list[str]:
    """Returns the names of the steps to run for changed files: all steps if the
    table does not cover one of the files."""
    paths = {
        step.name: {path for area in step.areas for path in paths_in(table, area)}
        for step in table.steps.values()
        if step.when != "needed"
    }
    known = set().union(*paths.values(), *table.areas.values()) - {ANY}
    asked: set[str] = set()
    for file in files:
        if not is_in(file, known):
            return list(paths)
        asked |= {name for name, on in paths.items() if is_in(file, on)}
    return [name for name in paths if name in asked]


def paths_in(table: Table, area: str) -> Iterable[str]:
    return table.areas.get(area, (area,))


def is_in(file: str, paths: Iterable[str]) -> bool:
    """Returns true if one of the paths is the file or a folder ("x/") around
    it."""
    return any(
        path in (ANY, file) or (path.endswith("/") and file.startswith(path))
        for path in paths
    )


def changed_files(base: str) -> list[str]:
    """Returns the files that differ from `base`, with both names of moved
    files, and untracked files. `base` "" means where the branch began."""
    base = base or merge_base()
    differing = git("diff", "--name-only", "--no-renames", "-z", base)
    unknown = git("ls-files", "--others", "--exclude-standard", "-z")
    return sorted({f for f in (differing + unknown).split("\0") if f})


def merge_base() -> str:
    for main in ("origin/main", "main"):
        try:
            return git("merge-base", "HEAD", main).strip()
        except Wrong:
            continue
    raise Wrong("--changed: no origin/main and no main here; name a BASE")


def git(*words: str) -> str:
    done = subprocess.run(
        ["git", *words], cwd=ROOT, capture_output=True, text=True
    )
    if done.returncode != 0:
        raise Wrong(f"git {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


# ----- The ledger.


def read_ledger(path: pathlib.Path, mode: str) -> dict[str, int]:
    """Returns the seconds of each step, from a run with the sizes of `mode` or
    else with the other sizes."""
    if not path.exists():
        return {}
    ledger = json.loads(path.read_text())
    other = "all" if mode == "every" else "every"
    merged = ledger.get(other, {}) | {
        name: s for name, s in ledger.get(mode, {}).items() if s is not None
    }
    return {name: s for name, s in merged.items() if s is not None}


def write_ledger(
    path: pathlib.Path,
    mode: str,
    table: Table,
    outcomes: Iterable[Outcome],
) -> None:
    """Records the seconds of the steps that passed in the ledger, and drops
    steps that are no longer in the table."""
    ledger = json.loads(path.read_text()) if path.exists() else {}
    measured = {
        outcome.step.name: round(outcome.seconds)
        for outcome in outcomes
        if outcome.status == 0
    }
    for each in ("every", "all"):
        before = ledger.get(each, {})
        ledger[each] = {name: before.get(name) for name in table.steps}
    ledger[mode] |= measured
    path.write_text(json.dumps(ledger, indent=1) + "\n")


# ----- The run.


def work_behind(
    steps: list[Step], seconds: Mapping[str, int]
) -> dict[str, float]:
    """Returns the seconds of each step plus those of all steps that wait for
    it. In `steps`, a step comes after those it needs."""
    behind: dict[str, set[str]] = {}
    for step in reversed(steps):
        after = [behind[s.name] for s in steps if step.name in s.needs]
        behind[step.name] = {step.name}.union(*after)
    return {
        name: sum(seconds.get(each, SECONDS_GUESSED) for each in names)
        for name, names in behind.items()
    }


def next_step(
    waiting: list[Step], running: list[Step], work: Mapping[str, float]
) -> Step | None:
    """Returns the step that the most work waits for, among those whose needs
    have finished. Returns a heavy step only if no other heavy step runs."""
    has_heavy = any(step.is_heavy for step in running)
    names = {step.name for step in waiting + running}
    ready = [
        step
        for step in waiting
        if not names.intersection(step.needs)
        and not (step.is_heavy and has_heavy)
    ]
    return max(ready, key=lambda step: work[step.name], default=None)


def run_steps(
    steps: Iterable[Step],
    lane_count: int,
    seconds: Mapping[str, int],
    run: Callable[[Step], Outcome],
    report: Callable[[Outcome], None],
    begin: Callable[[Step], None],
) -> list[Outcome]:
    """Runs the steps in `lane_count` lanes, each after the steps it needs.
    Skips a step if a step that it needs has failed.

    Args:
        run: runs one step; called in a thread.
        report: called with each outcome.
        begin: called when a step begins.
    """
    waiting = list(steps)
    work = work_behind(waiting, seconds)
    running: dict[concurrent.futures.Future[Outcome], Step] = {}
    outcomes: list[Outcome] = []
    ended: dict[str, bool] = {}

    def end(outcome: Outcome) -> None:
        outcomes.append(outcome)
        ended[outcome.step.name] = outcome.status == 0
        report(outcome)

    with concurrent.futures.ThreadPoolExecutor(lane_count) as lanes:
        while waiting or running:
            for step in list(waiting):
                lost = [n for n in step.needs if ended.get(n) is False]
                if lost:
                    waiting.remove(step)
                    end(Outcome(step, None, 0, f"needs {lost[0]}"))
            while len(running) < lane_count:
                chosen = next_step(waiting, [*running.values()], work)
                if chosen is None:
                    break
                waiting.remove(chosen)
                begin(chosen)
                running[lanes.submit(run, chosen)] = chosen
            done, _ = concurrent.futures.wait(
                running, return_when=concurrent.futures.FIRST_COMPLETED
            )
            for future in done:
                running.pop(future)
                end(future.result())
    return outcomes


class Runner:
    """Runs steps with bash in the repository, and writes their output to files.

    Attributes:
        mode: "every" or "all", whose sizes the steps get.
    """

    def __init__(
        self, table: Table, root: pathlib.Path, mode: str, lane_count: int
    ) -> None:
        self.table = table
        self.root = root
        self.mode = mode
        self.logs = root / "build/logs"
        self.logs.mkdir(parents=True, exist_ok=True)
        self._lane_count = lane_count

    def environment(self, step: Step) -> dict[str, str]:
        at = 0 if self.mode == "every" else 1
        sizes = {name: str(pair[at]) for name, pair in step.sizes.items()}
        return sizes | {"full": "" if self.mode == "every" else "yes"}

    def log(self, step: Step) -> pathlib.Path:
        return self.logs / f"{step.name}.log"

    def run(self, step: Step) -> Outcome:
        begun = time.monotonic()
        with self.log(step).open("w") as log:
            status = subprocess.run(
                ["bash", "-c", f"{self.table.prelude}\n{step.run}"],
                cwd=self.root,
                env=os.environ | self.environment(step),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            ).returncode
        seconds = time.monotonic() - begun
        return Outcome(step, status, seconds, last_line(self.log(step)))

    def begin(self, step: Step) -> None:
        print(f"== {step.name}", flush=True)

    def report(self, outcome: Outcome) -> None:
        name = outcome.step.name
        if outcome.status is None:
            print(f"   {name}: left out, {outcome.last_line}", flush=True)
            return
        if outcome.status != 0:
            log = self.log(outcome.step)
            lines = log.read_text(errors="replace").splitlines()
            print("\n".join(lines[-LOG_LINES_SHOWN:]))
            print(f"   ... all of it is in {log.relative_to(self.root)}")
        print(f"   {name}: {outcome.last_line}", flush=True)

    def run_all(
        self, steps: list[Step], seconds: Mapping[str, int]
    ) -> list[Outcome]:
        return run_steps(
            steps, self._lane_count, seconds, self.run, self.report, self.begin
        )


def last_line(log: pathlib.Path) -> str:
    """Returns ctest's summary from a log, or the log's last line."""
    lines = [s for s in log.read_text(errors="replace").splitlines() if s.strip()]
    sums = [line for line in lines if "tests passed" in line]
    return (sums or lines or [""])[-1][:COLUMNS_MAX]


def summary(outcomes: list[Outcome], seconds: float) -> str:
    verdicts = {None: "left out", 0: "ok"}
    lines = [
        f"{verdicts.get(o.status, 'FAILED'):8} {o.seconds:5.0f}s  "
        f"{o.step.name:22} {o.last_line}"
        for o in outcomes
    ]
    ran = [o for o in outcomes if o.status is not None]
    failed = sum(o.status != 0 for o in ran)
    minutes, rest = divmod(int(seconds), 60)
    lines.append(
        f"{failed} of {len(ran)} steps failed, {minutes} min {rest} s in all"
    )
    return "\n".join(lines)


# ----- The command.


def list_steps(table: Table, seconds: Mapping[str, int]) -> str:
    lines = [f"{'step':20} {'s':>5}  {'when':6}  what it checks"]
    for step in table.steps.values():
        known = seconds.get(step.name, "?")
        lines.append(f"{step.name:20} {known:>5}  {step.when:6}  {step.what}")
    every = [s.name for s in table.steps.values() if s.when == "every"]
    needed = [step.name for step in with_needs(table, every)]
    times = [seconds[name] for name in needed if name in seconds]
    lines.append(
        f"on every change: {len(needed)} steps, {sum(times)} s of "
        f"{len(times)} of them, in two lanes"
    )
    return "\n".join(lines)


def dry_run(
    runner: Runner, steps: list[Step], seconds: Mapping[str, int]
) -> str:
    """Returns the commands, in the order in which one lane would run them."""
    lines: list[str] = []
    run_steps(
        steps,
        1,
        seconds,
        lambda step: Outcome(step, 0, 0, ""),
        lambda outcome: None,
        lambda step: lines.append(
            " ".join(
                [f"== {step.name}:"]
                + [f"{k}={v}" for k, v in runner.environment(step).items() if v]
            )
            + "\n"
            + step.run.strip()
        ),
    )
    return "\n".join(lines)


def chosen_names(table: Table, args: argparse.Namespace) -> list[str]:
    """Returns the steps that the arguments ask for, without the steps these
    need."""
    steps = table.steps.values()
    if args.steps:
        names = [name.replace(" ", "-") for name in args.steps]
        for name in names:
            if name not in table.steps:
                raise Wrong(f"no step {name!r}; --list prints them")
        return names
    if args.changed is not None:
        return steps_for(table, changed_files(args.changed))
    if args.quick:
        return [step.name for step in steps if step.is_quick]
    if args.all:
        return [step.name for step in steps if step.when != "needed"]
    return [step.name for step in steps if step.when == "every"]


def parse(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/test",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage=argparse.SUPPRESS,
        add_help=False,
    )
    parser.add_argument("steps", nargs="*", help=argparse.SUPPRESS)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--quick", action="store_true", help=argparse.SUPPRESS)
    which.add_argument(
        "--changed", nargs="?", const="", help=argparse.SUPPRESS
    )
    which.add_argument("--all", action="store_true", help=argparse.SUPPRESS)
    for flag in ("--no-deps", "--ledger", "--list", "--dry-run"):
        parser.add_argument(flag, action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("-h", "--help", action="store_true")
    args = parser.parse_args(words)
    if args.steps and (args.quick or args.changed is not None):
        parser.error("either STEPs or --quick or --changed")
    return args


def main(words: list[str] | None = None) -> int:
    begun = time.monotonic()
    args = parse(words)
    if args.help:
        print(__doc__.strip())
        return 0
    mode = "all" if args.all else "every"
    try:
        table = read_table(TABLE.read_text())
        seconds = read_ledger(LEDGER, mode)
        names = chosen_names(table, args)
    except Wrong as error:
        print(f"scripts/test: {error}", file=sys.stderr)
        return 2
    if args.list:
        print(list_steps(table, seconds))
        return 0
    steps = (
        [s for s in table.steps.values() if s.name in names]
        if args.no_deps
        else with_needs(table, names)
    )
    lane_count = min(os.cpu_count() or 1, 4)
    runner = Runner(table, ROOT, mode, lane_count)
    if args.dry_run:
        print(dry_run(runner, steps, seconds))
        return 0
    outcomes = runner.run_all(steps, seconds)
    print("\n" + summary(outcomes, time.monotonic() - begun))
    if args.ledger:
        write_ledger(LEDGER, mode, table, outcomes)
    return int(any(outcome.status != 0 for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
