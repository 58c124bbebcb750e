"""A failing list of operations is made short: operations are left out as long
as the same is broken."""

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
    """The shortest list that was found: none of its operations can be left out
    by itself, where `plays_max` were enough; options are made plain, too.

    Args:
        words: fails.
        fails: whether a list still shows the failure.
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
    """The operation without what may not matter."""
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
