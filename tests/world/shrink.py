"""Shortens a failing list of operations: leaves out operations while the same
promise is still broken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Words = dict[str, Any]


def shrunk(
    words: list[Words],
    fails: Callable[[list[Words]], bool],
    *,
    plays_max: int = 300,
) -> list[Words]:
    """Returns the shortest failing list that was found, with simplified
    options. If `plays_max` plays were enough, no single operation of the list
    can be left out.

    Args:
        words: a list that fails.
        fails: a function that returns whether a list still fails in this way.
    """
    plays = 0

    def still(candidate: list[Words]) -> bool:
        nonlocal plays
        plays += 1
        return plays <= plays_max and fails(candidate)

    size = max(1, len(words) // 2)
    while size >= 1:
        begin = 0
        while begin < len(words):
            candidate = words[:begin] + words[begin + size :]
            if candidate and still(candidate):
                words = candidate
            else:
                begin += size
        size //= 2
    for number in range(len(words)):
        for plainer in _plainer(words[number]):
            candidate = [*words[:number], plainer, *words[number + 1 :]]
            if still(candidate):
                words = candidate
    for number in reversed(range(len(words))):
        candidate = words[:number] + words[number + 1 :]
        if candidate and still(candidate):
            words = candidate
    return words


def _plainer(words: Words) -> list[Words]:
    """Returns variants of the operation without options that may not matter."""
    found = []
    if "inner" in words and "other" not in words:
        found.append(words["inner"])
    for name in ("layout", "checksums", "async", "follow"):
        if words.get(name):
            found.append({k: v for k, v in words.items() if k != name})
    for name in ("at", "source", "target", "base", "root"):
        style, _, place = str(words.get(name, "")).partition(":")
        if place and style in ("relative", "slash", "dots"):
            found.append(words | {name: f"absolute:{place}"})
    if len(words.get("values", ())) > 1:
        found.append(words | {"values": words["values"][:1]})
    return found
