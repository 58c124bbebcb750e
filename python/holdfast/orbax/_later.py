"""The answer of a name that a later release will bring."""

from __future__ import annotations

from collections.abc import Collection


def attribute_error(
    module: str, name: str, later: Collection[str]
) -> AttributeError:
    """The error for a module's missing attribute.

    Args:
        module: its full name.
        name: the attribute.
        later: names that Orbax has and this release does not have yet.
    """
    if name in later:
        return AttributeError(
            f"{module}.{name} is not part of this release yet", name=name
        )
    return AttributeError(
        f"module {module!r} has no attribute {name!r}", name=name
    )


def not_implemented(what: str) -> NotImplementedError:
    """The error for an option or a call that comes later."""
    return NotImplementedError(f"{what} is not part of this release yet")
