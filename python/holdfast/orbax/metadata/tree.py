"""A checkpoint's tree of metadata: `orbax.checkpoint.metadata.tree`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, Protocol, runtime_checkable

from holdfast.orbax._devices.optional_jax import imported_jax
from holdfast.orbax._trees.empty_values import (
    is_empty_typestr,
    override_empty_value_typestr,
)
from holdfast.orbax.options import PyTreeMetadataOptions


@dataclasses.dataclass
class ValueMetadataEntry:
    """The entry of a leaf in `_METADATA`.

    Attributes:
        value_type: "np.ndarray", "jax.Array", "scalar", "string", ...
        skip_deserialize: the leaf has no separate stored array.
        write_shape: the shape that one device wrote, in elements.
    """

    value_type: str
    skip_deserialize: bool = False
    write_shape: tuple[int, ...] | None = None

    def to_json(self) -> dict[str, Any]:
        """Returns the entry in the form of `_METADATA`."""
        entry: dict[str, Any] = {
            "value_type": self.value_type,
            "skip_deserialize": self.skip_deserialize,
        }
        if self.write_shape is not None:
            entry["write_shape"] = list(self.write_shape)
        return entry

    @classmethod
    def from_json(
        cls,
        json_dict: dict[str, Any],
        pytree_metadata_options: PyTreeMetadataOptions,
    ) -> ValueMetadataEntry:
        """Makes the object from an entry in `_METADATA`.

        Args:
            json_dict: the entry.
            pytree_metadata_options: without rich types, empty namedtuples
                become None.

        Raises:
            KeyError: the entry lacks a field.
        """
        shape = json_dict.get("write_shape")
        return ValueMetadataEntry(
            override_empty_value_typestr(
                json_dict["value_type"], pytree_metadata_options
            ),
            json_dict["skip_deserialize"],
            None if shape is None else tuple(shape),
        )

    @classmethod
    def build(cls, info: Any, save_arg: Any) -> ValueMetadataEntry:
        """Returns the entry of a parameter that is being saved.

        Args:
            info: the parameter's ParamInfo, with `value_typestr`.
            save_arg: ignored; accepted because Orbax has it.

        Raises:
            AssertionError: `value_typestr` is not set.
        """
        if info.value_typestr is None:
            raise AssertionError(
                "Must set `value_typestr` in `ParamInfo` when saving."
            )
        return ValueMetadataEntry(
            info.value_typestr,
            is_empty_typestr(info.value_typestr),
            info.write_shape,
        )


@runtime_checkable
class TreeMetadata(Protocol):
    """Metadata of a tree: itself a pytree, and a container like the tree.

    `tree` has the checkpoint's structure, with a `metadata.value.Metadata` (or
    an empty container) at each leaf.
    """

    @property
    def tree(self) -> Any: ...

    @property
    def custom_metadata(self) -> Any | None: ...

    @property
    def use_zarr3(self) -> bool: ...

    def tree_flatten(self) -> Any: ...

    def tree_flatten_with_keys(self) -> Any: ...

    @classmethod
    def tree_unflatten(cls, aux_data: Any, flat_tree: Any) -> Any: ...

    def __getitem__(self, key: str | int) -> Any:
        return self.tree[key]

    def __contains__(self, key: str | int) -> bool:
        return key in self.tree

    def __len__(self) -> int:
        return len(self.tree)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tree)

    def get(self, key: str, default: Any = None) -> Any:
        """Returns the child at `key`, or `default`."""
        try:
            return self[key]
        except (KeyError, IndexError):
            return default

    def keys(self) -> Any:
        """Returns the keys of the outermost dict."""
        return self.tree.keys()

    def values(self) -> Any:
        """Returns the values of the outermost dict."""
        return self.tree.values()

    def items(self) -> Any:
        """Returns the items of the outermost dict."""
        return self.tree.items()

    @classmethod
    def build(
        cls,
        tree: Any,
        *,
        custom_metadata: Any | None = None,
        use_zarr3: bool = False,
    ) -> TreeMetadata: ...


class _TreeMetadataImpl(TreeMetadata):
    """The `TreeMetadata` that `metadata()` returns."""

    def __init__(
        self,
        *,
        tree: Any,
        custom_metadata: Any | None = None,
        use_zarr3: bool = False,
    ) -> None:
        if tree is None:
            raise ValueError(f"Unsupported tree type: {type(tree)}")
        self._tree = tree
        self._custom_metadata = custom_metadata
        self._use_zarr3 = use_zarr3
        _register_pytree()

    @property
    def tree(self) -> Any:
        """The tree itself."""
        return self._tree

    @property
    def custom_metadata(self) -> Any | None:
        """The JSON value that was passed to the save, or None."""
        return self._custom_metadata

    @property
    def use_zarr3(self) -> bool:
        """Whether arrays are stored as zarr 3."""
        return self._use_zarr3

    def __repr__(self) -> str:
        return (
            f"TreeMetadata(\n  custom_metadata={self.custom_metadata}\n"
            f"  tree={self.tree}\n  use_zarr3={self.use_zarr3}\n)"
        )

    def tree_flatten_with_keys(self) -> tuple[Any, Any]:
        """Returns the children of the outermost container, and the data to
        rebuild it."""
        jax = imported_jax()
        assert jax is not None
        tree, util = self._tree, jax.tree_util
        if isinstance(tree, dict):
            pairs = [(util.DictKey(key), tree[key]) for key in tree]
        elif isinstance(tree, tuple) and hasattr(tree, "_fields"):
            fields = zip(tree._fields, tree, strict=True)
            pairs = [(util.DictKey(name), child) for name, child in fields]
        elif isinstance(tree, list | tuple):
            pairs = [(util.SequenceKey(i), c) for i, c in enumerate(tree)]
        else:
            pairs = [(util.GetAttrKey("tree"), tree)]
        keys = tuple(tree) if isinstance(tree, dict) else None
        properties = (repr(self._custom_metadata), self._use_zarr3)
        aux = _Aux(type(tree), keys, properties, self._custom_metadata)
        return pairs, aux

    def tree_flatten(self) -> tuple[Any, Any]:
        """Returns the result of `tree_flatten_with_keys` without the keys."""
        pairs, aux = self.tree_flatten_with_keys()
        return [child for _, child in pairs], aux

    @classmethod
    def tree_unflatten(cls, aux_data: _Aux, flat_tree: Any) -> Any:
        """Reverses `tree_flatten`."""
        kind, children = aux_data.kind, list(flat_tree)
        tree: Any
        if aux_data.keys is not None:
            tree = dict(zip(aux_data.keys, children, strict=True))
        elif issubclass(kind, tuple) and hasattr(kind, "_fields"):
            tree = kind(*children)
        elif issubclass(kind, list | tuple):
            tree = kind(children)
        else:
            (tree,) = children
        return cls(
            tree=tree,
            custom_metadata=aux_data.custom_metadata,
            use_zarr3=aux_data.properties[1],
        )

    @classmethod
    def build(
        cls,
        tree: Any,
        *,
        custom_metadata: Any | None = None,
        use_zarr3: bool = False,
    ) -> TreeMetadata:
        """Returns the metadata of a tree."""
        return cls(
            tree=tree, custom_metadata=custom_metadata, use_zarr3=use_zarr3
        )


@dataclasses.dataclass(frozen=True)
class _Aux:
    """The extra data of a flattened TreeMetadata; hashable, as jax requires."""

    kind: type
    keys: tuple[Any, ...] | None
    properties: tuple[str, bool]
    custom_metadata: Any = dataclasses.field(compare=False, default=None)


_registered_with: list[Any] = []


def _register_pytree() -> None:
    """Registers the class with jax once the program has imported jax."""
    jax = imported_jax()
    if jax is not None and not _registered_with:
        # jax lacks `tree_util` while jax itself is being imported.
        register = getattr(
            getattr(jax, "tree_util", None), "register_pytree_with_keys", None
        )
        if register is None:
            return
        register(
            _TreeMetadataImpl,
            _TreeMetadataImpl.tree_flatten_with_keys,
            _TreeMetadataImpl.tree_unflatten,
        )
        _registered_with.append(jax)


def build_default_tree_metadata(
    tree: Any, *, custom_metadata: Any | None = None, use_zarr3: bool = False
) -> TreeMetadata:
    """Returns the `TreeMetadata` of a tree."""
    return _TreeMetadataImpl.build(
        tree, custom_metadata=custom_metadata, use_zarr3=use_zarr3
    )


def unwrap(tree: Any) -> Any:
    """Returns the tree in a TreeMetadata, and any other value unchanged."""
    return tree.tree if isinstance(tree, _TreeMetadataImpl) else tree


def is_tree_metadata(value: Any) -> bool:
    """Returns whether the value is a result of `metadata()`."""
    return isinstance(value, _TreeMetadataImpl)
