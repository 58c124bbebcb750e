"""Operations that make one checkpoint from another: views, materializations,
conversions, copies, rescues."""

from __future__ import annotations

import dataclasses
import os
import random
import shutil
from typing import Any, ClassVar

from calls import Failure, command
from model import Need, Saved
from operations import (
    Operation,
    Words,
    chosen,
    is_free,
    new_place,
    operation,
    parent,
    spelled,
)
from play import Plan, Skip, World
from trees import problem_of_part, tree

import holdfast

_PLAIN = (
    "whole",
    "both",
    "delta",
    "view",
    "perhaps a view",
    "whole, of v1",
    "delta of a policy",
)


class _Copy(Operation):
    """An operation from "source" to "target"."""

    can_fail: ClassVar[bool] = True

    def ends(self, world: World, words: Words) -> tuple[str, str]:
        source = world.meant(words["source"])
        target = world.meant(words["target"])
        if source not in world.model.places:
            raise Skip
        if not is_free(world, target, words["target"]):
            raise Skip
        if target in world.model.places:
            raise Skip
        if os.path.islink(world.spelled(words["target"]).rstrip("/")):
            raise Skip  # holdfast writes nothing through a dangling link
        return source, target

    def _words(self, draw: random.Random, world: World, source: str) -> Words:
        return {
            "op": self.name,
            "source": spelled(draw, world, source),
            "target": spelled(draw, world, new_place(draw, world)),
        }


@operation
class View(_Copy):
    name = "view"
    weight = 2.0

    def draw(self, draw: random.Random, world: World) -> Words | None:
        source = chosen(draw, world, lambda saved: not saved.item)
        if source is None:
            return None
        links = ("symlink", "symlink", "symlink", "hard", "copy")
        return self._words(draw, world, source) | {
            "link": draw.choice(links),
            "checksums": draw.random() < 0.4,
        }

    def plan(self, world: World, words: Words) -> Plan:
        source, target = self.ends(world, words)
        model = world.model
        old = model.places[source]
        # A view copies tensors that it cannot refer to, so it may end up
        # without references.
        saved = Saved(old.value, model.next_number(), "perhaps a view")
        saved.is_checked = old.is_checked
        if words["link"] != "symlink":
            saved.harm = old.harm  # the copy or hard link is damaged, too
        if words["link"] == "symlink":
            beside = parent(source) == parent(target)
            at = os.path.basename(source) if beside else source
            saved.needs = (Need(at, beside, old.version, is_view=True),)
        elif words["link"] == "hard":
            if old.needs:
                raise Skip
            old.kin = saved.kin = old.kin or model.next_number()

        counts: list[int] = []

        def call() -> None:
            result = holdfast.view(
                world.spelled(words["source"]),
                world.spelled(words["target"]),
                link=words["link"],
                checksums=words.get("checksums", False),
                durable=False,
            )
            counts.append(result.referred_leaf_count)

        def then() -> None:
            if counts == [0]:
                saved.kind, saved.needs = "whole", ()
            elif counts and saved.needs:
                saved.kind = "view"

        return Plan(
            what=self.name,
            call=call,
            writes={target: saved},
            must=model.is_sound(source) and old.kind in _PLAIN,
            then=then,
            touched=[source],
        )


@operation
class Materialize(_Copy):
    name = "materialize"

    def draw(self, draw: random.Random, world: World) -> Words | None:
        source = chosen(draw, world, lambda saved: bool(saved.needs))
        if source is None:
            return None
        words = self._words(draw, world, source)
        if draw.random() < 0.6:
            words["target"] = ""
        return words

    def plan(self, world: World, words: Words) -> Plan:
        model = world.model
        if words["target"]:
            source, target = self.ends(world, words)
        else:
            source = target = world.meant(words["source"])
        old = model.places.get(source)
        if old is None or not old.needs:
            raise Skip
        saved = dataclasses.replace(old, kind="whole", needs=(), kin=0)
        if old.item:
            saved.kind = "managed"
        if target != source:
            saved.version = model.next_number()

        def call() -> None:
            to = world.spelled(words["target"]) if words["target"] else None
            holdfast.materialize(
                world.spelled(words["source"]), to, durable=False
            )

        def then() -> None:
            if target == source:
                world.excuse_views(source)

        must = model.is_sound(source) and old.kind != "perhaps a view"
        is_view = any(need.is_view for need in old.needs)
        if target == source and is_view and model.may_be_needed(source):
            must = False  # other checkpoints recognize a view by its files
        if target == source and any(
            model.places[other].harm for other, _ in model.dependents(source)
        ):
            must = False  # a damaged delta may not record its base
        return Plan(
            what=self.name if target != source else "materialize in place",
            call=call,
            writes={target: saved},
            must=must,
            then=then,
            touched=[source, *(other for other, _ in model.dependents(source))],
        )


_FORMATS = (None, None, "orbax", "orbax-v1", "safetensors", "npz", "dcp")


@operation
class Convert(_Copy):
    name = "convert"

    def draw(self, draw: random.Random, world: World) -> Words | None:
        source = chosen(draw, world)
        if source is None:
            return None
        words = self._words(draw, world, source)
        words["format"] = draw.choice(_FORMATS)
        if words["format"] in ("safetensors", "npz", "dcp"):
            words["target"] = f"absolute:x{world.model.next_number()}"
            if words["format"] != "dcp":
                words["target"] += "." + words["format"]
        return words

    def plan(self, world: World, words: Words) -> Plan:
        source, target = self.ends(world, words)
        model = world.model
        old = model.places[source]
        form = words["format"]
        saved = Saved(old.value, model.next_number(), "whole", item=old.item)
        if old.item and form is not None:
            raise Skip
        if form in ("safetensors", "npz", "dcp"):
            saved.kind, saved.is_checked = "foreign", False
        elif form == "orbax-v1":
            saved.kind = "whole, of v1"
        elif form is None and old.kind in ("foreign", "stock"):
            raise Skip  # the format would be the source's, which is not Orbax's
        elif form is None and old.kind == "whole, of v1":
            saved.kind = old.kind

        def call() -> None:
            holdfast.convert(
                world.spelled(words["source"]),
                world.spelled(words["target"]),
                format=form,
                durable=False,
            )

        return Plan(
            what=self.name,
            call=call,
            writes={target: saved},
            must=model.is_sound(source),
            touched=[source],
        )


@operation
class ConvertInPlace(Operation):
    name = "convert in place"
    weight = 0.5
    can_fail = True

    def draw(self, draw: random.Random, world: World) -> Words | None:
        source = chosen(draw, world, lambda saved: saved.kind in _PLAIN)
        if source is None:
            return None
        return {"op": self.name, "source": spelled(draw, world, source)}

    def plan(self, world: World, words: Words) -> Plan:
        source = world.meant(words["source"])
        old = world.model.places.get(source)
        if old is None or old.kind not in _PLAIN:
            raise Skip
        # Materializing does not change the format.
        kind = old.kind if old.kind == "whole, of v1" else "whole"
        saved = dataclasses.replace(old, kind=kind, needs=(), kin=0)
        # A step that was a delta keeps the id by which other steps refer to it.
        if old.kind not in ("delta", "delta of a policy"):
            saved.version = world.model.next_number()

        def call() -> None:
            path = world.spelled(words["source"])
            holdfast.convert(
                path, path, compression="fast", overwrite=True, durable=False
            )

        return Plan(
            what=self.name,
            call=call,
            writes={source: saved},
            must=False,
            touched=[other for other, _ in world.model.dependents(source)],
        )


@operation
class CopyStep(_Copy):
    name = "cp"
    weight = 1.5

    def draw(self, draw: random.Random, world: World) -> Words | None:
        source = chosen(draw, world)
        if source is None:
            return None
        words = self._words(draw, world, source)
        return words | {"follow": draw.random() < 0.3}

    def plan(self, world: World, words: Words) -> Plan:
        source, target = self.ends(world, words)
        model = world.model
        old = model.places[source]
        beside = parent(source) == parent(target)
        saved = dataclasses.replace(old, kin=0, needs=())
        # A copy loads by itself, or from its base at the old path, or from a
        # base that was copied to the same folder.
        saved.needs = tuple(
            need
            for need in old.needs
            if not need.is_view
            and (beside or not need.is_beside or model.has_need(target, need))
        )
        if old.needs and not saved.needs:
            saved.version = model.next_number()
        words_of_call = ["cp", world.spelled(words["source"])]
        words_of_call.append(world.spelled(words["target"]))
        if words.get("follow"):
            words_of_call.append("--follow-links")

        return Plan(
            what=self.name,
            call=lambda: command(*words_of_call),
            writes={target: saved},
            must=model.is_sound(source) and not old.needs,
            touched=[source],
        )


@operation
class CopyRoot(Operation):
    name = "cp of a root"
    weight = 0.7
    can_fail = True

    def draw(self, draw: random.Random, world: World) -> Words | None:
        roots = world.model.roots()
        if not roots:
            return None
        root = draw.choice(roots)
        return {
            "op": self.name,
            "source": spelled(draw, world, root),
            "target": f"absolute:R{world.model.next_number()}",
        }

    def plan(self, world: World, words: Words) -> Plan:
        model = world.model
        source, target = (
            world.meant(words["source"]),
            world.meant(words["target"]),
        )
        places = list(model.below(source))
        if not places or source in model.places or not is_free(world, target):
            raise Skip
        odd = any(link.startswith(source + "/") for link in model.links)
        writes = {}
        for place in places:
            saved = dataclasses.replace(model.places[place], kin=0)
            is_view = any(need.is_view for need in saved.needs)
            odd |= is_view or not model.is_sound(place)
            if is_view:  # a copied view has its own bytes
                saved.needs = ()
            writes[target + place[len(source) :]] = saved
        return Plan(
            what=self.name,
            call=lambda: command(
                "cp", world.spelled(words["source"]), world.path(target)
            ),
            writes=writes,
            must=not odd and not model.debris,
            is_partial=True,
        )


@operation
class Rescue(Operation):
    name = "rescue"
    weight = 0.5

    def draw(self, draw: random.Random, world: World) -> Words | None:
        source = chosen(draw, world, lambda saved: not saved.item)
        if source is None:
            return None
        return {"op": self.name, "source": spelled(draw, world, source)}

    def run(self, world: World, words: Words) -> list[str]:
        source = world.meant(words["source"])
        saved = world.model.places.get(source)
        if saved is None:
            raise Skip
        out = world.path("rescued")
        shutil.rmtree(out, ignore_errors=True)
        found: list[Any] = []

        def call() -> None:
            found.append(holdfast.rescue(world.spelled(words["source"]), out))

        def then() -> None:
            try:
                got = holdfast.load(out)
            except holdfast.errors.HoldfastError as error:
                if found[0].leaf_count == 0:
                    return
                text = f"what was rescued does not load: {error}"
                raise Failure("lost", "rescue", text) from error
            wrong = problem_of_part(got, tree(saved.value))
            if wrong is not None and (saved.is_checked or not saved.harm):
                raise Failure("wrong", "rescue", f"{source}: {wrong}")
            if world.model.is_sound(source) and found[0].lost:
                text = f"{source} is whole, and leaves were lost"
                raise Failure("lost", "rescue", text)

        must = world.model.is_sound(source)
        try:
            world.play(Plan(what=self.name, call=call, must=must, then=then))
        finally:
            shutil.rmtree(out, ignore_errors=True)
        return [source]
