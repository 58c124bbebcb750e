"""Ways to read through the command line, and through a C++ program."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

from checkpoints import NEW, OLD
from ways import Subject, is_step, way
from ways_plain import _load_if_good, everything

import holdfast

TIMEOUT_SECONDS = 120
# The exit code of `verify` for damage, and of `diff` for differences.
NO = 1


class CommandError(Exception):
    """The command answered "no", or failed."""


def run(subject: Subject, *words: Any, allowed: tuple[int, ...] = (0,)) -> Any:
    done = subprocess.run(
        [str(word) for word in words],
        capture_output=True,
        check=False,
        timeout=TIMEOUT_SECONDS,
        cwd=subject.scratch,
    )
    if done.returncode < 0:
        # A crash does not count as an error: return a wrong answer.
        return 0, f"ended by signal {-done.returncode}".encode()
    if done.returncode not in allowed:
        raise CommandError(done.stderr.decode(errors="replace"))
    return done.returncode, done.stdout


def cli(subject: Subject, *words: Any, **options: Any) -> Any:
    return run(subject, subject.cli, *words, **options)


# Matches sizes on the disk, which depend on the damage.
_OF_THE_DISK = re.compile(rb'"(stored_bytes|ratio)": [^,}]*')


def _enter_listings() -> None:
    for verb in ("ls", "tree", "info", "digest", "stats"):

        def read(subject: Subject, verb: str = verb) -> Any:
            told = cli(subject, verb, "--json", subject.path)
            return _OF_THE_DISK.sub(b"", told[1])

        way(f"cli {verb}")(read)


_enter_listings()


def _cat(subject: Subject, *slices: str) -> Any:
    return [
        cli(subject, "cat", "--raw", subject.path, subject.prefix + each)
        for each in slices
    ]


@way("cli cat")
def cat(subject: Subject) -> Any:
    return _cat(subject, "big", "wide")


@way("cli cat, small", lambda layout: layout.is_orbax)
def cat_small(subject: Subject) -> Any:
    return _cat(subject, "small", "low", "a.w", "count", "rate", "key")


@way("cli cat, slices")
def cat_slices(subject: Subject) -> Any:
    return _cat(
        subject, "big[0:200]", "big[200:,:300]", "big[::2]", "wide[1::2, 3:]"
    )


@way("cli cat of the root", is_step)
def cat_root(subject: Subject) -> Any:
    name = subject.prefix + "big"
    return cli(subject, "cat", "--raw", subject.root, name)


@way("cli diff")
def diff(subject: Subject) -> Any:
    """Compares the subject with itself undamaged, by `diff`; exit code 1 means
    differences or an error."""
    code, told = cli(
        subject,
        "diff",
        "--json",
        subject.whole_path,
        subject.path,
        allowed=(0, NO),
    )
    if not told:
        raise CommandError("an error without a result")
    for leaf in json.loads(told)["leaves"]:
        if leaf.get("error"):
            raise CommandError(leaf["error"])
    return code, told


def _judged(subject: Subject, answer: Any) -> Any:
    """Checks that the checkpoint is readable if no damage was reported."""
    try:
        return answer, everything(subject)
    except Exception as error:
        return f"said to be well, but: {error}"


@way("verify")
def verify(subject: Subject) -> Any:
    report = holdfast.verify(subject.path)
    if report.damages:
        raise CommandError(str(report))
    return _judged(subject, "well")


@way("verify of the root", is_step)
def verify_root(subject: Subject) -> Any:
    report = holdfast.verify(subject.root)
    if report.damages:
        raise CommandError(str(report))
    return _judged(subject, "well")


@way("cli verify")
def cli_verify(subject: Subject) -> Any:
    cli(subject, "verify", subject.path)
    return _judged(subject, "well")


@way("cli verify of the root", is_step)
def cli_verify_root(subject: Subject) -> Any:
    _, told = cli(subject, "verify", "--json", subject.root)
    return _judged(subject, json.loads(told)["newest_ok"])


@way("cli steps", is_step)
def steps(subject: Subject) -> Any:
    """Raises if a step is reported as uncommitted or damaged."""
    _, told = cli(subject, "steps", "--json", subject.root)
    found = {each["step"]: each for each in json.loads(told)["steps"]}
    for step in (OLD, NEW):
        if step in found and not found[step]["committed"]:
            raise CommandError(found[step]["why_not"])
        if step in found and found[step]["damage"]:
            raise CommandError(found[step]["damage"])
    return [
        {key: value for key, value in each.items() if key != "bytes"}
        for each in found.values()
    ]


@way("cli du", is_step)
def du(subject: Subject) -> Any:
    """Reports the bytes on the disk, whatever their state."""
    _, told = cli(subject, "du", "--json", subject.root)
    stored = sum(
        path.stat().st_size
        for path in subject.root.rglob("*")
        if path.is_file()
    )
    return json.loads(told)["total_bytes"] == stored


@way("cli cp")
def cp(subject: Subject) -> Any:
    """Copies the step. For files without checksums, cp promises only an exact
    copy."""
    made = subject.scratch / "copied"
    cli(subject, "cp", subject.step, made)
    if not subject.layout.covered:
        return _bytes_below(made) == _bytes_below(subject.step)
    return _load_if_good(made / subject.layout.entry)


def _bytes_below(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


@way("cli convert")
def convert(subject: Subject) -> Any:
    made = subject.scratch / "converted"
    cli(subject, "convert", "--to", "orbax", subject.path, made)
    return _load_if_good(made)


@way("cli reshard", lambda layout: layout.is_orbax)
def reshard(subject: Subject) -> Any:
    made = subject.scratch / "resharded"
    cli(subject, "reshard", "--mesh", "x=4", subject.path, made)
    return _load_if_good(made)


@way("cli merge")
def merge(subject: Subject) -> Any:
    made = subject.scratch / "merged"
    cli(
        subject,
        "merge",
        "--prefix=x,y",
        "--to=orbax",
        subject.path,
        subject.whole_path,
        made,
    )
    return _load_if_good(made)


@way("example_read_checkpoint")
def example(subject: Subject) -> Any:
    name = subject.prefix + "wide"
    return run(subject, subject.reader, subject.path, name)
