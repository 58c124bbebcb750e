"""A world on a disk, in which operations are played. After each operation,
everything that the model promises is opened.

An operation plans a call (`Plan`): the request to holdfast, the checkpoints
that exist when it is done, and those that may be removed. The outcome of the
call decides which of these the model records. After a kill, the disk is read:
each place must have its old or its new checkpoint.
"""

from __future__ import annotations

import dataclasses
import json
import os
import random
from collections.abc import Callable
from typing import Any

import doors
from calls import (
    Failure,
    Outcome,
    call_here,
    is_damage,
    judge_class,
)
from model import Model, Need, Saved
from trees import problem_of_part, tree

import holdfast


class Skip(Exception):
    """The operation is impossible in this world."""


@dataclasses.dataclass
class Plan:
    """A planned call of holdfast.

    Attributes:
        what: the operation, for messages and counts.
        call: makes the call.
        writes: the checkpoint at each place when the call is done.
        may_go: places that the call may remove.
        to_trash: whether removed places go to the trash.
        must: whether a refusal is a failure.
        never: whether success is a failure.
        is_partial: whether a refused call may have been done in part.
        touched: places that are checked more closely.
        then: checks the result, and updates further records.
    """

    what: str
    call: Callable[[], Any]
    writes: dict[str, Saved] = dataclasses.field(default_factory=dict)
    may_go: list[str] = dataclasses.field(default_factory=list)
    to_trash: bool = False
    must: bool = True
    never: bool = False
    is_partial: bool = False
    touched: list[str] = dataclasses.field(default_factory=list)
    then: Callable[[], None] | None = None


def _lasting(names: set[str]) -> set[str]:
    """Returns the names without the trash and the remains of killed copies,
    which the next copy to the same place removes."""
    return {
        name
        for name in names
        if name != ".holdfast_trash" and not name.endswith("-copy-tmp")
    }


class World:
    """A folder, its model, and counts of the operations in it."""

    def __init__(self, folder: str, options: dict[str, Any]) -> None:
        self.folder = os.path.realpath(folder)
        self.options = options
        self.model = Model()
        self.followers: dict[str, Any] = {}
        self.tiers: dict[str, Any] = {}
        self.counts: dict[str, list[int]] = {}
        self._inodes: dict[str, int] = {}
        self.broken_door = options.get("broken_door", "")
        os.makedirs(self.folder, exist_ok=True)
        os.chdir(self.folder)

    def path(self, place: str) -> str:
        return f"{self.folder}/{place}"

    def spelled(self, text: str) -> str:
        """Returns the path that "STYLE:PLACE" stands for."""
        style, _, place = text.partition(":")
        if style == "relative":
            return place
        if style == "slash":
            return self.path(place) + "/"
        if style == "dots" and "/" in place:
            head, _, tail = place.partition("/")
            return f"{self.folder}/{head}/../{head}/./{tail}"
        return self.path(place)

    def meant(self, text: str) -> str:
        """Returns the place that "STYLE:PLACE" leads to."""
        return self.model.resolve(text.partition(":")[2])

    def exists(self, place: str) -> bool:
        return os.path.lexists(self.path(place))

    def names(self, root: str) -> set[str]:
        try:
            return set(os.listdir(self.path(root)))
        except (FileNotFoundError, NotADirectoryError):
            return set()

    # Playing.

    def play(
        self,
        plan: Plan,
        how: Callable[[Callable[[], Any]], Outcome] = call_here,
        *,
        has_fault: bool = False,
    ) -> Outcome:
        """Makes the call and updates the model; raises Failures."""
        roots = {os.path.dirname(place) for place in plan.writes}
        roots |= {os.path.dirname(place) for place in plan.may_go}
        before = {root: self.names(root) for root in roots}
        self._inodes = {place: self._inode(place) for place in plan.writes}
        outcome = how(plan.call)
        self.count(plan.what, outcome.kind)
        if outcome.kind == "done":
            if plan.never:
                raise Failure("unasked", plan.what, "it should be refused")
            self._take_over(plan)
        elif outcome.kind == "refused":
            self._check_refusal(plan, outcome, before, has_fault)
        if outcome.kind == "killed" or (
            outcome.kind == "refused" and (plan.is_partial or has_fault)
        ):
            self._ask_disk(plan)
        return outcome

    def count(self, what: str, kind: str) -> None:
        row = self.counts.setdefault(what, [0, 0, 0])
        row[("done", "refused", "killed").index(kind)] += 1

    def _take_over(self, plan: Plan) -> None:
        for place, saved in plan.writes.items():
            self._put(place, saved)
        self._take_gone(plan)
        if plan.then is not None:
            plan.then()

    def _put(self, place: str, saved: Saved) -> None:
        if saved.kind == "policy":
            self._learn_base(place, saved)
        self.model.put(place, saved)

    def _learn_base(self, place: str, saved: Saved) -> None:
        """Reads from a checkpoint which base its save's policy has chosen."""
        saved.kind = "managed" if saved.item else "whole"
        path = self.path(place)
        try:
            with holdfast.open(path, item=saved.item or None) as checkpoint:
                bases = checkpoint.bases
        except holdfast.errors.HoldfastError:
            return  # the doors will report it
        if not bases:
            return
        saved.kind = "delta of a policy"
        base = os.path.realpath(bases[0])
        above, name = os.path.split(base)
        if not base.startswith(self.folder + "/"):
            return
        at = base[len(self.folder) + 1 :]
        known = self.model.places.get(at)
        if known is None or at == place:
            return  # not in the model; the step must load anyway
        beside = above == os.path.dirname(path)
        need = Need(name if beside else at, beside, known.version)
        saved.needs = (need,)

    def _take_gone(self, plan: Plan) -> None:
        gone = [
            place
            for place in plan.may_go
            if place in self.model.places and not self.exists(place)
        ]
        self.model.take(gone, to_trash=plan.to_trash)

    def _check_refusal(
        self,
        plan: Plan,
        outcome: Outcome,
        before: dict[str, set[str]],
        has_fault: bool,
    ) -> None:
        if has_fault:
            return
        if plan.must and not plan.never:
            kind = "false alarm" if is_damage(outcome) else "refused"
            text = f"{outcome.error_class}: {outcome.error}"
            raise Failure(kind, plan.what, text)
        if is_damage(outcome) and self._is_unharmed():
            raise Failure("false alarm", plan.what, outcome.error)
        if plan.is_partial:
            return
        for root, names in before.items():
            now = self.names(root)
            if _lasting(now) != _lasting(names):
                raise Failure(
                    "changed by a refusal",
                    plan.what,
                    f"{root} has {sorted(now)}, had {sorted(names)};"
                    f" {outcome.error}",
                )

    def _is_unharmed(self) -> bool:
        """Whether nothing in the world may be reported as damage."""
        places = self.model.places
        return not self.model.debris and not any(
            saved.harm or saved.kind in ("view", "perhaps a view")
            for saved in places.values()
        )

    def _ask_disk(self, plan: Plan) -> None:
        """Updates the model from the disk after a call that may have been done
        in part."""
        for place, new in plan.writes.items():
            self._ask_place(plan, place, new)
        self._take_gone(plan)

    def _ask_place(self, plan: Plan, place: str, new: Saved) -> None:
        old = self.model.places.get(place)
        was_sound = old is not None and self.model.is_sound(place)
        try:
            got = self._load(place, new)
        except Exception as error:  # judged by its class
            judge_class(error)
            if was_sound:
                raise Failure(
                    "lost", f"{plan.what} cut off", f"{place}: {error}"
                ) from error
            is_base_damaged = any(
                self.model.has_need(place, need)
                and not self.model.has_sound_need(place, need)
                for need in new.needs
            )
            if (new.harm or is_base_damaged) and self.exists(place):
                # It arrived damaged, like its source, or its base is damaged.
                self._put(place, new)
                return
            listed = self._listed(os.path.dirname(place))
            if old is None and os.path.basename(place) in listed:
                raise Failure(
                    "half a step", f"{plan.what} cut off", f"{place}: {error}"
                ) from error
            if old is not None:
                self.model.harm(place, "an operation that was cut off")
            elif self.exists(place):
                self.model.debris.add(place)
            return
        same = old is not None and old.value == new.value
        if same and self._inode(place) == self._inodes[place]:
            return  # the checkpoint was not rewritten
        if problem_of_part(got, tree(new.value)) is None:
            self._put(place, new)
            if same:
                self.excuse_views(place)
        elif old is None or problem_of_part(got, tree(old.value)) is not None:
            raise Failure(
                "wrong", f"{plan.what} cut off", f"{place}: neither old nor new"
            )

    def _inode(self, place: str) -> int:
        try:
            return os.stat(self.path(place)).st_ino
        except FileNotFoundError:
            return 0

    def excuse_views(self, place: str) -> None:
        """Records that `place` has new files, so its views need not load."""
        for other, need in self.model.dependents(place):
            if need.is_view:
                self.model.harm(other, "a view whose source was made anew")

    def _load(self, place: str, saved: Saved) -> Any:
        item = {"item": saved.item} if saved.item else {}
        return holdfast.load(self.path(place), **item)

    def _listed(self, root: str) -> set[str]:
        try:
            return {str(step) for step in holdfast.steps(self.path(root))}
        except holdfast.errors.NotFoundError:
            return set()

    # Checking.

    def check(self, seed: str, touched: list[str]) -> None:
        """Opens every checkpoint of the model, and the touched ones by more
        doors."""
        draw = random.Random(seed)
        places = sorted(self.model.places)
        for place in places:
            self.check_door(place, "load", doors.by_load)
        near = [place for place in touched if place in self.model.places]
        chosen = near + draw.sample(places, min(2, len(places)))
        for place in dict.fromkeys(chosen):
            name = draw.choice(sorted(doors.CHEAP))
            self.check_door(place, name, doors.CHEAP[name])
        if places and self.options.get("jax") and draw.random() < 0.1:
            name = draw.choice(sorted(doors.DROPIN))
            self.check_door(draw.choice(places), name, doors.DROPIN[name])
        if places and self.options.get("stock") and draw.random() < 0.02:
            self._check_stock(draw.choice(places))
        for root in self.model.roots():
            self._check_root(root)
            if draw.random() < 0.3:
                self._check_newest(root)

    def check_all(self) -> None:
        """Opens everything by every cheap door, at the end of a world."""
        for place in sorted(self.model.places):
            for name, door in doors.CHEAP.items():
                self.check_door(place, name, door)

    def _check_stock(self, place: str) -> None:
        saved = self.model.places[place]
        if saved.harm:
            return  # stock Orbax has no checksums
        if saved.kind in ("whole", "managed", "stock", "both"):
            self.check_door(place, "stock Orbax", doors.by_stock)

    def check_door(self, place: str, name: str, door: doors.Door) -> None:
        saved = self.model.places[place]
        if name in doors.DROPIN and saved.kind in ("foreign", "whole, of v1"):
            return
        want = tree(saved.value)
        sound = self.model.is_sound(place)
        try:
            wrong = door(self.path(place), saved.item, want)
            if self.broken_door == name and wrong is None:
                wrong = "the door is broken, on purpose"
        except Exception as error:  # judged by its class
            judge_class(error)
            if sound:
                text = f"{place} by {name}: {type(error).__name__}: {error}"
                raise Failure("lost", saved.kind, text) from error
            alarm = isinstance(error, holdfast.errors.DataLossError)
            if name == "load" and alarm and self._is_unharmed():
                text = f"{place}: {error}"
                raise Failure("false alarm", saved.kind, text) from error
            return
        is_stranger = not saved.is_checked and not sound
        if wrong is not None and not is_stranger:
            raise Failure("wrong", saved.kind, f"{place} by {name}: {wrong}")

    def _check_root(self, root: str) -> None:
        """Checks the list of steps, and the step that the root's path opens."""
        steps = self.model.steps(root)
        sound = {n for n in steps if self.model.is_sound(f"{root}/{n}")}
        try:
            listed = set(holdfast.steps(self.path(root)))
        except holdfast.errors.NotFoundError:
            listed = set()
        except Exception as error:  # judged by its class
            judge_class(error)
            raise Failure("lost", "the list of steps", str(error)) from error
        debris = {
            int(os.path.basename(place))
            for place in self.model.debris
            if os.path.dirname(place) == root
            and os.path.basename(place).isdigit()
        }
        named = {n for n in steps if steps[n].kind != "foreign"}
        if not (sound & named) <= listed <= (set(steps) | debris):
            raise Failure(
                "steps",
                "the list of steps",
                f"{root}: {sorted(listed)} are listed, {sorted(sound)} must"
                f" be, {sorted(steps)} are there",
            )

    def _check_newest(self, root: str) -> None:
        """Checks that the root's path opens its newest step."""
        steps = self.model.steps(root)
        known = {p for p in self.model.places if os.path.dirname(p) == root}
        alike = all(saved.kind != "foreign" for saved in steps.values())
        if len(known) != len(steps) or not alike or self.model.debris:
            return  # a stranger's files may count as the root's
        if not all(self.model.is_sound(place) for place in known):
            return
        saved = list(steps.values())[-1]
        try:
            wrong = doors.by_load(
                self.path(root), saved.item, tree(saved.value)
            )
        except Exception as error:  # judged by its class
            judge_class(error)
            text = f"{root}: {type(error).__name__}: {error}"
            raise Failure("lost", "the newest step", text) from error
        if wrong is not None:
            raise Failure("wrong", "the newest step", f"{root}: {wrong}")

    def dump(self) -> str:
        """Returns the model as text, for reports."""
        rows = {
            place: {
                "kind": saved.kind,
                "value": saved.value,
                "needs": [need.at for need in saved.needs],
                "harm": saved.harm,
                "sound": self.model.is_sound(place),
            }
            for place, saved in sorted(self.model.places.items())
        }
        return json.dumps(rows, indent=1)
