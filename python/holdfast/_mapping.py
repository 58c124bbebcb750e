"""`holdfast.open`: a checkpoint as a mapping of names to lazy arrays.

Only metadata is read until an array is indexed.
"""

from __future__ import annotations

import difflib
import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from holdfast import (
    _array_kinds,
    _engine,
    _table,
    _target,
    errors,
)
from holdfast._closing import ClosedAtExit
from holdfast._stored_array import StoredArray, cannot_map

__all__ = ["Checkpoint"]


class Checkpoint(Mapping[str, Any], ClosedAtExit):
    """An opened checkpoint, read-only: maps names to a StoredArray or a small
    value.

    Scalars, strings, None and empty containers are returned as values. A name
    consists of the keys that lead to a leaf, joined with dots. Names are in the
    checkpoint's own order.

    As a context manager it closes itself. A pickle stores the path and no
    values: unpickling, also in another process, opens the checkpoint again.
    """

    def __init__(
        self,
        path: str,
        *,
        step: int | None = None,
        item: str = "",
        verify: bool = True,
    ) -> None:
        """Opens the checkpoint; see `holdfast.open`."""
        engine = _engine.Checkpoint(
            path, step=step, item=item, verify=verify, stored_sizes=True
        )
        self._opened: _engine.Checkpoint | None = engine
        self._path = engine.path
        self._options: dict[str, Any] = {"item": item, "verify": verify}
        self._index = {name: i for i, name in enumerate(engine.leaf_names)}

    @property
    def _live(self) -> _engine.Checkpoint:
        if self._opened is None:
            raise ValueError(
                f"{self._path}: the checkpoint was closed; open it again"
            )
        return self._opened

    def close(self) -> None:
        """Closes the checkpoint. Only `path` and the names remain available.

        Arrays that were read stay valid; a StoredArray can no longer be read.
        Closing twice does nothing.
        """
        self._opened = None

    def __reduce__(self) -> tuple[Any, ...]:
        # This is the step's own path, so newer steps do not change the result.
        return functools.partial(Checkpoint, **self._options), (self._path,)

    def _ipython_key_completions_(self) -> list[str]:
        return list(self._index)

    @property
    def path(self) -> str:
        """The absolute path of the chosen step or checkpoint."""
        return self._path

    def explain(self, target: Any, *, cast: bool = False) -> list[str]:
        """Lists the reasons why `holdfast.load(path, target)` would fail,
        without reading an array.

        Args:
          target: a tree that `holdfast.load` accepts.
          cast: as for `holdfast.load`; if True, dtypes may differ.

        Returns:
          One line for each difference in any leaf: names on only one side (for
          the first ten, with the name that the leaf may have on the other
          side), and different shapes, dtypes and kinds. The list is empty if
          the target would load.

        Raises:
          ValueError: the checkpoint was closed.
        """
        return _target.explain(self._live, target, cast=cast)

    @property
    def notes(self) -> list[str]:
        """Remarks about a checkpoint that seems to be intact."""
        return self._live.notes

    @property
    def bases(self) -> list[str]:
        """The steps that are needed to read a delta; the full step is last."""
        return self._live.bases

    @property
    def sources(self) -> list[str]:
        """The files that a view refers to; empty for other checkpoints."""
        return self._live.sources

    @property
    def format(self) -> str:
        """ "orbax", "orbax-v1", "ocdbt", "zarr", "zarr3" or "delta"."""
        return self._live.format

    @property
    def step(self) -> int | None:
        """The number of a manager's step; None for other checkpoints."""
        return self._live.step

    @property
    def item_directories(self) -> dict[str, str]:
        """The items of a composite checkpoint: their directories below `path`,
        by name."""
        return self._live.items

    @property
    def custom_metadata(self) -> Any:
        """The metadata that the program saved with the tree, or None."""
        text = self._live.custom_metadata
        return json.loads(text) if text else None

    @property
    def leaves(self) -> list[_engine.LeafInfo]:
        """A description of each leaf, available without reading."""
        return self._live.leaves

    def __getitem__(self, name: str) -> Any:
        """Returns a StoredArray for an array, and the value for any other leaf.

        A pickled object in a foreign format becomes the plain value that it
        represents: containers, numbers, strings and numpy arrays, and a
        PickleRecord for anything else.

        Raises KeyError, naming close matches, if there is no leaf of that name.
        """
        leaf = self._index.get(name)
        if leaf is None:
            raise KeyError(self._no_such_leaf(name))
        info = self._live.leaves[leaf]
        if info.problem is not None:
            raise info.problem
        if info.kind == "array":
            return StoredArray(self, leaf)
        value = self._live.read(leaf)
        if info.kind == "object":
            return _engine.read_torch_file(value)
        return value

    def fingerprints(self) -> dict[str, str]:
        """Returns the fingerprints stored by the save, by name. The result may
        be empty.

        No array is read. `holdfast.fingerprint` returns equal fingerprints for
        equal arrays.
        """
        item = self._options["item"]
        with_them = _engine.Checkpoint(
            self._live.path, item=item, fingerprints=True
        )
        return {
            leaf.name: leaf.fingerprint
            for leaf in with_them.leaves
            if leaf.fingerprint
        }

    def mmap(
        self,
        select: Sequence[str] | str | None = None,
        *,
        arrays: Literal["numpy", "torch"] = "numpy",
        require: bool = False,
        verify_mapped: bool = False,
    ) -> dict[str, Any]:
        """Maps arrays from their files, without reading them, and returns them
        by name.

        Arrays that cannot be mapped are read (`why_not_mmap` lists them). The
        conditions, including those on the files, are the same as for
        `holdfast.load(mmap=True)`.

        Args:
          select: names or prefixes of names, as for `holdfast.load`.
          arrays: "numpy" for read-only arrays; "torch" for tensors, where a
            write changes this process's copy of a page and never the file.
          require: raise for an array that cannot be mapped, instead of reading
            it.
          verify_mapped: as for `StoredArray.mmap`.

        Raises:
          errors.NotFoundError: there is no leaf for `select`.
          errors.InvalidArgumentError: `require` is set and an array cannot be
            mapped.
          errors.DataLossError: as for `StoredArray.mmap`.
        """
        engine = self._live
        convert = _array_kinds.converter(arrays)
        leaves = self._array_leaves(select)
        values: list[Any] = []
        for leaf, array in zip(
            leaves,
            engine.map(
                leaves, copy_on_write=arrays == "torch", verify=verify_mapped
            ),
            strict=True,
        ):
            if isinstance(array, str) and require:
                raise cannot_map(engine.leaves[leaf].name, array)
            values.append(
                engine.read(leaf) if isinstance(array, str) else array
            )
        names = [engine.leaves[leaf].name for leaf in leaves]
        return dict(
            zip(names, convert(values) if convert else values, strict=True)
        )

    def why_not_mmap(
        self, select: Sequence[str] | str | None = None
    ) -> dict[str, str]:
        """Returns the reason, by name, for each array that `mmap` would read
        instead of mapping it. This call reads no array.

        Raises NotFoundError if there is no leaf for `select`.
        """
        leaves = self._array_leaves(select)
        return {
            self._live.leaves[leaf].name: why
            for leaf, why in zip(leaves, self._live.map(leaves), strict=True)
            if isinstance(why, str)
        }

    def _array_leaves(self, select: Sequence[str] | str | None) -> list[int]:
        from holdfast._target import selected

        wanted = [select] if isinstance(select, str) else select
        for key in wanted or ():
            if not any(selected(name, [key]) for name in self._index):
                raise errors.NotFoundError(self._no_such_leaf(key))
        return [
            leaf
            for name, leaf in self._index.items()
            if self._live.leaves[leaf].kind == "array"
            and (wanted is None or selected(name, wanted))
        ]

    def __contains__(self, name: object) -> bool:
        return name in self._index

    def __iter__(self) -> Iterator[str]:
        return iter(self._index)

    def __len__(self) -> int:
        return len(self._index)

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def digest(self, name: str) -> str:
        """Returns the hex sha256 of a leaf's elements in C order."""
        leaf = self._index.get(name)
        if leaf is None:
            raise KeyError(self._no_such_leaf(name))
        return self._live.digest(leaf)

    def _no_such_leaf(self, name: str) -> str:
        below = [n for n in self._index if n.startswith(f"{name}.")]
        close = below or difflib.get_close_matches(
            str(name), list(self._index), n=3
        )
        hint = f"; there is {', '.join(close[:3])}" if close else ""
        return f"{self.path}: no leaf {name!r}{hint}"

    def __repr__(self) -> str:
        if self._opened is None:
            return f"<holdfast.Checkpoint {self._path}: closed>"
        return _table.as_text(self._title(), self._live.leaves)

    def _repr_html_(self) -> str:
        from holdfast import _pages

        if self._opened is None:
            return _pages.of_text(repr(self))
        return _pages.of_leaves(self._title(), self._live.leaves)

    def _title(self) -> str:
        step = "" if self.step is None else f", step {self.step}"
        return f"{self.path} ({self.format}{step})"
