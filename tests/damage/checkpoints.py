"""Defines LAYOUTS, the checkpoints that are damaged, each saved by a function.

Each is step 7 of a root whose step 6 is an older save with the same names,
shapes and sizes but other values. Most elements are noise, so that chunks of
equal shape have the same length in any compression, and the same offsets in
both steps.
"""

from __future__ import annotations

import dataclasses
import functools
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import ml_dtypes
import numpy as np
import orbax.checkpoint as stock
from orbax.checkpoint import v1 as stock_v1

import holdfast
import holdfast.orbax as dropin
from holdfast import megatron
from holdfast.orbax import v1 as dropin_v1

OLD, NEW = 6, 7
CUSTOM = {"run": "seven", "sizes": [1, 2, 3]}
DOCUMENT = {"loss": [0.5, 0.25], "name": "document"}
# Cuts "big" into three chunks, each with several checksummed blocks.
CHUNK_BYTES = 384 << 10
RANKS = 3


@dataclasses.dataclass(frozen=True)
class Layout:
    """One layout in which a checkpoint is written.

    Attributes:
      save: a function of the step's directory and number.
      kind: "tree" (one tree at the step itself), "state" (one tree below
        `item`), "items" (a tree "state" and a document "meta"), "megatron",
        "foreign", "torch".
      item: the directory of the tree below the step.
      entry: what to open, below the step: "" is the step itself.
      writer: "holdfast", or "orbax" for stock Orbax's own files.
      covered: whether every byte has a checksum that holdfast wrote; otherwise
        results are compared with a reader that uses no checksums.
      is_v1: whether it is made for Orbax's v1 interface.
      manager: whether a CheckpointManager made it.
      lacks_text: whether its tree is `standard_tree`.
    """

    save: Callable[[Path, int], None]
    kind: str = "tree"
    item: str = ""
    entry: str = ""
    writer: str = "holdfast"
    covered: bool = True
    is_v1: bool = False
    manager: bool = False
    lacks_text: bool = False

    @property
    def is_orbax(self) -> bool:
        return self.kind in ("tree", "state", "items")

    def tree(self, step: int) -> Any:
        """Returns the tree in a step of one of Orbax's layouts."""
        return standard_tree(step) if self.lacks_text else full_tree(step)


def mesh() -> Any:
    return jax.sharding.Mesh(
        np.array(jax.devices()[:4]).reshape(2, 2), ("data", "model")
    )


def noise(step: int, number: int, *shape: int) -> Any:
    draw = np.random.default_rng([step, number])
    return draw.integers(0, 1 << 32, shape, dtype=np.uint32)


@functools.cache
def numbers(step: int) -> dict[str, Any]:
    """Returns arrays that every format can hold."""
    draw = np.random.default_rng([step, 99])
    return {
        "big": noise(step, 1, 576, 512),
        "wide": draw.normal(size=(96, 512)).astype(np.float32),
        "low": draw.normal(size=(48, 32)).astype(ml_dtypes.bfloat16),
        "small": np.arange(5, dtype=np.int32) + step,
    }


@functools.cache
def plain_tree(step: int) -> Any:
    """Returns arrays that numpy can hold, and small values."""
    return {
        "a": {"w": noise(step, 2, 64, 128)},
        "b": {"w": noise(step, 3, 64, 128)},
        **numbers(step),
        "count": step,
        "empty": {},
        "list": [step + 1, step + 0.5],
        "rate": step / 2,
        "text": f"the text of {step}",
    }


@functools.cache
def full_tree(step: int) -> Any:
    """Returns `plain_tree` with sharded arrays and random keys added."""
    draw = np.random.default_rng([step, 98])
    values = draw.normal(size=(64, 64)).astype(np.float32)
    sharding = jax.sharding.NamedSharding(
        mesh(), jax.sharding.PartitionSpec("data", "model")
    )
    return {
        **plain_tree(step),
        "key": jax.random.key(step, impl="rbg"),
        "none": None,
        "placed": jax.device_put(values, sharding),
    }


def standard_tree(step: int) -> Any:
    """Returns a tree without strings, which StandardSave does not accept."""
    tree = dict(full_tree(step))
    del tree["text"]
    return tree


def _document(step: int) -> dict[str, Any]:
    return {**DOCUMENT, "step": step}


def _custom(step: int) -> dict[str, Any]:
    return {**CUSTOM, "step": step}


def _plain(**options: Any) -> Layout:
    def save(path: Path, step: int) -> None:
        holdfast.save(
            path,
            full_tree(step),
            custom_metadata=_custom(step),
            chunk_bytes=CHUNK_BYTES,
            durable=False,
            group=None,
            **options,
        )

    if options["format"] == "orbax":
        return Layout(save)
    return Layout(save, kind="state", item="state", is_v1=True)


def _view(**options: Any) -> Layout:
    """Returns the layout of a view with checksums and copies of its source's
    files."""

    def save(path: Path, step: int) -> None:
        source = path.parent / "source"
        _plain(format="orbax", compression=None).save(source, step)
        try:
            holdfast.view(
                source,
                path,
                link="copy",
                checksums=True,
                chunk_bytes=CHUNK_BYTES,
                durable=False,
                **options,
            )
        finally:
            shutil.rmtree(source)

    return Layout(save)


def _pytree(package: Any, **options: Any) -> Layout:
    def save(path: Path, step: int) -> None:
        args = jax.tree.map(
            lambda _: package.SaveArgs(chunk_byte_size=CHUNK_BYTES),
            full_tree(step),
        )
        with package.PyTreeCheckpointer(**options) as checkpointer:
            checkpointer.save(path, full_tree(step), save_args=args)

    return Layout(save, **_writer(package))


def _standard(package: Any) -> Layout:
    def save(path: Path, step: int) -> None:
        with package.StandardCheckpointer() as checkpointer:
            checkpointer.save(path, standard_tree(step))

    return Layout(save, lacks_text=True, **_writer(package))


def _manager(package: Any, **options: Any) -> Layout:
    def save(path: Path, step: int) -> None:
        handlers = {
            "state": package.PyTreeCheckpointHandler(**options),
            "meta": package.JsonCheckpointHandler(),
        }
        with package.CheckpointManager(
            path.parent,
            item_handlers=handlers,
            options=package.CheckpointManagerOptions(
                best_fn=lambda metrics: metrics["loss"],
                enable_async_checkpointing=False,
            ),
        ) as manager:
            manager.save(
                step,
                args=package.args.Composite(
                    state=package.args.PyTreeSave(full_tree(step)),
                    meta=package.args.JsonSave(_document(step)),
                ),
                metrics={"loss": step / 8},
                custom_metadata=_custom(step),
            )

    return Layout(
        save, kind="items", item="state", manager=True, **_writer(package)
    )


def _v1_context(package: Any, options: dict[str, Any]) -> Any:
    context = package.Context()
    for name, value in options.items():
        setattr(context.array.saving, name, value)
    return context


def _v1(package: Any, **options: Any) -> Layout:
    def save(path: Path, step: int) -> None:
        with _v1_context(package, options):
            package.save(path, full_tree(step), custom_metadata=_custom(step))

    return Layout(
        save, kind="state", item="state", is_v1=True, **_writer(package)
    )


def _v1_items(package: Any, **options: Any) -> Layout:
    def save(path: Path, step: int) -> None:
        with _v1_context(package, options):
            package.save_checkpointables(
                path,
                {
                    "state": full_tree(step),
                    "meta": _document(step),
                },
                custom_metadata=_custom(step),
            )

    return Layout(
        save, kind="items", item="state", is_v1=True, **_writer(package)
    )


def _writer(package: Any) -> dict[str, Any]:
    is_stock = package in (stock, stock_v1)
    return {
        "writer": "orbax" if is_stock else "holdfast",
        "covered": not is_stock,
    }


@functools.cache
def signed_numbers(step: int) -> dict[str, Any]:
    """Returns arrays for torch and Megatron, which support few unsigned
    integers."""
    return {
        name: array.view(np.int32) if array.dtype == np.uint32 else array
        for name, array in numbers(step).items()
    }


def megatron_parts(step: int, rank: int) -> dict[str, Any]:
    """Returns the parts that one of RANKS ranks saves."""
    cut = {
        name: megatron.ShardedTensor.from_rank_offsets(
            name, np.split(array, RANKS)[rank], (0, rank, RANKS)
        )
        for name, array in signed_numbers(step).items()
        if len(array) % RANKS == 0
    }
    return {**cut, "step": step, "text": f"the text of {step}"}


def _save_megatron(path: Path, step: int) -> None:
    path.mkdir()
    megatron.save_ranks(
        [megatron_parts(step, rank) for rank in range(RANKS)], path
    )


def _foreign(form: str, entry: str = "", **options: Any) -> Layout:
    def save(path: Path, step: int) -> None:
        source = path.parent / "source"
        holdfast.save(source, plain_tree(step), durable=False, group=None)
        if entry:
            path.mkdir()
        try:
            holdfast.convert(
                source, path / entry, format=form, durable=False, **options
            )
        finally:
            shutil.rmtree(source)

    return Layout(save, kind="foreign", entry=entry, covered=False)


def _save_by_torch(path: Path, step: int) -> None:
    import torch
    import torch.distributed.checkpoint as dcp

    from holdfast.torch import StorageWriter

    tree = {
        name: torch.from_numpy(array)
        for name, array in signed_numbers(step).items()
        if array.dtype != ml_dtypes.bfloat16
    }
    dcp.save({**tree, "count": step}, storage_writer=StorageWriter(path))


def _layouts() -> dict[str, Layout]:
    table: dict[str, Layout] = {}
    for form in ("orbax", "orbax-v1"):
        for ocdbt in (True, False):
            for zarr in (2, 3):
                for compression in ("planes", "zstd", "fast", None):
                    where = "ocdbt" if ocdbt else "directories"
                    name = f"{form} {where} zarr{zarr} {compression or 'raw'}"
                    table[name] = _plain(
                        format=form,
                        ocdbt=ocdbt,
                        zarr_format=zarr,
                        compression=compression,
                    )
    raw = {"use_compression": False}
    flat = {"use_ocdbt": False}
    table |= {
        "view zarr2": _view(zarr_format=2),
        "view zarr3": _view(),
        "both zarr2": _plain(format="orbax", also="safetensors"),
        "both zarr3": _plain(
            format="orbax-v1", also="safetensors", data_file_bytes=20_000
        ),
        "drop-in pytree": _pytree(dropin),
        "drop-in pytree directories raw": _pytree(dropin, **flat, **raw),
        "drop-in pytree zarr3": _pytree(dropin, use_zarr3=True),
        "drop-in standard": _standard(dropin),
        "drop-in manager": _manager(dropin),
        "drop-in manager raw": _manager(dropin, **raw),
        "drop-in manager directories": _manager(dropin, **flat),
        "drop-in v1": _v1(dropin_v1),
        "drop-in v1 raw": _v1(dropin_v1, **raw),
        "drop-in v1 items": _v1_items(dropin_v1),
        "drop-in v1 items directories raw": _v1_items(dropin_v1, **flat, **raw),
        "torch storage": Layout(_save_by_torch, kind="torch"),
        "megatron zarr": Layout(_save_megatron, kind="megatron", covered=False),
        "safetensors": _foreign("safetensors", data_file_bytes=1 << 19),
        "npz": _foreign("npz", "arrays.npz"),
        "dcp": _foreign("dcp"),
        "torch-dist": _foreign("torch-dist"),
        "stock pytree": _pytree(stock),
        "stock pytree raw": _pytree(stock, **raw),
        "stock pytree directories": _pytree(stock, **flat),
        "stock pytree directories raw": _pytree(stock, **flat, **raw),
        "stock pytree zarr3 raw": _pytree(stock, use_zarr3=True, **raw),
        "stock manager": _manager(stock),
        "stock v1 items": _v1_items(stock_v1),
        "stock v1 raw": _v1(stock_v1, **raw),
    }
    return table


LAYOUTS = _layouts()
