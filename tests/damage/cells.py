"""Computes the cells of one layout's matrix. A cell is a wound, a way of
reading, and the outcome, which is one of

right      the values that were saved
error      an error
uncovered  wrong values from files without checksums, for which the format's own
           tools give wrong values as well; `verify` reports no checksums
wrong      anything else
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import random
import shutil
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import yardstick
from checkpoints import LAYOUTS, NEW, OLD, numbers
from content import sha1_of
from damages import DAMAGES, Scene, Wound, copy_of
from ways import Subject, Way, load_ways

import holdfast

OUTCOMES = ("right", "error", "uncovered", "wrong")


@dataclasses.dataclass(frozen=True)
class Cell:
    layout: str
    damage: str
    way: str
    role: str
    outcome: str
    text: str  # the damage, and its effect


@dataclasses.dataclass(frozen=True)
class Job:
    """A layout, and which of its cells to try.

    Attributes:
      index: the layout's index, which shifts the pairing of damages and ways.
      pairs: the (damage, way) pairs to try; None tries each way, with the
        damages in turn.
      chunks_max: the number of chunk wounds to try per damage in `full`.
      trials: how often each way is tried, with the next damage each time.
    """

    layout: str
    index: int
    seed: int
    full: bool
    chunks_max: int
    cli: Path
    reader: Path
    trials: int = 1
    pairs: tuple[tuple[str, str], ...] | None = None


@dataclasses.dataclass
class Answer:
    """The answer of a worker to a Job."""

    layout: str
    cells: list[Cell]
    problems: list[str]  # with the undamaged checkpoint
    damages: list[str]  # that apply to this layout
    ways: list[str]
    seconds: float


def run(job: Job) -> Answer:
    """Runs a job in a worker process, which may have run others before."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory(
        prefix="holdfast-damage-", dir=_scratch_root()
    ) as scratch:
        with _quiet():
            answer = _LayoutRun(job, Path(scratch)).run()
    answer.seconds = time.monotonic() - start
    return answer


def _scratch_root() -> str | None:
    memory = "/dev/shm"
    if os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 1 << 30:
        return memory
    return None


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Drops the output of other libraries' threads, which fail on purpose."""
    sys.stderr.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


class _LayoutRun:
    def __init__(self, job: Job, scratch: Path) -> None:
        self.job = job
        self.layout = LAYOUTS[job.layout]
        self.scratch = scratch
        self.root = scratch / "whole"
        self.ways = {
            name: each
            for name, each in load_ways().items()
            if each.suits(self.layout)
        }
        self.wanted: dict[str, str] = {}
        self.problems: list[str] = []
        self.count = 0

    def run(self) -> Answer:
        self.root.mkdir()
        self.layout.save(self.root / str(OLD), OLD)
        self.layout.save(self.root / str(NEW), NEW)
        self._check_whole()
        wounds = self._wounds()
        cells = [
            self._cell(damage, wound, way)
            for damage, wound, way in self._chosen(wounds)
        ]
        return Answer(
            self.job.layout,
            [cell for cell in cells if cell is not None],
            self.problems,
            list(wounds),
            list(self.ways),
            0.0,
        )

    def _check_whole(self) -> None:
        """Checks that the undamaged checkpoint has the saved values."""
        if "load" not in self.ways:
            return
        text = self._wanted("load") or ""
        for name in ("big", "wide"):
            if sha1_of(numbers(NEW)[name]) not in text:
                self.problems.append(f"{self.job.layout}: {name} is another")

    def _draw(self, *names: str) -> random.Random:
        text = " ".join([str(self.job.seed), self.job.layout, *names])
        return random.Random(zlib.crc32(text.encode()))

    def _wounds(self) -> dict[str, list[Wound]]:
        """Returns {damage: wounds}, without damages that have no wounds."""
        found = {}
        for name, damage in DAMAGES.items():
            scene = Scene(
                self.root / str(NEW), self.root / str(OLD), self._draw(name)
            )
            wounds = list(damage(scene))
            if wounds:
                found[name] = wounds
        return found

    def _chosen(
        self, wounds: dict[str, list[Wound]]
    ) -> Iterator[tuple[str, Wound, str]]:
        if self.job.full:
            for damage, every in wounds.items():
                for wound in self._spread(damage, every):
                    for way in self.ways:
                        yield damage, wound, way
            return
        for trial in range(self.job.trials):
            for damage, way in self._pairs(list(wounds), trial):
                wound = self._one(wounds[damage], damage, way, trial)
                yield damage, wound, way

    def _pairs(
        self, damages: list[str], trial: int
    ) -> Iterator[tuple[str, str]]:
        if self.job.pairs is not None:
            yield from (pair for pair in self.job.pairs if pair[0] in damages)
            return
        for i, way in enumerate(self.ways):
            yield damages[(i + self.job.index + trial) % len(damages)], way

    def _spread(self, damage: str, wounds: list[Wound]) -> list[Wound]:
        """Chooses one wound for each role, and several for chunks."""
        draw = self._draw(damage, "spread")
        shuffled = draw.sample(wounds, len(wounds))
        chosen, counts = [], {}
        for wound in shuffled:
            counts[wound.role] = counts.get(wound.role, 0) + 1
            allowed = self.job.chunks_max if wound.role == "chunk" else 1
            if counts[wound.role] <= allowed:
                chosen.append(wound)
        return chosen

    def _one(
        self, wounds: list[Wound], damage: str, way: str, trial: int
    ) -> Wound:
        """Chooses a wound, half of the time one in a chunk, otherwise one in
        any role with equal probability."""
        draw = self._draw(damage, way, str(trial))
        roles = sorted({wound.role for wound in wounds})
        role = draw.choice(roles)
        if "chunk" in roles and draw.random() < 0.5:
            role = "chunk"
        return draw.choice([each for each in wounds if each.role == role])

    def _cell(self, damage: str, wound: Wound, way: str) -> Cell | None:
        wanted = self._wanted(way)
        if wanted is None:
            return None
        self.count += 1
        root = self.scratch / f"damaged{self.count}"
        root.mkdir()
        try:
            copy_of(self.root / str(OLD), root / str(OLD))
            copy_of(self.root / str(NEW), root / str(NEW))
            wound.deal(root / str(NEW))
            subject = self._subject(root / str(NEW))
            outcome, detail = self._judge(subject, self.ways[way], wanted)
        finally:
            shutil.rmtree(root)
        return Cell(
            self.job.layout,
            damage,
            way,
            wound.role,
            outcome,
            f"{wound.text}: {detail}",
        )

    def _wanted(self, way: str) -> str | None:
        """Returns the text read from the undamaged checkpoint, or None if it
        cannot be read."""
        if way not in self.wanted:
            self.wanted[way] = ""
            whole = self._subject(self.root / str(NEW))
            try:
                self.wanted[way] = self.ways[way].read(whole)
            except Exception as error:
                self.problems.append(
                    f"{self.job.layout}: {way}: undamaged: "
                    f"{type(error).__name__}: {error}"
                )
            finally:
                shutil.rmtree(whole.scratch)
        return self.wanted[way] or None

    def _subject(self, step: Path) -> Subject:
        made = Path(tempfile.mkdtemp(prefix="out-", dir=self.scratch))
        return Subject(
            self.layout,
            step,
            self.root / str(NEW),
            made,
            self.job.cli,
            self.job.reader,
        )

    def _judge(
        self, subject: Subject, way: Way, wanted: str
    ) -> tuple[str, str]:
        try:
            found = way.read(subject)
        except Exception as error:
            return "error", f"{type(error).__name__}: {error}"
        finally:
            shutil.rmtree(subject.scratch)
        if found == wanted:
            return "right", ""
        detail = _difference(wanted, found)
        if self.layout.covered:
            return "wrong", detail
        whole = dataclasses.replace(subject, step=self.root / str(NEW))
        if not yardstick.is_wrong(subject, whole):
            return "wrong", f"{detail}; its own tools are not wrong"
        if not _says_what_nothing_covers(subject):
            return "wrong", f"{detail}; verify says nothing"
        return "uncovered", detail


def _says_what_nothing_covers(subject: Subject) -> bool:
    try:
        report = holdfast.verify(subject.path)
    except Exception:
        return True
    return bool(report.damages) or any(
        "checksum" in note for note in report.notes
    )


def _difference(wanted: str, found: str) -> str:
    """Returns the place where two strings begin to differ."""
    pairs = zip(wanted, found, strict=False)
    place = next(
        (i for i, (a, b) in enumerate(pairs) if a != b),
        min(len(wanted), len(found)),
    )
    first = max(0, place - 40)
    return (
        f"got ...{found[first : place + 60]!r}, "
        f"want ...{wanted[first : place + 60]!r}"
    )
