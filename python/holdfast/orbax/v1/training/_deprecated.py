"""Older names of a Checkpointer's methods."""

from __future__ import annotations

import warnings
from typing import Any


def _warn(old: str, new: str) -> None:
    warnings.warn(
        f"{old} is deprecated. Use `{new}` instead.",
        DeprecationWarning,
        stacklevel=3,
    )


class OlderNames:
    """Methods that are called otherwise now, of a class that has those."""

    def save_pytree(self, *args: Any, **kwargs: Any) -> Any:
        """Deprecated: `save`."""
        _warn("save_pytree", "save")
        return self._newer("save", *args, **kwargs)

    def save_pytree_async(self, *args: Any, **kwargs: Any) -> Any:
        """Deprecated: `save_async`."""
        _warn("save_pytree_async", "save_async")
        return self._newer("save_async", *args, **kwargs)

    def load_pytree(self, *args: Any, **kwargs: Any) -> Any:
        """Deprecated: `load`."""
        _warn("load_pytree", "load")
        return self._newer("load", *args, **kwargs)

    def load_pytree_async(self, *args: Any, **kwargs: Any) -> Any:
        """Deprecated: `load_async`."""
        _warn("load_pytree_async", "load_async")
        return self._newer("load_async", *args, **kwargs)

    def pytree_metadata(self, *args: Any, **kwargs: Any) -> Any:
        """Deprecated: `metadata`."""
        _warn("pytree_metadata", "metadata")
        return self._newer("metadata", *args, **kwargs)

    def _newer(self, name: str, *args: Any, **kwargs: Any) -> Any:
        return getattr(self, name)(*args, **kwargs)
