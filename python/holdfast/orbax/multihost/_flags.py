"""The flags that Orbax defines, where a program has absl."""

from __future__ import annotations

from typing import Any


class _Flag:
    """A flag that nobody can set: its default."""

    def __init__(self, name: str, default: bool) -> None:
        self.name = name
        self.default = default
        self.value = default


def define_bool(name: str, text: str, *, default: bool = False) -> Any:
    """A flag of absl's.

    Args:
        name: the flag's.
        text: what it does.
        default: its value, unless the program is told otherwise.

    Returns:
        What has `value`, which raises while absl has not parsed the flags.
    """
    try:
        from absl import flags
    except ImportError:
        return _Flag(name, default)
    # Orbax, in the same program, may define it before or after.
    return flags.DEFINE_bool(name, default, text, allow_override=True)
