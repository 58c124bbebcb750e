"""Composite: named items, as attributes and as a mapping."""

from __future__ import annotations

from collections.abc import Iterator, KeysView, Mapping, ValuesView
from typing import Any


class Composite(Mapping[str, Any]):
    """An immutable mapping from names to items, which are also attributes.

    A name that this class itself uses (`keys`, `items`) is only available as
    `[name]`.
    """

    _items: dict[str, Any]

    def __init__(self, **items: Any) -> None:
        """Makes a Composite.

        Args:
            **items: the items by name.

        Raises:
            ValueError: a name begins with "__".
        """
        super().__setattr__("_items", items)
        own_names = frozenset(dir(self))
        for name, item in items.items():
            if name.startswith("__"):
                raise ValueError(
                    f'Composite keys cannot start with "__". Got: {name}'
                )
            if name not in own_names:
                super().__setattr__(name, item)

    def __getitem__(self, key: str) -> Any:
        if key not in self._items:
            raise KeyError(
                f"Unknown key: {key}. Available keys: {self._items.keys()}"
            )
        return self._items[key]

    def __getattr__(self, key: str) -> Any:
        # During a copy the object has no items yet.
        if key == "_items":
            raise AttributeError(key)
        return self[key]

    def __setattr__(self, key: str, value: Any) -> None:
        raise ValueError("Composite is immutable after initialization.")

    def __contains__(self, key: object) -> bool:
        return key in self._items

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def keys(self) -> KeysView[str]:
        """Returns the names."""
        return self._items.keys()

    def values(self) -> ValuesView[Any]:
        """Returns the items."""
        return self._items.values()

    def __and__(self, other: Mapping[str, Any]) -> Composite:
        """Returns the items of this Composite whose names `other` also has."""
        return Composite(**{k: v for k, v in self._items.items() if k in other})

    def __or__(self, other: Mapping[str, Any]) -> Composite:
        """Returns the items of both; those of `other` take precedence."""
        return Composite(**{**self._items, **other})

    def __repr__(self) -> str:
        return f"Composite({self._items!r})"
