"""Plays and judges a complete world, from a seed or a list of operations."""

from __future__ import annotations

import json
import os
import random
import shutil
from typing import Any

import ops_copy  # noqa: F401
import ops_fault  # noqa: F401
import ops_manager  # noqa: F401
import ops_read  # noqa: F401
import ops_remove  # noqa: F401
import ops_save  # noqa: F401
import ops_stranger  # noqa: F401
from calls import Failure
from operations import OPERATIONS, Words
from play import Skip, World


def draw_one(draw: random.Random, world: World) -> Words:
    """Draws the next operation of a world."""
    left_out = world.options.get("without", ())
    kinds = [kind for kind in OPERATIONS.values() if kind.name not in left_out]
    weights = [kind.weight for kind in kinds]
    while True:
        words = draw.choices(kinds, weights)[0].draw(draw, world)
        if words is not None:
            return json.loads(json.dumps(words))  # as in a replay


class Result:
    """The result of playing a world.

    Attributes:
        words: the operations that were played.
        counts: by operation, the numbers of calls done, refused and killed.
        failure: the broken promise, or None.
        books: a dump of the model at the end.
    """

    def __init__(self) -> None:
        self.words: list[Words] = []
        self.counts: dict[str, list[int]] = {}
        self.failure: Failure | None = None
        self.books = ""


def play_drawn(
    seed: int, count: int, folder: str, options: dict[str, Any]
) -> Result:
    """Plays the world of a seed, with `count` operations."""
    draw = random.Random(f"world {seed}")
    result = Result()

    def words_of(world: World, number: int) -> Words | None:
        return draw_one(draw, world) if number < count else None

    _play(result, words_of, folder, options)
    return result


def play_list(
    words: list[Words], folder: str, options: dict[str, Any]
) -> Result:
    """Plays a list of operations; skips those that are impossible."""
    result = Result()
    _play(
        result,
        lambda _, number: words[number] if number < len(words) else None,
        folder,
        options,
    )
    return result


def _play(result: Result, words_of: Any, folder: str, options: Any) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    world = World(folder, options)
    log = options.get("log")
    try:
        number = 0
        while (words := words_of(world, number)) is not None:
            number += 1
            result.words.append(words)
            if log is not None:
                log(words)
            _play_one(world, words)
        world.check_all()
    except Failure as failure:
        failure.after = _name(result.words[-1]) if result.words else "nothing"
        result.failure = failure
    finally:
        result.counts = world.counts
        result.books = world.dump()
        os.chdir("/")
        if not options.get("keep"):
            shutil.rmtree(folder, ignore_errors=True)


def _name(words: Words) -> str:
    names = [words["op"]]
    names += [words[key]["op"] for key in ("inner", "other") if key in words]
    return ", ".join(names)


def _play_one(world: World, words: Words) -> None:
    try:
        touched = OPERATIONS[words["op"]].run(world, words)
    except Skip:
        return
    world.check(json.dumps(words, sort_keys=True), touched)
