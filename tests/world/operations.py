"""The operations of the game, and how their words are drawn.

The words of an operation are a JSON object: its name as "op", names of places,
numbers, options. An operation is skipped if the world lacks what the words
name, so any operation of a list may be left out.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any, ClassVar

from model import Saved
from play import Plan, World

Words = dict[str, Any]
STYLES = ("absolute", "absolute", "absolute", "relative", "slash", "dots")


class Operation:
    """One kind of operation.

    Attributes:
        name: the value of "op".
        weight: how often it is drawn.
        can_fail: whether it may be played with faults or beside a second
            process.
    """

    name: ClassVar[str] = ""
    weight: ClassVar[float] = 1.0
    can_fail: ClassVar[bool] = False

    def draw(self, draw: random.Random, world: World) -> Words | None:
        """Draws the words for this world; returns None if the operation is
        impossible here."""
        raise NotImplementedError

    def plan(self, world: World, words: Words) -> Plan:
        """Returns the planned call; raises Skip if it is impossible."""
        raise NotImplementedError

    def run(self, world: World, words: Words) -> list[str]:
        """Plays the operation; returns the places that it touched. Raises Skip
        and Failure."""
        plan = self.plan(world, words)
        world.play(plan)
        return [*plan.writes, *plan.touched]


OPERATIONS: dict[str, Operation] = {}


def operation(kind: type[Operation]) -> type[Operation]:
    """Registers a class as an operation."""
    OPERATIONS[kind.name] = kind()
    return kind


# Drawing.


def chosen(
    draw: random.Random,
    world: World,
    fits: Callable[[Saved], bool] = lambda _: True,
    *,
    sound: bool | None = None,
) -> str | None:
    """Chooses a checkpoint of the world; mostly one that must load."""
    places = [
        place
        for place, saved in sorted(world.model.places.items())
        if fits(saved) and (not sound or world.model.is_sound(place))
    ]
    whole = [place for place in places if world.model.is_sound(place)]
    if whole and draw.random() < 0.9:
        places = whole
    return draw.choice(places) if places else None


def spelled(draw: random.Random, world: World, place: str) -> str:
    """Spells a place in one of several ways: by links, relative, with dots."""
    ways = [place]
    for link, target in world.model.links.items():
        if place == target or place.startswith(target + "/"):
            ways.append(link + place[len(target) :])
    return f"{draw.choice(STYLES)}:{draw.choice(ways)}"


def new_step(draw: random.Random, world: World, root: str) -> str:
    """Chooses a place for a step: mostly the next number, sometimes a number
    that was left out."""
    steps = world.model.steps(root)
    highest = max(steps, default=0)
    step = highest + draw.choice((1, 1, 1, 2, 10))
    if draw.random() < 0.15:
        step = draw.randrange(highest + 1)
    return f"{root}/{step}"


def some_root(draw: random.Random, world: World) -> str:
    """Chooses a root: one that has steps, or a new one."""
    roots = [r for r in world.model.roots() if r not in ("M", "V")]
    if roots and draw.random() < 0.85:
        return draw.choice(roots)
    return draw.choice(("A", "A", "A", "B"))


def new_place(draw: random.Random, world: World) -> str:
    """Chooses a place for a copy, in a root or outside."""
    if draw.random() < 0.5:
        return new_step(draw, world, some_root(draw, world))
    return f"x{world.model.next_number()}"


def is_free(world: World, place: str, text: str = "") -> bool:
    """Whether the game may save at the place: no files that the model does not
    know, no checkpoint above or below it, and, if `text` leads to it through
    links, an existing folder."""
    above = os.path.dirname(world.path(place))
    if text.partition(":")[2] not in ("", place) and not os.path.isdir(above):
        return False
    return (
        place in world.model.places
        or place in world.model.debris
        or not world.exists(place)
    ) and not any(
        place.startswith(other + "/") or other.startswith(place + "/")
        for other in world.model.places
    )


def parent(place: str) -> str:
    return os.path.dirname(place)
