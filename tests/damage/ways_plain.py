"""Ways to read through holdfast, holdfast.megatron and holdfast.torch."""

from __future__ import annotations

import contextlib
import itertools
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import numpy as np
from checkpoints import (
    NEW,
    RANKS,
    Layout,
    megatron_parts,
    numbers,
    plain_tree,
)
from ways import Subject, is_orbax, is_step, is_tree, way

import holdfast
from holdfast import megatron

FORMATS = (
    "orbax",
    "orbax-v1",
    "megatron-zarr",
    "safetensors",
    "dcp",
    "torch-dist",
    "npz",
)
ROWS = 50


def has_plain_tree(layout: Layout) -> bool:
    return layout.kind in ("tree", "state", "foreign")


@way("load")
def load(subject: Subject) -> Any:
    return holdfast.load(subject.path)


@way("load of the root", is_step)
def load_root(subject: Subject) -> Any:
    return holdfast.load(subject.root)


@way("load, one thread, little memory")
def load_little(subject: Subject) -> Any:
    return holdfast.load(subject.path, threads=1, memory_bytes=1 << 16)


@way("load as jax", is_orbax)
def load_jax(subject: Subject) -> Any:
    return holdfast.load(subject.path, arrays="jax")


@way("load into torch's", has_plain_tree)
def load_torch(subject: Subject) -> Any:
    return holdfast.load(subject.path, select=["wide", "low"], arrays="torch")


def abstract(leaf: Any) -> Any:
    """Returns a leaf for a target: abstract for jax, else one like `leaf` with
    other elements."""
    if isinstance(leaf, jax.Array):
        return jax.ShapeDtypeStruct(
            leaf.shape, leaf.dtype, sharding=leaf.sharding
        )
    return np.zeros_like(leaf) if isinstance(leaf, np.ndarray) else leaf


def target(subject: Subject) -> Any:
    layout = subject.layout
    tree = layout.tree(NEW) if layout.is_orbax else plain_tree(NEW)
    return jax.tree.map(abstract, tree)


@way("load into a target", has_plain_tree)
def load_target(subject: Subject) -> Any:
    return holdfast.load(subject.path, target(subject), group=None)


@way("load of some keys")
def load_keys(subject: Subject) -> Any:
    p = subject.prefix
    names = [f"{p}big", f"{p}wide"]
    if subject.layout.kind == "items":
        names.append("meta")
    return holdfast.load(subject.path, select=names)


@way("load of an item", lambda layout: layout.kind in ("state", "items"))
def load_item(subject: Subject) -> Any:
    return holdfast.load(subject.path, item="state")


@way("open, all")
def open_all(subject: Subject) -> Any:
    opened = holdfast.open(subject.path)
    return [
        {name: _value(opened[name]) for name in opened},
        opened.custom_metadata,
        opened.format,
        opened.step,
        opened.item_directories,
        [
            (leaf.name, leaf.kind, leaf.dtype, leaf.shape)
            for leaf in opened.leaves
        ],
    ]


def _value(leaf: Any) -> Any:
    return leaf[...] if isinstance(leaf, holdfast.StoredArray) else leaf


def _arrays(subject: Subject) -> dict[str, Any]:
    opened = holdfast.open(subject.path)
    return {
        name: leaf
        for name in opened
        if isinstance(leaf := opened[name], holdfast.StoredArray)
        and leaf.ndim > 0
    }


@way("open, rows")
def open_rows(subject: Subject) -> Any:
    """Reads every row, a few at a time."""
    return {
        name: [array[i : i + ROWS] for i in range(0, len(array), ROWS)]
        for name, array in _arrays(subject).items()
    }


@way("open, one row at a time")
def open_each(subject: Subject) -> Any:
    return {
        name: [array[i] for i in range(len(array))]
        for name, array in _arrays(subject).items()
        if len(array) < 100
    }


@way("open, strided")
def open_strided(subject: Subject) -> Any:
    """Reads every row, by three interleaved slices, the last backwards."""
    found = {}
    for name, array in _arrays(subject).items():
        last = 2 + 3 * ((len(array) - 3) // 3)
        found[name] = [array[0::3], array[1::3], array[last::-3]]
    return found


@way("open, columns")
def open_columns(subject: Subject) -> Any:
    found = {}
    for name, array in _arrays(subject).items():
        if array.ndim == 2:
            third = array.shape[1] // 3
            found[name] = [array[:, :third], array[:, third:]]
    return found


@way("digest")
def digest(subject: Subject) -> Any:
    return holdfast.digest(subject.path)


@way("stats")
def stats(subject: Subject) -> Any:
    rows = holdfast.stats(subject.path).leaves
    _raise_errors(rows)
    return [str(row) for row in rows]


def _raise_errors(rows: Any) -> None:
    """Raises the first error that `rows` has for an unreadable leaf."""
    for row in rows:
        if row.error is not None:
            raise RuntimeError(f"{row.name}: {row.error}")


@way("diff with the whole")
def diff(subject: Subject) -> Any:
    result = holdfast.diff(subject.whole_path, subject.path)
    _raise_errors(result.leaves)
    return bool(result), [str(leaf) for leaf in result.leaves]


@way("steps", is_step)
def steps(subject: Subject) -> Any:
    return holdfast.steps(subject.root)


def _converted(subject: Subject, form: str) -> Any:
    made = subject.scratch / "converted"
    if form in ("safetensors", "npz"):
        made = made.with_suffix(f".{form}")
    holdfast.convert(subject.path, made, format=form, durable=False)
    return _load_if_good(made)


def _load_if_good(made: Any) -> Any:
    """Loads a copy that was made without an error, and so must be readable."""
    try:
        return holdfast.load(made)
    except Exception as error:
        return f"made without an error, but: {error}"


def _enter_conversions() -> None:
    for form in FORMATS:
        way(f"convert to {form}")(
            lambda subject, form=form: _converted(subject, form)
        )


_enter_conversions()


@way("merge")
def merge(subject: Subject) -> Any:
    made = subject.scratch / "merged"
    sources = {"x": subject.path, "y": subject.whole_path}
    holdfast.merge(sources, made, format="orbax", durable=False)
    return _load_if_good(made)


@way("average", has_plain_tree)
def average(subject: Subject) -> Any:
    made = subject.scratch / "averaged"
    holdfast.merge(
        [subject.path, subject.whole_path],
        made,
        average=True,
        format="orbax",
        durable=False,
    )
    return _load_if_good(made)


class _Threads:
    """Passes messages between ranks that are threads."""

    def __init__(self) -> None:
        self._messages: dict[Any, bytes] = {}
        self._changed = threading.Condition()

    def rank(self, number: int, count: int) -> Any:
        threads = self

        class Transport:
            rank = number
            size = count

            def send(self, to: int, topic: str, message: bytes) -> None:
                with threads._changed:
                    threads._messages[number, to, topic] = message
                    threads._changed.notify_all()

            def receive(
                self, from_: int, topic: str, timeout_seconds: float
            ) -> bytes | None:
                key = from_, number, topic
                with threads._changed:
                    threads._changed.wait_for(
                        lambda: key in threads._messages, timeout_seconds
                    )
                    return threads._messages.pop(key, None)

        return Transport()


@way("load by two ranks together", is_tree)
def load_together(subject: Subject) -> Any:
    threads = _Threads()

    def run(number: int) -> Any:
        group = holdfast.ProcessGroup(threads.rank(number, 2))
        return holdfast.load(
            subject.path, target(subject), group=group, timeout_seconds=60.0
        )

    with ThreadPoolExecutor(2) as ranks:
        return list(ranks.map(run, range(2)))


def is_megatron(layout: Layout) -> bool:
    return layout.kind == "megatron"


@contextlib.contextmanager
def _absent_is_an_error() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error", megatron.AbsentChunksWarning)
        yield


@way("megatron.load_plain_tensors", is_megatron)
def megatron_plain(subject: Subject) -> Any:
    with _absent_is_an_error():
        return megatron.load_plain_tensors(subject.path)


@way("megatron.load_ranks", is_megatron)
def megatron_ranks(subject: Subject) -> Any:
    with _absent_is_an_error():
        parts = [megatron_parts(NEW, rank) for rank in range(RANKS)]
        return megatron.load_ranks(
            [
                {n: p for n, p in part.items() if n in numbers(NEW)}
                for part in parts
            ],
            subject.path,
        )


@way("megatron.load, the common state", is_megatron)
def megatron_common(subject: Subject) -> Any:
    return [
        megatron.load_common_state_dict(subject.path),
        megatron.load_tensors_metadata(subject.path),
    ]


@way("torch.StorageReader", lambda layout: layout.kind in ("torch", "foreign"))
def torch_reader(subject: Subject) -> Any:
    import torch
    import torch.distributed.checkpoint as dcp

    from holdfast.torch import StorageReader

    wanted = {"wide": torch.zeros(96, 512)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            dcp.load(wanted, storage_reader=StorageReader(subject.path))
        except dcp.CheckpointException as error:  # not an Exception
            raise RuntimeError(str(error)) from None
    return wanted


def everything(subject: Subject) -> Any:
    """Reads everything in the checkpoint with holdfast, to check a reader that
    reports no damage."""
    opened = holdfast.open(subject.path)
    return list(
        itertools.chain(
            [holdfast.load(subject.path), opened.custom_metadata],
            [holdfast.load(subject.root)] if is_step(subject.layout) else [],
        )
    )
