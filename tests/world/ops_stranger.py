"""Operations of a stranger, who changes files without holdfast: mv, cp -r, ln
-s, rm, and changed bytes."""

from __future__ import annotations

import os
import random
import shutil
from typing import ClassVar

from operations import (
    Operation,
    Words,
    chosen,
    is_free,
    new_place,
    operation,
    parent,
)
from ops_remove import BASE_FILE
from play import Skip, World


class _Stranger(Operation):
    def run(self, world: World, words: Words) -> list[str]:
        touched = self.act(world, words)
        world.count(self.name, "done")
        return touched

    def act(self, world: World, words: Words) -> list[str]:
        raise NotImplementedError


class _Moving(_Stranger):
    """An operation from "source" to "target", both places."""

    is_move: ClassVar[bool] = False
    is_root: ClassVar[bool] = False

    def draw(self, draw: random.Random, world: World) -> Words | None:
        if self.is_root:
            roots = [r for r in world.model.roots() if r]
            source = draw.choice(roots) if roots else None
            target = f"R{world.model.next_number()}"
        else:
            source, target = chosen(draw, world), new_place(draw, world)
        if source is None:
            return None
        return {"op": self.name, "source": source, "target": target}

    def act(self, world: World, words: Words) -> list[str]:
        source, target = words["source"], words["target"]
        places = list(world.model.below(source))
        is_root = source not in world.model.places
        if not places or is_root != self.is_root or world.exists(target):
            raise Skip
        if not is_free(world, target):
            raise Skip
        above = os.path.dirname(world.path(target))
        os.makedirs(above, exist_ok=True)
        if self.is_move:
            os.rename(world.path(source), world.path(target))
        elif os.path.isdir(world.path(source)):
            shutil.copytree(
                world.path(source), world.path(target), symlinks=True
            )
        else:
            shutil.copy2(world.path(source), world.path(target))
        world.model.copied(source, target, is_move=self.is_move)
        return [target]


@operation
class MoveRoot(_Moving):
    name = "mv of a root"
    weight = 0.8
    is_move = True
    is_root = True


@operation
class CopyTreeOfRoot(_Moving):
    name = "cp -r of a root"
    weight = 0.6
    is_root = True


@operation
class MoveStep(_Moving):
    name = "mv of a step"
    weight = 0.8
    is_move = True


@operation
class CopyTreeOfStep(_Moving):
    name = "cp -r of a step"
    weight = 0.6


@operation
class Link(_Stranger):
    """Makes a link `latest` next to a step, or a link to a root."""

    name = "ln -s"
    weight = 1.5

    def draw(self, draw: random.Random, world: World) -> Words | None:
        if draw.random() < 0.5:
            place = chosen(draw, world, sound=True)
            if place is None or not parent(place):
                return None
            name = f"{parent(place)}/{draw.choice(('latest', 'best'))}"
            return {"op": self.name, "link": name, "to": place}
        roots = [root for root in world.model.roots() if root]
        if not roots:
            return None
        name = draw.choice(("home", "run"))
        return {"op": self.name, "link": name, "to": draw.choice(roots)}

    def act(self, world: World, words: Words) -> list[str]:
        link, to = words["link"], words["to"]
        if not os.path.isdir(world.path(to)):
            raise Skip
        if link not in world.model.links and world.exists(link):
            raise Skip
        if not os.path.isdir(os.path.dirname(world.path(link))):
            raise Skip
        if world.exists(link):
            os.unlink(world.path(link))
        beside = os.path.basename(to) if parent(link) == parent(to) else None
        if beside is None:
            raise Skip
        os.symlink(beside, world.path(link))
        world.model.links[link] = to
        return []


@operation
class Remove(_Stranger):
    name = "rm -r"
    weight = 0.8

    def draw(self, draw: random.Random, world: World) -> Words | None:
        place = chosen(draw, world)
        return None if place is None else {"op": self.name, "at": place}

    def act(self, world: World, words: Words) -> list[str]:
        place = words["at"]
        if place not in world.model.places:
            raise Skip
        if os.path.isdir(world.path(place)):
            shutil.rmtree(world.path(place))
        else:
            os.unlink(world.path(place))
        world.model.drop(place)
        return []


def _files(path: str) -> list[str]:
    return sorted(
        os.path.join(folder, name)
        for folder, _, names in os.walk(path)
        for name in names
        if not os.path.islink(os.path.join(folder, name))
    )


@operation
class Damage(_Stranger):
    """Changes one file."""

    name = "damage"
    weight = 1.2
    kinds = ("flip", "flip", "flip in time", "cut", "empty", "unlink")

    def draw(self, draw: random.Random, world: World) -> Words | None:
        place = chosen(draw, world, lambda saved: saved.is_checked)
        if place is None:
            return None
        words = {"op": self.name, "at": place, "which": draw.random()}
        words["kind"] = draw.choice(self.kinds)
        if world.model.places[place].needs and draw.random() < 0.5:
            words["kind"] = draw.choice(("base file", "no base file"))
        return words

    def act(self, world: World, words: Words) -> list[str]:
        place = words["at"]
        saved = world.model.places.get(place)
        if saved is None or not saved.is_checked:
            raise Skip
        files = _files(world.path(place))
        if not files:
            raise Skip
        which, kind = words["which"], words["kind"]
        if kind.endswith("base file"):
            files = [f for f in files if f.endswith("/_HOLDFAST_BASE")]
            if not files:
                raise Skip
        path = files[int(which * len(files))]
        _harm(path, kind, which)
        what = BASE_FILE if kind.endswith("base file") else f"{kind} {path}"
        world.model.harm(place, what)
        return [place]


def _harm(path: str, kind: str, which: float) -> None:
    if kind in ("unlink", "no base file"):
        os.unlink(path)
        return
    with open(path, "rb") as file:
        content = bytearray(file.read())
    if kind == "base file":
        content = bytearray(b"99")
    elif kind == "empty" or not content:
        content = bytearray()
    elif kind == "cut":
        del content[int(which * 7919) % len(content) :]
    else:
        at = int(which * 104729) % len(content)
        content[at] ^= 1 << int(which * 997) % 8
    before = os.stat(path)
    with open(path, "r+b") as file:
        file.write(content)
        file.truncate()
    if kind == "flip in time":
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@operation
class Sabotage(_Stranger):
    """Does what a faulty holdfast could do, without a record in the model. It
    is never drawn; only tests of the game play it."""

    name = "sabotage"
    weight = 0.0

    def draw(self, draw: random.Random, world: World) -> Words | None:
        return None

    def act(self, world: World, words: Words) -> list[str]:
        path = world.path(words["at"])
        if words["how"] == "remove":
            shutil.rmtree(path)
        elif words["how"] == "swap":
            other = world.path(f"{parent(words['at'])}/2")
            shutil.rmtree(path)
            shutil.copytree(other, path)
        else:
            _harm(max(_files(path), key=os.path.getsize), "flip", 0.5)
        return []
