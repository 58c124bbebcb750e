"""The game's expectations for a world: where its checkpoints are, what they
need, and whether they must load.

`Model` keeps the records by which these promises are judged:

1. A checkpoint whose save returned, and that only holdfast has touched, loads
   bit for bit until it is itself overwritten, pruned or deleted. The load may
   fail if something that the checkpoint needs (a base, a view's source) was
   removed by a stranger, or by holdfast in another root, where holdfast does
   not know about the checkpoint. In the checkpoint's own root, holdfast keeps
   what the checkpoint needs, or makes it independent, or refuses. There is one
   exception: a view may be unreadable after its source was materialized in
   place.
2. No read returns a wrong value.
3. A refused call changes nothing.
4. After a stranger's damage, a read is an error or returns the right value.

Places are paths below the world's folder, with links resolved.
Thread-safety: one thread.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator

ROOTS = ("A", "B", "M", "V")  # M: for v0's managers, V: for v1's


@dataclasses.dataclass(frozen=True)
class Need:
    """Another checkpoint that a checkpoint needs to be read.

    Attributes:
        at: its name in the same folder if `is_beside`, otherwise its place.
        is_beside: whether it is in the same folder.
        version: the content that it must have.
        is_view: whether it is needed as a view's source, not as a delta's base.
    """

    at: str
    is_beside: bool
    version: int
    is_view: bool = False


@dataclasses.dataclass
class Saved:
    """A checkpoint of the world.

    Attributes:
        value: the number of its tree.
        version: identifies its content; copies have the same version.
        kind: "whole", "delta", "view", "foreign", "stock", ...
        item: the item that has the tree; "" if there are no items.
        needs: the checkpoints that it needs.
        harm: what a stranger did to it; "" for nothing.
        is_checked: whether it has checksums, so that damage cannot cause a
            wrong value.
        kin: checkpoints with the same `kin` may share files by hard links.
    """

    value: int
    version: int
    kind: str
    item: str = ""
    needs: tuple[Need, ...] = ()
    harm: str = ""
    is_checked: bool = True
    kin: int = 0


class Model:
    """The records of a world."""

    def __init__(self) -> None:
        self.places: dict[str, Saved] = {}
        self.links: dict[str, str] = {}  # place of a link: its target
        self.trash: dict[str, list[tuple[str, Saved]]] = {}
        self.debris: set[str] = set()  # places where a kill may have left files
        self.serial = 0

    def next_number(self) -> int:
        self.serial += 1
        return self.serial

    def resolve(self, path: str) -> str:
        """Returns the place that a path leads to, following links."""
        for _ in range(8):
            parts = path.split("/")
            for count in range(1, len(parts) + 1):
                head = "/".join(parts[:count])
                if head in self.links:
                    path = "/".join([self.links[head], *parts[count:]])
                    break
            else:
                return path
        return path

    def steps(self, root: str) -> dict[int, Saved]:
        """Returns the checkpoints of a root that are named as steps,
        ascending."""
        found = {
            int(os.path.basename(place)): saved
            for place, saved in self.places.items()
            if os.path.dirname(place) == root
            and os.path.basename(place).isdigit()
        }
        return dict(sorted(found.items()))

    def roots(self) -> list[str]:
        """Returns the roots that have steps."""
        return sorted(
            {
                os.path.dirname(place)
                for place in self.places
                if os.path.basename(place).isdigit()
            }
        )

    def _found(self, place: str, need: Need) -> str | None:
        at = need.at
        if need.is_beside:
            at = os.path.join(os.path.dirname(place), need.at)
        base = self.places.get(at)
        return at if base is not None and base.version == need.version else None

    def has_need(self, place: str, need: Need) -> bool:
        """Whether a checkpoint at `place` would find what it needs."""
        return self._found(place, need) is not None

    def has_sound_need(self, place: str, need: Need) -> bool:
        """Whether a checkpoint at `place` would find what it needs, and that
        must load."""
        at = self._found(place, need)
        return at is not None and self.is_sound(at)

    def is_sound(self, place: str, depth: int = 0) -> bool:
        """Whether the checkpoint must load; otherwise it may be an error."""
        saved = self.places.get(place)
        if saved is None or saved.harm or depth > 64:
            return False
        found = [self._found(place, need) for need in saved.needs]
        return all(
            at is not None and self.is_sound(at, depth + 1) for at in found
        )

    def dependents(self, place: str) -> list[tuple[str, Need]]:
        """Returns the checkpoints that need the one at `place`, and how."""
        return [
            (other, need)
            for other, saved in self.places.items()
            for need in saved.needs
            if self._found(other, need) == place and other != place
        ]

    def may_be_needed(self, place: str) -> bool:
        """Whether another checkpoint needs the one at `place` or a copy of it.
        If there are copies, holdfast prefers the one in the same folder."""
        version = self.places[place].version
        return bool(self.dependents(place)) or any(
            need.version == version
            for saved in self.places.values()
            for need in saved.needs
        )

    def is_needed_below(self, place: str, target: str, depth: int = 0) -> bool:
        """Whether `place` is `target`, or needs it directly or indirectly."""
        if place == target or depth > 64:
            return True
        saved = self.places.get(place)
        found = [self._found(place, n) for n in saved.needs] if saved else []
        return any(
            at is not None and self.is_needed_below(at, target, depth + 1)
            for at in found
        )

    def release(self, place: str, going: list[str] | None = None) -> None:
        """Records that the content at `place` goes away. Checkpoints of its
        root that need it must still load, except those in `going`."""
        for other, need in self.dependents(place):
            is_beside = os.path.dirname(other) == os.path.dirname(place)
            if not is_beside or other in (going or ()):
                continue
            if not self.is_sound(other):
                continue
            saved = self.places[other]
            saved.needs = tuple(n for n in saved.needs if n != need)

    def put(self, place: str, saved: Saved) -> None:
        """Records a save to `place`."""
        old = self.places.get(place)
        if old is not None and old.version != saved.version:
            self.release(place)
        self.places[place] = saved
        self.debris.discard(place)

    def take(self, places: list[str], *, to_trash: bool) -> None:
        """Records that holdfast removed the checkpoints at `places`."""
        for place in places:
            self.release(place, going=places)
        for place in places:
            saved = self.places.pop(place)
            root, name = os.path.split(place)
            if to_trash:
                self.trash.setdefault(root, []).append((name, saved))

    def harm(self, place: str, what: str) -> None:
        """Records that a stranger changed bytes at `place`, and so in all
        checkpoints that share its files."""
        kin = self.places[place].kin
        for other, saved in self.places.items():
            if other == place or (kin and saved.kin == kin):
                saved.harm = saved.harm or what
        for row in self.trash.values():
            for _, saved in row:
                if kin and saved.kin == kin:
                    saved.harm = saved.harm or what

    def below(self, path: str) -> Iterator[str]:
        """Yields the places at or below a path."""
        for place in list(self.places):
            if place == path or place.startswith(path + "/"):
                yield place

    def drop(self, path: str) -> None:
        """Records that a stranger removed everything at or below a path."""
        for place in list(self.below(path)):
            del self.places[place]
        for link in list(self.links):
            if link == path or link.startswith(path + "/"):
                del self.links[link]
        self.trash.pop(path, None)
        self.debris = {
            name
            for name in self.debris
            if name != path and not name.startswith(path + "/")
        }

    def copied(self, source: str, target: str, *, is_move: bool) -> None:
        """Records that a stranger moved or copied everything at or below a
        path."""
        moved = {
            target + place[len(source) :]: dataclasses.replace(
                self.places[place]
            )
            for place in self.below(source)
        }
        links = {
            target + link[len(source) :]: to
            for link, to in self.links.items()
            if link.startswith(source + "/")
        }
        trash = self.trash.get(source)
        for saved in moved.values():
            if not is_move:
                saved.kin = 0
            if any(need.is_view for need in saved.needs):
                saved.harm = saved.harm or "a view that was moved or copied"
        if is_move:
            self.drop(source)
        self.places.update(moved)
        for link, to in links.items():
            # The game's links are relative, and lead within their folder.
            self.links[link] = (
                target + to[len(source) :]
                if to.startswith(source + "/")
                else to
            )
        if trash is not None:
            self.trash[target] = [
                (name, dataclasses.replace(saved)) for name, saved in trash
            ]
