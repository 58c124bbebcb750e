"""`holdfast.load(target=...)`: loads a checkpoint in the form of a given tree.

The target is matched with the stored tree. Everything that it needs is read in
one parallel pass, directly into the memory of the results. The target's own
containers are then rebuilt around the results.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from holdfast import _dtypes, _engine, _gc, errors
from holdfast._buffers import Request, read
from holdfast._process_group import Call
from holdfast._pytree import Level, jax_if_imported, joined, one_level
from holdfast._target_leaves import LeafPlanner, Slot, put_all

__all__ = [
    "Restored",
    "explain",
    "like",
    "like_selected",
    "match",
    "restore",
    "selected",
]

_DIFFERENCES_MAX = 10
# Each name is compared with at most this many other names, because finding
# similar names takes quadratic time.
_NAMES_COMPARED_MAX = 1000


class _NotSelected:
    """Replaces each part of the structure that `select` leaves out."""


_NOT_SELECTED = _NotSelected()

Path = tuple[str, ...]


@dataclasses.dataclass
class Restored:
    """A matched target. Read `requests`, put `placements` on their devices,
    then call `build`."""

    requests: list[Request]
    placements: list[Any]
    build: Callable[[], Any]


class _Mismatch:
    """The differences between target and checkpoint: structure, then leaves."""

    def __init__(self) -> None:
        self.missing: list[str] = []
        self.unexpected: list[str] = []
        self.different: list[str] = []
        self.leaves: list[str] = []

    def lines(self) -> list[str]:
        """Returns one line for each difference."""
        old_names = self._old_names()
        was = {new: f" (perhaps {old} there)" for new, old in old_names.items()}
        return [
            *(
                f"{n}: in the target but not in the checkpoint{was.get(n, '')}"
                for n in self.missing
            ),
            *(
                f"{n}: in the checkpoint but not in the target"
                for n in self.unexpected
            ),
            *(f"{n}: not the same kind of node" for n in self.different),
            *self.leaves,
        ]

    def _old_names(self) -> dict[str, str]:
        """Returns the names that leaves of the target may have in the
        checkpoint.

        Looks at the first leaves only, because every name is compared with
        every other.
        """
        return {
            new: old
            for new in self.missing[:_DIFFERENCES_MAX]
            if (old := _renamed(new, self.unexpected))
        }

    def message(self, path: str) -> str:
        """Returns the error message; empty if there is no difference."""
        if not (self.missing or self.unexpected or self.different):
            return "; ".join(_first_of(self.leaves))
        parts = [
            f"{what}: {', '.join(_first_of(names))}"
            for names, what in (
                (self.missing, "in the target but not in the checkpoint"),
                (self.unexpected, "in the checkpoint but not in the target"),
                (self.different, "not the same kind of node"),
            )
            if names
        ]
        parts += _first_of(self.leaves)
        return (
            f"{path}: the target's structure is not the checkpoint's; "
            + "; ".join(parts)
            + ". Use ... (Ellipsis) in the target for what is not wanted"
            + self._renames()
        )

    def _renames(self) -> str:
        """Returns the command that renames leaves to the target's names."""
        old_names = self._old_names()
        if not old_names:
            return ""
        maps = " ".join(
            f"--map '{re.escape(old)}={new}'" for new, old in old_names.items()
        )
        return (
            ", or, if leaves have other names there, `holdfast convert SOURCE"
            f" TARGET {maps}` first"
        )


def _first_of(texts: Sequence[str]) -> list[str]:
    more = len(texts) - _DIFFERENCES_MAX
    first = list(texts[:_DIFFERENCES_MAX])
    if more > 0:
        first[-1] += f" and {more} more"
    return first


def _renamed(name: str, candidates: Sequence[str]) -> str:
    """Returns the candidate most similar to `name`, or "" if none is
    similar."""
    near = difflib.get_close_matches(
        name, candidates[:_NAMES_COMPARED_MAX], n=1, cutoff=0.7
    )
    return near[0] if near else ""


def selected(name: str, names: Sequence[str]) -> bool:
    """Returns whether `name` is one of `names` or below one of them."""
    return any(name == one or name.startswith(f"{one}.") for one in names)


def match(
    checkpoint: _engine.Checkpoint,
    target: Any,
    *,
    cast: bool,
    select: Sequence[str] | None,
    takes_devices: bool = False,
) -> Restored:
    """Plans the read of `target`.

    With `takes_devices`, the requests may have DeviceBuffers. Raises
    InvalidArgumentError, naming all differences, if the target has a different
    structure, or if leaves have a different shape or (unless `cast`) dtype.
    """
    restored, mismatch = _matched(
        checkpoint, target, cast, select, takes_devices
    )
    if message := mismatch.message(checkpoint.path):
        raise errors.InvalidArgumentError(message)
    return restored


def like(
    leaves: Sequence[_engine.LeafInfo],
    stored: Any,
    target_of_array: Callable[[_engine.LeafInfo], Any],
    an_object: Any,
) -> Any:
    """Returns a target that accepts a stored structure, or a part of it.

    `target_of_array` returns the targets of arrays, and `an_object` is the
    target of Python objects.
    """
    if isinstance(stored, dict):
        return {
            key: like(leaves, child, target_of_array, an_object)
            for key, child in stored.items()
        }
    if isinstance(stored, list):
        return [
            like(leaves, child, target_of_array, an_object) for child in stored
        ]
    if stored is _NOT_SELECTED:
        return ...
    if not _is_leaf_index(stored):
        return stored  # None, (), ...
    info = leaves[stored]
    if info.kind == "object":
        return an_object
    if info.kind in ("string", "bytes", "json"):
        return ""
    if info.kind == "scalar":
        kind = _dtypes.numpy_dtype(info.dtype or "", info.name).kind
        return {"b": False, "c": 0j}.get(kind, 0 if kind in "iu" else 0.0)
    if info.dtype is None:
        return 0  # the read fails and gives the reason
    return target_of_array(info)


def without_rest(tree: Any) -> Any:
    """Returns what was read without the `...` at the ends of lists, where
    nothing was selected."""
    if isinstance(tree, dict):
        return {key: without_rest(child) for key, child in tree.items()}
    if isinstance(tree, list):
        end = len(tree)
        while end > 0 and tree[end - 1] is ...:
            end -= 1
        return [without_rest(child) for child in tree[:end]]
    return tree


def like_selected(
    checkpoint: _engine.Checkpoint,
    select: Sequence[str] | None,
    target_of_array: Callable[[_engine.LeafInfo], Any],
    an_object: Any,
) -> Any:
    """Returns a target that accepts the leaves that `select` names."""
    structure = checkpoint.structure()
    if select is not None:
        structure = _pruned(structure, (), select)
    return like(checkpoint.leaves, structure, target_of_array, an_object)


def explain(
    checkpoint: _engine.Checkpoint, target: Any, *, cast: bool
) -> list[str]:
    """Returns one line for each difference that `match` would refuse."""
    return _matched(checkpoint, target, cast, None)[1].lines()


def _matched(
    checkpoint: _engine.Checkpoint,
    target: Any,
    cast: bool,
    select: Sequence[str] | None,
    takes_devices: bool = False,
) -> tuple[Restored, _Mismatch]:
    """Returns the leaves that match, and all differences."""
    structure = checkpoint.structure()
    if select is not None:
        structure = _pruned(structure, (), select)
    matcher = _Matcher()
    build = matcher.match(target, structure, ())
    planner = LeafPlanner(checkpoint, cast, takes_devices)
    requests: list[Request] = []
    placements = []
    for leaf in matcher.leaves:
        try:
            leaf.slot = planner.slot(leaf.target, leaf.index, leaf.name)
        except errors.InvalidArgumentError as error:
            matcher.mismatch.leaves.append(str(error))
            continue
        requests.extend(leaf.slot.requests)
        if leaf.slot.placement is not None:
            placements.append(leaf.slot.placement)
    return Restored(requests, placements, build), matcher.mismatch


def restore(
    open_checkpoint: Callable[[], _engine.Checkpoint],
    target_of: Callable[[_engine.Checkpoint], Any],
    *,
    cast: bool,
    select: Sequence[str] | None,
    call: Call | None = None,
    **options: Any,
) -> tuple[Any, _engine.Stats]:
    """Opens, matches, reads and builds; with `call`, on all ranks together.

    `target_of` returns the target for an open checkpoint. `options` are the
    options threads, memory_bytes and progress of the read.
    """
    with _gc.paused():
        for count in range(1, _engine.READS_MAX + 1):
            checkpoint = open_checkpoint()
            restored = match(
                checkpoint,
                target_of(checkpoint),
                cast=cast,
                select=select,
                takes_devices=call is None,
            )
            if call is not None:
                call.agree("plan the read")
            group = None if call is None else call.engine
            try:
                stats = read(checkpoint, restored.requests, group, **options)
                break
            except errors.UnavailableError:
                # The checkpoint was replaced during the read. In a group no
                # rank retries by itself.
                if call is not None or count == _engine.READS_MAX:
                    raise
        put_all(restored.placements)
        tree = restored.build()
        if call is not None:
            call.agree("build the tree")
        return tree, stats


def _pruned(node: Any, path: Path, select: Sequence[str]) -> Any:
    """Removes what `select` leaves out; list positions stay."""
    if selected(joined(path), select):
        return node
    if isinstance(node, dict):
        kept = {
            key: _pruned(child, (*path, key), select)
            for key, child in node.items()
        }
        kept = {k: c for k, c in kept.items() if c is not _NOT_SELECTED}
        return kept or _NOT_SELECTED
    if isinstance(node, list):
        items = [
            _pruned(child, (*path, str(i)), select)
            for i, child in enumerate(node)
        ]
        if any(item is not _NOT_SELECTED for item in items):
            return items
    return _NOT_SELECTED


def _is_leaf_index(node: Any) -> bool:
    return isinstance(node, int)


@dataclasses.dataclass
class _MatchedLeaf:
    """A leaf that is planned once the complete structure matches."""

    target: Any
    index: int
    name: str
    slot: Slot | None = None

    def finish(self) -> Any:
        assert self.slot is not None
        return self.slot.finish()


class _Matcher:
    """Walks a target and a stored structure together."""

    def __init__(self) -> None:
        self.leaves: list[_MatchedLeaf] = []
        self.mismatch = _Mismatch()

    def match(self, target: Any, stored: Any, path: Path) -> Callable[[], Any]:
        """Returns a function that builds the node at `path` after the read."""
        if target is ...:
            return lambda: ...
        if stored is ...:
            return lambda: ...
        if stored is _NOT_SELECTED:
            self.mismatch.missing.extend(self._target_names(target, path))
            return lambda: None
        try:
            level = None if _is_quick_leaf(target) else one_level(target)
        except errors.InvalidArgumentError as error:
            raise errors.InvalidArgumentError(
                f'{error} (leaf "{joined(path)}" of the target)'
            ) from error
        if level is not None:
            return self._match_level(target, level, stored, path)
        if target is None:
            return self._match_empty(None, stored, path)
        if not _is_leaf_index(stored):
            self.mismatch.different.append(
                f"{self._show(path)} ({_describe(stored)} in the checkpoint, a"
                " leaf in the target)"
            )
            return lambda: None
        leaf = _MatchedLeaf(target, stored, joined(path))
        self.leaves.append(leaf)
        return leaf.finish

    def _show(self, path: Path) -> str:
        return joined(path) or "the root"

    def _match_empty(
        self, value: Any, stored: Any, path: Path
    ) -> Callable[[], Any]:
        if _is_leaf_index(stored):
            self.mismatch.different.append(
                f"{self._show(path)} (a leaf in the checkpoint,"
                f" {_describe(value)} in the target)"
            )
        elif stored:
            self.mismatch.unexpected.extend(self._names(stored, path))
        return lambda: value

    def _match_level(
        self, target: Any, level: Level, stored: Any, path: Path
    ) -> Callable[[], Any]:
        if not level.children:
            return self._match_empty(target, stored, path)
        by_key = self._children_of(level, stored)
        if by_key is None:
            self.mismatch.different.append(
                f"{self._show(path)} ({_describe(stored)} in the checkpoint,"
                f" {_describe(target)} in the target)"
            )
            return lambda: None
        keys = level.names
        builds = []
        for key, child in zip(keys, level.children, strict=True):
            below = (*path, key)
            if key in by_key:
                builds.append(self.match(child, by_key[key], below))
            elif child is ...:
                builds.append(lambda: ...)
            else:
                self.mismatch.missing.extend(self._target_names(child, below))
        wanted = set(keys)
        for key, child in by_key.items():
            if key not in wanted:
                self.mismatch.unexpected.extend(
                    self._names(child, (*path, key))
                )
        return lambda: level.rebuild([build() for build in builds])

    def _children_of(self, level: Level, stored: Any) -> dict[str, Any] | None:
        """Returns the children by key; None if `stored` is a leaf or another
        kind of container."""
        if isinstance(stored, dict) and level.kind != "sequence":
            return {str(key): child for key, child in stored.items()}
        if isinstance(stored, list) and level.kind == "sequence":
            return {str(i): child for i, child in enumerate(stored)}
        # The stored container is empty, so all children are missing.
        if stored is None or (not _is_leaf_index(stored) and not stored):
            return {}
        return None

    def _names(self, stored: Any, path: Path) -> list[str]:
        pairs: list[tuple[str, Any]]
        if isinstance(stored, dict) and stored:
            pairs = list(stored.items())
        elif isinstance(stored, list) and stored:
            pairs = [(str(i), child) for i, child in enumerate(stored)]
        elif stored is _NOT_SELECTED or stored is ...:
            return []
        else:
            return [self._show(path)]
        return [
            name
            for key, child in pairs
            for name in self._names(child, (*path, key))
        ]

    def _target_names(self, target: Any, path: Path) -> list[str]:
        if target is ...:
            return []
        level = None if _is_quick_leaf(target) else one_level(target)
        if level is None or not level.children:
            return [self._show(path)]
        keys = level.names
        return [
            name
            for key, child in zip(keys, level.children, strict=True)
            for name in self._target_names(child, (*path, key))
        ]


def _is_quick_leaf(value: Any) -> bool:
    """Returns whether `value` is a common leaf, decided without asking jax."""
    if isinstance(value, (np.ndarray, np.generic, str, bool, int, float)):
        return True
    jax = jax_if_imported()
    return jax is not None and isinstance(value, jax.Array)


def _describe(value: Any) -> str:
    if value is None:
        return "None"
    if isinstance(value, int) and not isinstance(value, bool):
        return "a leaf"
    if isinstance(value, dict):
        return "a dict" if value else "{}"
    if isinstance(value, list):
        return "a list" if value else "[]"
    if isinstance(value, tuple) and not value:
        return "()"
    return f"a {type(value).__qualname__}"
