"""The error of modules that create some of their attributes on first use."""

from __future__ import annotations


def attribute_error(module: str, name: str) -> AttributeError:
    """The error for a module's missing attribute.

    Args:
        module: its full name.
        name: the attribute.
    """
    return AttributeError(
        f"module {module!r} has no attribute {name!r}", name=name
    )
