"""Defines WAYS, a table of every way to read a checkpoint, by name.

A way returns everything it has read as a string (see `content`), or raises. It
writes only to the subject's scratch directory.
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
    """A damaged or intact step of a root, which the ways read.

    Attributes:
      whole: the same step without damage.
      scratch: an empty directory.
      cli, reader: the holdfast command, and the program
        example_read_checkpoint.
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
        """Returns the path to open."""
        return self.step / self.layout.entry

    @property
    def whole_path(self) -> Path:
        return self.whole / self.layout.entry

    @property
    def tree_path(self) -> Path:
        """Returns the path of the tree."""
        return self.step / self.layout.item

    @property
    def prefix(self) -> str:
        """Returns the prefix of the names of the tree's leaves."""
        return "state." if self.layout.kind == "items" else ""

    def text(self, value: Any) -> str:
        return content(value, self.root, self.whole.parent, self.scratch)


@dataclasses.dataclass(frozen=True)
class Way:
    """A way to read; `read` supports the layouts that `suits` accepts."""

    read: Callable[[Subject], str]
    suits: Callable[[Layout], bool]


WAYS: dict[str, Way] = {}


def way(
    name: str, suits: Callable[[Layout], bool] = lambda layout: True
) -> Callable[[Callable[[Subject], Any]], Callable[[Subject], Any]]:
    """Returns a decorator that registers a function as the way `name`.

    The function returns what it has read.
    """

    def enter(read: Callable[[Subject], Any]) -> Callable[[Subject], Any]:
        assert name not in WAYS, name
        WAYS[name] = Way(lambda subject: subject.text(read(subject)), suits)
        return read

    return enter


def is_tree(layout: Layout) -> bool:
    return layout.kind == "tree"


def has_text(layout: Layout) -> bool:
    """Whether the layout's tree is an Orbax tree with strings."""
    return layout.is_orbax and not layout.lacks_text


def lacks_text(layout: Layout) -> bool:
    return layout.is_orbax and layout.lacks_text


def is_orbax(layout: Layout) -> bool:
    return layout.is_orbax


def is_step(layout: Layout) -> bool:
    """Whether the layout can be a step of a root."""
    return layout.is_orbax or layout.kind == "torch"


def load_ways() -> dict[str, Way]:
    """Loads all modules of ways; returns the complete table."""
    import ways_cli  # noqa: F401
    import ways_dropin  # noqa: F401
    import ways_dropin_v1  # noqa: F401
    import ways_plain  # noqa: F401

    return WAYS
