"""Older names of a Checkpointer's methods."""

from __future__ import annotations

import warnings
from typing import Any


class OlderNames:
    """Methods that are called otherwise now, of a class that has those."""

    def save_pytree(self, *args: Any, **kwargs: Any) -> Any:
        """Deprecated: `save`."""
        return self._newer("save_pytree", "save", *args, **kwargs)

    def save_pytree_async(self, *args: Any, **kwargs: Any) -> Any:
        """Deprecated: `save_async`."""
        return self._newer("save_pytree_async", "save_async", *args, **kwargs)

    def load_pytree(self, *args: Any, **kwargs: Any) -> Any:
        """Deprecated: `load`."""
        return self._newer("load_pytree", "load", *args, **kwargs)

    def load_pytree_async(self, *args: Any, **kwargs: Any) -> Any:
        """Deprecated: `load_async`."""
        return self._newer("load_pytree_async", "load_async", *args, **kwargs)

    def pytree_metadata(self, *args: Any, **kwargs: Any) -> Any:
        """Deprecated: `metadata`."""
        return self._newer("pytree_metadata", "metadata", *args, **kwargs)

    def _newer(self, old: str, new: str, *args: Any, **kwargs: Any) -> Any:
        warnings.warn(
            f"{old} is deprecated. Use `{new}` instead.",
            DeprecationWarning,
            stacklevel=3,
        )
        return getattr(self, new)(*args, **kwargs)
