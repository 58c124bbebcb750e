"""The error for modules that create some attributes on first use."""

from __future__ import annotations


def attribute_error(module: str, name: str) -> AttributeError:
    """Returns the error for a module's missing attribute.

    Args:
        module: the module's full name.
        name: the attribute's name.
    """
    return AttributeError(
        f"module {module!r} has no attribute {name!r}", name=name
    )
