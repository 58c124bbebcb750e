"""Operations of managers, which continue a run, save, and remove by their rules
(the drop-in's v0 and v1, TieredManager), and saves by stock Orbax."""

from __future__ import annotations

import os
import random
from typing import Any

from calls import Failure
from model import Saved
from operations import Operation, Words, operation, spelled
from ops_remove import is_orderly, listed_steps
from play import Plan, Skip, World
from trees import problem, tree

import holdfast


class _Manager(Operation):
    """Opens a manager of a run, which saves `values` one after the other."""

    root = "M"
    item = "default"
    can_fail = True

    def draw(self, draw: random.Random, world: World) -> Words | None:
        if not world.options.get("jax"):
            return None
        root = self.root
        roots = world.model.roots()
        if roots and draw.random() < 0.1:
            root = draw.choice(roots)  # continues a run of other operations
        count = draw.choice((1, 2, 2, 4))
        return {
            "op": self.name,
            "root": spelled(draw, world, root),
            "values": [world.model.next_number() for _ in range(count)],
            "keep": draw.choice((None, 1, 2, 2, 3)),
            "anchor_every": draw.choice((0, 2, 4, 16)),
            "async": draw.random() < 0.3,
        }

    def plan(self, world: World, words: Words) -> Plan:
        model = world.model
        root = world.meant(words["root"])
        if root in model.places or (
            not model.steps(root)
            and world.exists(root)
            and root not in model.roots()
            and world.names(root) - {"metadata"}
        ):
            raise Skip
        steps = listed_steps(world, root)
        first = max([*steps, *model.steps(root), -1]) + 1
        writes = {}
        for number, value in enumerate(words["values"]):
            saved = Saved(value, model.next_number(), "managed", self.item)
            if words.get("anchor_every"):
                saved.kind = "policy"
            writes[f"{root}/{first + number}"] = saved
        keep = words["keep"]
        numbers = sorted({*steps, *range(first, first + len(writes))})
        kept = set(numbers[-keep:]) if keep else set(numbers)
        alike = all(s.item == self.item for s in model.steps(root).values())
        spelled_root = str(world.spelled(words["root"])).rstrip("/")
        dangles = os.path.islink(spelled_root) and not os.path.exists(
            spelled_root
        )
        return Plan(
            what=self.name,
            call=lambda: self.live(world, words, first),
            writes=writes,
            may_go=[
                f"{root}/{step}"
                for step in {*model.steps(root), *numbers}
                if step not in kept
            ],
            must=is_orderly(world, root) and alike and not dangles,
            is_partial=True,
        )

    def live(self, world: World, words: Words, first: int) -> None:
        raise NotImplementedError


@operation
class ManagerV0(_Manager):
    name = "a manager"
    weight = 1.5

    def live(self, world: World, words: Words, first: int) -> None:
        from holdfast import orbax as ocp

        deltas = None
        if words["anchor_every"]:
            deltas = holdfast.DeltaPolicy(words["anchor_every"])
        options = ocp.CheckpointManagerOptions(
            max_to_keep=words["keep"],
            deltas=deltas,
            enable_async_checkpointing=words.get("async", False),
        )
        path = os.path.abspath(world.spelled(words["root"]))
        with ocp.CheckpointManager(path, options=options) as manager:
            for step, value in enumerate(words["values"], first):
                args = ocp.args.PyTreeSave(tree(value))
                if not manager.save(step, args=args):
                    raise ValueError(f"step {step} was not saved")
            manager.wait_until_finished()
            newest = first + len(words["values"]) - 1
            if manager.latest_step() != newest:
                raise Failure(
                    "steps", self.name, f"the latest is {manager.latest_step()}"
                )
            wrong = problem(manager.restore(newest), tree(words["values"][-1]))
            if wrong is not None:
                raise Failure("wrong", self.name, wrong)


@operation
class ManagerV1(_Manager):
    name = "a manager of v1"
    weight = 0.8
    root = "V"
    item = "state"

    def live(self, world: World, words: Words, first: int) -> None:
        from holdfast.orbax import v1

        policies = v1.training.preservation_policies
        path = os.path.abspath(world.spelled(words["root"]))
        policy = policies.LatestN(words["keep"]) if words["keep"] else None
        with v1.training.Checkpointer(path, preservation_policy=policy) as run:
            for step, value in enumerate(words["values"], first):
                if words.get("async", False):
                    run.save_async(step, tree(value), force=True).result()
                else:
                    run.save(step, tree(value), force=True)

    def draw(self, draw: random.Random, world: World) -> Words | None:
        words = super().draw(draw, world)
        return words and words | {"anchor_every": 0}


@operation
class ManagerDelete(Operation):
    """`manager.delete(step)`."""

    name = "delete by a manager"
    weight = 0.4
    can_fail = True

    def draw(self, draw: random.Random, world: World) -> Words | None:
        steps = world.model.steps("M")
        if not world.options.get("jax") or not steps:
            return None
        return {"op": self.name, "root": "M", "step": draw.choice(list(steps))}

    def plan(self, world: World, words: Words) -> Plan:
        root, step = words["root"], words["step"]
        place = f"{root}/{step}"
        if place not in world.model.places:
            raise Skip

        def call() -> None:
            from holdfast import orbax as ocp

            with ocp.CheckpointManager(world.path(root)) as manager:
                manager.delete(step)

        return Plan(
            what=self.name,
            call=call,
            may_go=[place],
            must=is_orderly(world, root)
            and not world.model.dependents(place)
            and len(world.model.steps(root)) > 1,
            is_partial=True,
            touched=[other for other, _ in world.model.dependents(place)],
        )


@operation
class StockSave(Operation):
    """Stock Orbax saves a step in one of holdfast's roots."""

    name = "a save by stock Orbax"
    weight = 0.2

    def draw(self, draw: random.Random, world: World) -> Words | None:
        if not world.options.get("stock"):
            return None
        from operations import new_step, some_root

        place = new_step(draw, world, some_root(draw, world))
        value = world.model.next_number()
        return {"op": self.name, "at": place, "value": value}

    def plan(self, world: World, words: Words) -> Plan:
        place = words["at"]
        if place in world.model.places or world.exists(place):
            raise Skip

        def call() -> None:
            import orbax.checkpoint as ocp

            ocp.PyTreeCheckpointer().save(
                world.path(place), tree(words["value"])
            )

        saved = Saved(words["value"], world.model.next_number(), "stock")
        saved.is_checked = False
        return Plan(what=self.name, call=call, writes={place: saved})


@operation
class Tiers(Operation):
    """Opens a TieredManager on this host and saves; afterwards the last step
    must be restored."""

    name = "tiers"
    weight = 0.3

    def draw(self, draw: random.Random, world: World) -> Words | None:
        count = draw.choice((1, 2, 3))
        values = [world.model.next_number() for _ in range(count)]
        return {
            "op": self.name,
            "values": values,
            "shared": draw.random() < 0.5,
        }

    def plan(self, world: World, words: Words) -> Plan:
        books = world.tiers
        first = books.get("step", 0) + 1
        found: dict[str, Any] = {}

        def call() -> None:
            shared = holdfast.SharedTierOptions(
                world.path("T/all"), save_every=2 if words["shared"] else 0
            )
            local = holdfast.LocalTierOptions(world.path("T/own"))
            with holdfast.TieredManager(local, shared=shared) as tiers:
                if books:
                    found["tree"] = tiers.restore()
                for step, value in enumerate(words["values"], first):
                    tiers.save(step, tree(value), force=True)
                    tiers.wait()

        def then() -> None:
            if books:
                wrong = problem(found["tree"], tree(books["value"]))
                if wrong is not None:
                    raise Failure("wrong", self.name, wrong)
            books["step"] = first + len(words["values"]) - 1
            books["value"] = words["values"][-1]

        return Plan(what=self.name, call=call, then=then)
