"""The flags that Orbax defines, for programs that have absl."""

from __future__ import annotations

from typing import Any


class _Flag:
    """A flag that always has its default value."""

    def __init__(self, name: str, default: bool) -> None:
        self.name = name
        self.default = default
        self.value = default


def define_bool(name: str, text: str, *, default: bool = False) -> Any:
    """Defines an absl flag.

    Args:
        name: the flag's name.
        text: what the flag does.
        default: the flag's value if the command line does not set it.

    Returns:
        An object with `value`, which raises until absl has parsed the flags.
    """
    try:
        from absl import flags
    except ImportError:
        return _Flag(name, default)
    # Orbax, in the same program, may define the flag earlier or later.
    return flags.DEFINE_bool(name, default, text, allow_override=True)
