"""Operations that remove steps: prunes by every rule, the trash, and returns
from the trash."""

from __future__ import annotations

import os
import random
from typing import Any

from calls import Failure, command
from model import Saved
from operations import Operation, Words, operation, spelled
from play import Plan, Skip, World

import holdfast

BASE_FILE = "its base file"  # the only harm after which the base must be kept


def listed_steps(world: World, root: str) -> list[int]:
    try:
        return sorted(holdfast.steps(world.path(root)))
    except holdfast.errors.HoldfastError:
        return []


def is_orderly(world: World, root: str) -> bool:
    """Whether the model knows everything in the root, and all of it is
    sound."""
    model = world.model
    steps = model.steps(root)
    known = {place for place in model.places if os.path.dirname(place) == root}
    return (
        all(model.is_sound(place) for place in known)
        and len(steps) == len(known)
        and not any(saved.kind == "foreign" for saved in steps.values())
        and not any(os.path.dirname(at) == root for at in model.debris)
    )


def _kept(rules: list[list[Any]], steps: list[int]) -> set[int]:
    kept = set(steps[-1:])
    for rule, number in rules:
        if rule == "--keep-latest":
            kept |= set(steps[-number:]) if number else set()
        elif rule == "--keep-every":
            kept |= {step for step in steps if step % number == 0}
        else:
            kept |= {step for step in steps if step == number}
    return kept


@operation
class Prune(Operation):
    name = "prune"
    weight = 2.5
    can_fail = True

    def draw(self, draw: random.Random, world: World) -> Words | None:
        roots = world.model.roots()
        if not roots:
            return None
        root = draw.choice(roots)
        steps = list(world.model.steps(root))
        rules = [["--keep-latest", draw.choice((1, 1, 1, 2, 3))]]
        if draw.random() < 0.3:
            rules = [["--keep-every", draw.choice((2, 3, 10))]]
        if draw.random() < 0.3:
            rules.append(["--keep-steps", draw.choice(steps)])
        return {
            "op": self.name,
            "root": spelled(draw, world, root),
            "rules": rules,
            "dry": draw.random() < 0.1,
        }

    def plan(self, world: World, words: Words) -> Plan:
        model = world.model
        root = world.meant(words["root"])
        steps = listed_steps(world, root)
        if not steps:
            raise Skip
        kept = _kept(words["rules"], steps)
        may_go = [
            f"{root}/{step}" for step in model.steps(root) if step not in kept
        ]
        call = ["prune", world.spelled(words["root"]), "-q"]
        for rule, number in words["rules"]:
            call += [rule, str(number)]
        if not words["dry"]:
            call.append("--yes")
        guarded = _guarded(world, root)

        def then() -> None:
            for place, bases in guarded.items():
                gone = [base for base in bases if not world.exists(base)]
                if world.exists(place) and gone:
                    text = f"{gone}, which {place} needs, went"
                    subject = "the base of a delta whose base file is damaged"
                    raise Failure("lost", subject, text)

        return Plan(
            what=self.name,
            call=lambda: command(*call),
            may_go=[] if words["dry"] else may_go,
            to_trash=True,
            must=is_orderly(world, root),
            is_partial=True,
            then=then,
            touched=[f"{root}/{step}" for step in steps],
        )


def _guarded(world: World, root: str) -> dict[str, list[str]]:
    """Returns the bases, by delta, of deltas in which only the file that names
    the base is damaged. Their metadata name the base as well."""
    found = {}
    for step, saved in world.model.steps(root).items():
        place = f"{root}/{step}"
        if saved.harm != BASE_FILE:
            continue
        saved.harm = ""
        if world.model.is_sound(place):
            found[place] = [
                f"{root}/{need.at}" for need in saved.needs if need.is_beside
            ]
        saved.harm = BASE_FILE
    return found


@operation
class Undelete(Operation):
    name = "undelete"
    weight = 1.0
    can_fail = True

    def draw(self, draw: random.Random, world: World) -> Words | None:
        roots = [root for root, row in world.model.trash.items() if row]
        if not roots:
            return None
        root = draw.choice(sorted(roots))
        names = [name for name, _ in world.model.trash[root]]
        return {
            "op": self.name,
            "root": spelled(draw, world, root),
            "step": draw.choice(names),
        }

    def plan(self, world: World, words: Words) -> Plan:
        model = world.model
        root, name = world.meant(words["root"]), words["step"]
        row = [pair for pair in model.trash.get(root, []) if pair[0] == name]
        if len(row) != 1 or not name.isdigit():
            raise Skip
        there = world.names(f"{root}/.holdfast_trash")
        if not any(entry.rpartition(".")[0] == name for entry in there):
            model.trash[root].remove(row[0])
            raise Skip
        place, saved = f"{root}/{name}", row[0][1]
        back = _coming_back(world, root, name, saved)

        def has_needs(place: str) -> bool:
            for need in back[place].needs:
                beside = f"{root}/{need.at}"
                returns = (
                    need.is_beside
                    and beside in back
                    and back[beside].version == need.version
                    and has_needs(beside)
                )
                if not returns and not model.has_sound_need(place, need):
                    return False
            return True

        def then() -> None:
            # A step that could be the base, because of its name, returns, too.
            for name, other in model.trash[root]:
                place = f"{root}/{name}"
                if place not in back and place not in model.places:
                    if world.exists(place):
                        back[place] = other
                        model.put(place, other)
            model.trash[root] = [
                pair
                for pair in model.trash[root]
                if back.get(f"{root}/{pair[0]}") is not pair[1]
            ]

        return Plan(
            what=self.name,
            call=lambda: command(
                "prune", world.spelled(words["root"]), "--undelete", name
            ),
            writes={} if world.exists(place) else back,
            must=not saved.harm
            and not world.exists(place)
            and has_needs(place),
            never=world.exists(place),
            then=then,
        )


def _coming_back(
    world: World, root: str, name: str, saved: Saved
) -> dict[str, Saved]:
    """Returns a step that leaves the trash, and the steps that it needs from
    there."""
    back = {f"{root}/{name}": saved}
    waiting = [saved]
    while waiting:
        for need in waiting.pop().needs:
            at = f"{root}/{need.at}"
            if not need.is_beside or at in back or world.exists(at):
                continue
            row = [s for n, s in world.model.trash[root] if n == need.at]
            if row:
                back[at] = row[-1]
                waiting.append(row[-1])
    return back


@operation
class EmptyTrash(Operation):
    name = "empty the trash"
    weight = 0.5
    can_fail = True

    def draw(self, draw: random.Random, world: World) -> Words | None:
        roots = sorted(world.model.trash)
        if not roots:
            return None
        root = spelled(draw, world, draw.choice(roots))
        return {"op": self.name, "root": root}

    def plan(self, world: World, words: Words) -> Plan:
        root = world.meant(words["root"])
        if root not in world.model.trash:
            raise Skip

        def then() -> None:
            world.model.trash.pop(root, None)

        return Plan(
            what=self.name,
            call=lambda: command(
                "prune", world.spelled(words["root"]), "--empty-trash", "--yes"
            ),
            must=is_orderly(world, root) and bool(world.model.steps(root)),
            is_partial=True,
            then=then,
        )
