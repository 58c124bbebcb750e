"""Operations that save: full steps in every layout, deltas whose base is given
in every way, runs with a policy, overwrites."""

from __future__ import annotations

import os
import random
from typing import Any, ClassVar

import doors
from calls import Failure
from model import Need, Saved
from operations import (
    Operation,
    Words,
    chosen,
    is_free,
    new_step,
    operation,
    parent,
    some_root,
    spelled,
)
from play import Plan, Skip, World
from trees import tree

import holdfast

_OURS = (
    "whole",
    "delta",
    "both",
    "view",
    "perhaps a view",
    "delta of a policy",
)
LAYOUTS: tuple[dict[str, Any], ...] = (
    {},
    {},
    {"compression": None},
    {"compression": None},
    {"also": "safetensors"},
    {"compression": "zstd", "zarr_format": 3},
    {"compression": "fast", "chunk_bytes": 500},
    {"ocdbt": False},
    {"background": True},
    {"fingerprints": True},
)


def _needs(world: World, place: str, base: str) -> tuple[Need, ...]:
    version = world.model.places[base].version
    if parent(base) == parent(place):
        return (Need(os.path.basename(base), True, version),)
    return (Need(base, False, version),)


class _Save(Operation):
    can_fail: ClassVar[bool] = True

    def plan(self, world: World, words: Words) -> Plan:
        model = world.model
        place = world.meant(words["at"])
        if not is_free(world, place, words["at"]):
            raise Skip
        old = model.places.get(place)
        layout = dict(words.get("layout", {}))
        overwrite = words.get("overwrite", False)
        saved = Saved(words["value"], model.next_number(), "whole")
        if "also" in layout:
            saved.kind = "both"
        must = True
        arguments: dict[str, Any] = {"durable": False, **layout}
        if words.get("base") is not None:
            must &= self._add_base(world, words, place, saved, arguments)
        elif words.get("anchor_every"):
            saved.kind = "policy"
            every = words["anchor_every"]
            arguments["deltas"] = holdfast.DeltaPolicy(anchor_every=every)
        if overwrite:
            arguments["overwrite"] = True
        if old is not None:
            ours = old.kind in _OURS
            must &= ours and not old.harm and not model.may_be_needed(place)
        if "also" in layout and saved.kind != "both":
            must = False  # a delta cannot have two formats
        if os.path.islink(str(world.spelled(words["at"])).rstrip("/")):
            must = False  # an overwrite does not follow links

        def call() -> None:
            future = holdfast.save(
                world.spelled(words["at"]), tree(words["value"]), **arguments
            )
            if layout.get("background"):
                future.result()

        def then() -> None:
            self._check_at_once(world, place, saved)

        return Plan(
            what=self.name,
            call=call,
            writes={place: saved},
            must=must,
            never=old is not None and not overwrite,
            then=then,
            touched=[other for other, _ in model.dependents(place)],
        )

    def _add_base(
        self,
        world: World,
        words: Words,
        place: str,
        saved: Saved,
        arguments: dict[str, Any],
    ) -> bool:
        """Adds a base to the save; returns whether the save must succeed."""
        model = world.model
        base = world.meant(words["base"])
        if base not in model.places:
            raise Skip
        saved.kind = "delta"
        saved.needs = _needs(world, place, base)
        arguments["base"] = world.spelled(words["base"])
        if words["base"].startswith("number:"):
            if parent(base) != parent(place):
                raise Skip
            arguments["base"] = int(os.path.basename(base))
        sane = model.is_sound(base) and not model.places[base].item
        return sane and not model.is_needed_below(base, place)

    def _check_at_once(self, world: World, place: str, saved: Saved) -> None:
        """Checks that the saved step loads now, whatever the state of its
        base."""
        try:
            wrong = doors.by_load(world.path(place), "", tree(saved.value))
        except holdfast.errors.HoldfastError as error:
            text = f"{place}: {type(error).__name__}: {error}"
            raise Failure("lost", f"just saved: {self.name}", text) from error
        if wrong is not None:
            raise Failure("wrong", f"just saved: {self.name}", wrong)

    def _words(self, draw: random.Random, world: World, place: str) -> Words:
        return {
            "op": self.name,
            "at": spelled(draw, world, place),
            "value": world.model.next_number(),
        }


def _spelled_base(draw: random.Random, world: World, base: str) -> str:
    number = os.path.basename(base)
    if number.isdigit() and draw.random() < 0.3:
        return f"number:{base}"
    return spelled(draw, world, base)


@operation
class Save(_Save):
    name = "save"
    weight = 3.0

    def draw(self, draw: random.Random, world: World) -> Words | None:
        place = new_step(draw, world, some_root(draw, world))
        if draw.random() < 0.1:
            place = f"x{world.model.next_number()}"
        words = self._words(draw, world, place)
        return words | {"layout": draw.choice(LAYOUTS)}


@operation
class SaveDelta(_Save):
    name = "save a delta"
    weight = 4.0

    def draw(self, draw: random.Random, world: World) -> Words | None:
        base = chosen(draw, world)
        if base is None:
            return None
        root = parent(base)
        if not root or draw.random() < 0.15:
            root = some_root(draw, world)
        words = self._words(draw, world, new_step(draw, world, root))
        words["base"] = _spelled_base(draw, world, base)
        if draw.random() < 0.05:
            words["layout"] = {"also": "safetensors"}
        return words


@operation
class SaveByPolicy(_Save):
    name = "save by a policy"
    weight = 4.0

    def draw(self, draw: random.Random, world: World) -> Words | None:
        place = new_step(draw, world, some_root(draw, world))
        words = self._words(draw, world, place)
        return words | {"anchor_every": draw.choice((2, 3, 16))}


@operation
class Overwrite(_Save):
    name = "overwrite"
    weight = 2.0

    def draw(self, draw: random.Random, world: World) -> Words | None:
        place = chosen(draw, world, lambda saved: not saved.item)
        if place is None:
            return None
        words = self._words(draw, world, place) | {"overwrite": True}
        way = draw.random()
        if way < 0.35:
            return words | {"layout": draw.choice(LAYOUTS)}
        if way < 0.65:
            return words | {"anchor_every": draw.choice((3, 16))}
        base = chosen(draw, world)
        assert base is not None
        return words | {"base": _spelled_base(draw, world, base)}


@operation
class SaveWhereOneIs(_Save):
    name = "save where one is"
    weight = 0.3

    def draw(self, draw: random.Random, world: World) -> Words | None:
        place = chosen(draw, world)
        return None if place is None else self._words(draw, world, place)
