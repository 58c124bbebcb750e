"""Every way of reading a checkpoint: WAYS, a table by name.

A way gives all that it has read, as a text (`content`), or raises. Whatever it
writes goes to the subject's scratch directory.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

from checkpoints import Layout
from content import content


@dataclasses.dataclass
class Subject:
    """A damaged (or whole) step of a root, for the ways to read.

    Attributes:
      whole: the same step, undamaged.
      scratch: an empty directory.
      cli, reader: the holdfast command and example_read_checkpoint.
    """

    layout: Layout
    step: Path
    whole: Path
    scratch: Path
    cli: Path
    reader: Path

    @property
    def root(self) -> Path:
        return self.step.parent

    @property
    def path(self) -> Path:
        """The path to open."""
        return self.step / self.layout.entry

    @property
    def whole_path(self) -> Path:
        return self.whole / self.layout.entry

    @property
    def tree_path(self) -> Path:
        """Where the tree is."""
        return self.step / self.layout.item

    @property
    def prefix(self) -> str:
        """The beginning of the names of the tree's leaves."""
        return "state." if self.layout.kind == "items" else ""

    def text(self, value: Any) -> str:
        return content(value, self.root, self.whole.parent, self.scratch)


@dataclasses.dataclass(frozen=True)
class Way:
    """`read` is for layouts that `suits` says."""

    read: Callable[[Subject], str]
    suits: Callable[[Layout], bool]


WAYS: dict[str, Way] = {}


def way(
    name: str, suits: Callable[[Layout], bool] = lambda layout: True
) -> Callable[[Callable[[Subject], Any]], Callable[[Subject], Any]]:
    """Enters a function that gives what it has read."""

    def enter(read: Callable[[Subject], Any]) -> Callable[[Subject], Any]:
        assert name not in WAYS, name
        WAYS[name] = Way(lambda subject: subject.text(read(subject)), suits)
        return read

    return enter


def is_tree(layout: Layout) -> bool:
    return layout.kind == "tree"


def has_text(layout: Layout) -> bool:
    """The tree is the full one."""
    return layout.is_orbax and not layout.lacks_text


def lacks_text(layout: Layout) -> bool:
    return layout.is_orbax and layout.lacks_text


def is_orbax(layout: Layout) -> bool:
    return layout.is_orbax


def is_step(layout: Layout) -> bool:
    """Tells roots of steps apart."""
    return layout.is_orbax or layout.kind == "torch"


def load_ways() -> dict[str, Way]:
    """The whole table, from all of its modules."""
    import ways_cli  # noqa: F401
    import ways_dropin  # noqa: F401
    import ways_dropin_v1  # noqa: F401
    import ways_plain  # noqa: F401

    return WAYS
