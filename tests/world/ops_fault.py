"""Operations with faults: a process killed at one of its changes, a full or
failing disk, concurrent readers, and two concurrent processes."""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import random
from collections.abc import Callable
from typing import Any, ClassVar

from calls import (
    Failure,
    Outcome,
    call_here,
    end_of,
    has_stopped,
    in_child,
    judge_class,
    while_child,
)
from model import Saved
from operations import OPERATIONS, Operation, Words, operation
from play import Plan, Skip, World
from trees import problem, tree

import holdfast

_KILL, _CHANGE, _READ = 1, 2, 3


@functools.cache
def shim() -> ctypes.CDLL | None:
    """Returns the library faults.c if this process was started with it."""
    path = os.environ.get("WORLD_FAULTS", "")
    return ctypes.CDLL(path) if path else None


def _arm(world: World, kind: int, at: int, error: int, stays: bool) -> None:
    library = shim()
    assert library is not None
    below = (world.folder + "/").encode()
    library.world_arm(
        kind, ctypes.c_long(at), error, int(stays), ctypes.c_char_p(below)
    )


def _disarm() -> bool:
    library = shim()
    return library is not None and bool(library.world_disarm())


def inner_words(
    draw: random.Random, world: World, fits: Callable[[Operation], bool]
) -> Words | None:
    """Draws the words of an operation that may be played with a fault."""
    left_out = world.options.get("without", ())
    kinds = [
        kind
        for kind in OPERATIONS.values()
        if kind.can_fail and fits(kind) and kind.name not in left_out
    ]
    weights = [kind.weight for kind in kinds]
    for _ in range(4):
        words = draw.choices(kinds, weights)[0].draw(draw, world)
        if words is not None:
            return words
    return None


class _Fault(Operation):
    """One operation, with a fault at one of its calls."""

    def draw(self, draw: random.Random, world: World) -> Words | None:
        if shim() is None:
            return None
        inner = inner_words(draw, world, lambda _: True)
        if inner is None:
            return None
        at = round(1.09 ** draw.uniform(0, 50))  # 1 to 74
        return {"op": self.name, "inner": inner, "at": at}

    def run(self, world: World, words: Words) -> list[str]:
        if shim() is None:
            raise Skip
        plan = OPERATIONS[words["inner"]["op"]].plan(world, words["inner"])
        plan.must = False
        world.play(
            plan, lambda call: self.meet(world, words, call), has_fault=True
        )
        world.count(self.name, "done")
        return [*plan.writes, *plan.touched]

    def meet(
        self, world: World, words: Words, call: Callable[[], Any]
    ) -> Outcome:
        raise NotImplementedError


@operation
class Kill(_Fault):
    name = "kill"
    weight = 1.5

    def meet(
        self, world: World, words: Words, call: Callable[[], Any]
    ) -> Outcome:
        def armed() -> None:
            _arm(world, _KILL, words["at"], 0, False)
            call()

        pid, pipe = in_child(armed)
        return end_of(pid, pipe, words["inner"]["op"], may_die=True)


class _Failing(_Fault):
    kind: ClassVar[int] = _CHANGE
    error: ClassVar[int] = errno.EIO
    stays: ClassVar[bool] = False

    def meet(
        self, world: World, words: Words, call: Callable[[], Any]
    ) -> Outcome:
        _arm(world, self.kind, words["at"], self.error, self.stays)
        try:
            return call_here(call)
        finally:
            _disarm()


@operation
class NoSpace(_Failing):
    name = "no space"
    weight = 0.8
    error = errno.ENOSPC
    stays = True


@operation
class FailingCall(_Failing):
    name = "a call that fails"
    weight = 0.6


@operation
class FailingRead(_Failing):
    name = "a read that fails"
    weight = 0.6
    kind = _READ


@operation
class ReadersBeside(Operation):
    """A process reads everything during an operation: it must see old or new
    values, and no damage."""

    name = "readers beside"
    weight = 0.5

    def draw(self, draw: random.Random, world: World) -> Words | None:
        inner = inner_words(draw, world, lambda _: True)
        return inner and {"op": self.name, "inner": inner}

    def run(self, world: World, words: Words) -> list[str]:
        plan = OPERATIONS[words["inner"]["op"]].plan(world, words["inner"])
        must = [
            (place, saved)
            for place, saved in world.model.places.items()
            if world.model.is_sound(place)
        ]
        changing = set(plan.writes) | set(plan.may_go)
        # The source of a view may be removed, as documented.
        moved = {
            place
            for place, _ in must
            if any(
                world.model.is_needed_below(place, target)
                for target in changing
            )
        }

        def beside(stop: int) -> None:
            while True:
                last = has_stopped(stop)
                for place, saved in must:
                    if last and (place in changing or place in moved):
                        continue
                    may_differ = place in changing or place in moved
                    new = plan.writes.get(place)
                    _look(world, place, saved, new, may_differ)
                if last:
                    return

        world.play(plan, lambda call: while_child(call, beside))
        world.count(self.name, "done")
        return [*plan.writes, *plan.touched]


def _look(
    world: World, place: str, old: Saved, new: Saved | None, may_differ: bool
) -> None:
    item = {"item": old.item} if old.item else {}
    try:
        got = holdfast.load(world.path(place), **item)
    except holdfast.errors.HoldfastError as error:
        judge_class(error)
        if not may_differ:
            raise Failure(
                "lost", f"{old.kind}, beside", f"{place}: {error}"
            ) from error
        is_view = any(need.is_view for need in old.needs)
        if isinstance(error, holdfast.errors.DataLossError) and not is_view:
            text = f"{place}: {error}"
            raise Failure("false alarm", "beside", text) from error
        return
    wanted = [old.value] + ([new.value] if new else [])
    if all(problem(got, tree(value)) is not None for value in wanted):
        raise Failure("wrong", "beside", f"{place}: neither old nor new")


@operation
class TwoAtOnce(Operation):
    """A second process plays another operation in the same world."""

    name = "two at once"
    weight = 0.8

    def draw(self, draw: random.Random, world: World) -> Words | None:
        first = inner_words(draw, world, _is_save)
        other = inner_words(draw, world, lambda kind: True)
        if first is None or other is None:
            return None
        return {"op": self.name, "inner": first, "other": other}

    def run(self, world: World, words: Words) -> list[str]:
        plans = [
            OPERATIONS[words[key]["op"]].plan(world, words[key])
            for key in ("inner", "other")
        ]
        mine, theirs = plans
        if set(mine.writes) & set(theirs.writes) or "cp of a root" in (
            mine.what,
            theirs.what,
        ):
            raise Skip
        for plan in plans:
            plan.must = plan.never = False
            plan.is_partial = True
            plan.then = None
            if plan.may_go:
                plan.may_go = _all_but_newest(world, plan)
        pid, pipe = in_child(theirs.call)
        outcome = call_here(mine.call)
        other = end_of(pid, pipe, theirs.what, may_die=False)
        # Records the operation that was written first, because its step may
        # need what the other operation removed.
        for plan, ended in ((mine, outcome), (theirs, other)):
            world.play(
                Plan(
                    plan.what,
                    plan.call,
                    plan.writes,
                    must=False,
                    is_partial=True,
                ),
                lambda _, ended=ended: ended,
                has_fault=True,
            )
        for plan in plans:
            world.play(
                Plan(
                    plan.what,
                    plan.call,
                    may_go=plan.may_go,
                    to_trash=plan.to_trash,
                    must=False,
                ),
                lambda _: Outcome("done"),
            )
        world.count(self.name, "done")
        return [*mine.writes, *theirs.writes]


def _is_save(kind: Operation) -> bool:
    return kind.name.startswith("save") or kind.name == "overwrite"


def _all_but_newest(world: World, plan: Plan) -> list[str]:
    root = os.path.dirname(plan.may_go[0])
    steps = set(world.model.steps(root))
    steps |= {
        int(os.path.basename(place))
        for place in plan.writes
        if os.path.dirname(place) == root
    }
    return [f"{root}/{step}" for step in sorted(steps)[:-1]]
