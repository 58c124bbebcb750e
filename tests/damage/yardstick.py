"""Reads the same damaged files without holdfast's checksums, for comparison.

If a format has no checksums, no reader can tell wrong values from right ones.
But where the format's own tools notice damage, or read right values, holdfast
must not return wrong values. A tool that fails on one array has not noticed
damage in another, so each array is a separate part.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import orbax.checkpoint as ocp
import tensorstore as ts
from checkpoints import NEW
from orbax.checkpoint import v1
from ways import Subject


def reads(subject: Subject) -> list[Callable[[], Any]]:
    """Returns functions, each of which reads a part of the checkpoint and
    raises if it cannot."""
    layout = subject.layout
    if layout.kind == "megatron":
        return [*_megatron(subject), lambda: _common(subject)]
    if layout.entry.endswith(".npz"):
        return [lambda: _npz(subject)]
    if layout.kind == "foreign":
        return [lambda: _without_any_check(subject)]
    parts: list[Callable[[], Any]] = [
        lambda: ocp.PyTreeCheckpointer().restore(subject.tree_path),
        lambda: _metadata(subject),
        # Orbax distinguishes its two layouts of a step by this file.
        (subject.step / "orbax.checkpoint").exists,
        *_arrays(subject),
    ]
    if layout.manager:
        # holdfast returns documents as unparsed text.
        texts = ("meta/metadata", "metrics/metrics")
        parts += [(subject.step / text).read_text for text in texts]
        parts += [
            functools.partial(_managed, subject, each) for each in MANAGED
        ]
    if layout.is_v1:
        parts.append(lambda: v1.load_checkpointables(subject.step))
    if layout.kind in ("state", "items"):
        parts.append(lambda: _items_metadata(subject))
    return parts


def is_wrong(subject: Subject, whole: Subject) -> bool:
    """Whether some part differs from that of the undamaged checkpoint."""
    for part, wanted in zip(reads(subject), reads(whole), strict=True):
        try:
            found = subject.text(part())
        except Exception as error:
            if _is_luck(error):
                return True
            continue
        if found != whole.text(wanted()):
            return True
    return False


def _is_luck(error: BaseException | None) -> bool:
    """Whether a decoder failed on a frame without a checksum.

    Another release of zstd may accept the same bytes as a valid frame: 1.5.4,
    which Debian has, checks less than TensorStore's.
    """
    while error is not None:
        if "ZSTD_decompress" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def _metadata(subject: Subject) -> Any:
    """Returns the metadata of a tree and its step; Orbax returns None for the
    rest."""
    found = ocp.PyTreeCheckpointer().metadata(subject.tree_path)
    step = ocp.path.step.Metadata(step=NEW, path=subject.step)
    return (
        repr(found.item_metadata),
        found.custom_metadata,
        step.init_timestamp_nsecs,
        step.commit_timestamp_nsecs,
    )


def _items_metadata(subject: Subject) -> Any:
    """Returns the metadata from Orbax's second API, with None for an item that
    it cannot read."""
    found = v1.checkpointables_metadata(subject.step)
    return (
        {name: repr(each) for name, each in found.metadata.items()},
        found.custom_metadata,
    )


MANAGED: list[Callable[[Any], Any]] = [
    lambda manager: (manager.latest_step(), manager.best_step()),
    lambda manager: manager.metrics(NEW),
    lambda manager: sorted(manager.restore(NEW).items()),
]


def _managed(subject: Subject, question: Callable[[Any], Any]) -> Any:
    handlers = {
        "state": ocp.PyTreeCheckpointHandler(),
        "meta": ocp.JsonCheckpointHandler(),
    }
    options = ocp.CheckpointManagerOptions(
        best_fn=lambda metrics: metrics["loss"], read_only=True
    )
    with ocp.CheckpointManager(
        subject.root, item_handlers=handlers, options=options
    ) as manager:
        return question(manager)


def _npz(subject: Subject) -> Any:
    with np.load(subject.path, allow_pickle=True) as arrays:
        return {name: arrays[name] for name in arrays.files}


def _arrays(subject: Subject) -> Iterator[Callable[[], Any]]:
    """Yields a function for each array of the tree, which reads it with
    TensorStore only."""
    whole = subject.whole / subject.layout.item
    drivers = {".zarray": "zarr", "zarr.json": "zarr3"}
    for key in sorted(_kvstore(subject, whole).list().result()):
        name, _, file = key.decode().rpartition("/")
        if file in drivers:
            yield functools.partial(_array, subject, drivers[file], name)


def _kvstore(subject: Subject, tree: Path) -> Any:
    files = {"driver": "file", "path": f"{tree}/"}
    if not (subject.whole / subject.layout.item / "manifest.ocdbt").exists():
        return ts.KvStore.open(files).result()
    return ts.KvStore.open({"driver": "ocdbt", "base": files}).result()


def _array(subject: Subject, driver: str, name: str) -> Any:
    store = _kvstore(subject, subject.tree_path) / f"{name}/"
    spec = {"driver": driver, "kvstore": store.spec().to_json()}
    return ts.open(spec, open=True, read=True).result().read().result()


def _megatron(subject: Subject) -> Iterator[Callable[[], Any]]:
    """Yields functions that read the stored arrays. An absent chunk is not an
    error."""
    yield lambda: sorted(x.parent.name for x in subject.step.glob("*/.zarray"))
    for path in sorted(subject.whole.glob("*/.zarray")):
        folder = subject.step / path.parent.name
        layout = json.loads(path.read_text())
        yield functools.partial(_zarray, folder)
        for index in range(-(-layout["shape"][0] // layout["chunks"][0])):
            yield functools.partial(_chunk, folder, index)


def _zarray(folder: Path) -> Any:
    return json.loads((folder / ".zarray").read_text())


def _chunk(folder: Path, index: int) -> Any:
    layout = _zarray(folder)
    grid = layout["chunks"]
    dtype = np.dtype(
        "<u2" if layout["dtype"] == "bfloat16" else layout["dtype"]
    )
    file = folder / ".".join([str(index)] + ["0"] * (len(grid) - 1))
    if not file.exists():
        return np.zeros(grid, dtype)
    return np.frombuffer(file.read_bytes(), dtype).reshape(grid)


def _common(subject: Subject) -> Any:
    import torch

    return [
        torch.load(subject.step / "common.pt", weights_only=False),
        json.loads((subject.step / "metadata.json").read_text()),
    ]


def _without_any_check(subject: Subject) -> Any:
    """Returns the bytes themselves, so that any change is noticed."""
    return {
        path.name: path.read_bytes()
        for path in sorted(subject.step.rglob("*"))
        if path.is_file()
    }
