"""What readers without holdfast's checksums make of the same damaged files.

Nobody can tell a wrong value from a right one where a format has no checksums;
but where the format's own tools notice, or read right, holdfast must not give
wrong values either.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import orbax.checkpoint as ocp
from checkpoints import NEW
from orbax.checkpoint import v1
from ways import Subject


def reads(subject: Subject) -> list[Callable[[], Any]]:
    """Each gives what a part of the checkpoint says, or raises."""
    layout = subject.layout
    if layout.kind == "megatron":
        return [lambda: _megatron(subject), lambda: _common(subject)]
    if layout.entry.endswith(".npz"):
        return [lambda: _npz(subject)]
    if layout.kind == "foreign":
        return [lambda: _without_any_check(subject)]
    parts: list[Callable[[], Any]] = [
        lambda: ocp.PyTreeCheckpointer().restore(subject.tree_path),
        lambda: _metadata(subject),
    ]
    if layout.manager:
        # holdfast gives documents as the texts that they are, unparsed.
        texts = ("meta/metadata", "metrics/metrics")
        parts += [(subject.step / text).read_text for text in texts]
        parts.append(lambda: _manager(subject))
    if layout.is_v1:
        parts.append(lambda: v1.load_checkpointables(subject.step))
    return parts


def is_wrong(subject: Subject, whole: Subject) -> bool:
    """Some part gives another answer than it gives of the whole."""
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
    """A decoder stumbled over a frame without a checksum.

    The same bytes may be a valid frame to another release of zstd: 1.5.4, which
    Debian has, looks less closely than TensorStore's.
    """
    while error is not None:
        if "ZSTD_decompress" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def _metadata(subject: Subject) -> Any:
    """What is known of a tree and its step; Orbax gives None for the rest."""
    found = ocp.PyTreeCheckpointer().metadata(subject.tree_path)
    step = ocp.path.step.Metadata(step=NEW, path=subject.step)
    return (
        repr(found.item_metadata),
        found.custom_metadata,
        step.init_timestamp_nsecs,
        step.commit_timestamp_nsecs,
    )


def _manager(subject: Subject) -> Any:
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
        found = manager.restore(NEW)
        return [
            manager.latest_step(),
            manager.metrics(NEW),
            [(name, found[name]) for name in sorted(found.keys())],
        ]


def _npz(subject: Subject) -> Any:
    with np.load(subject.path, allow_pickle=True) as arrays:
        return {name: arrays[name] for name in arrays.files}


def _megatron(subject: Subject) -> Any:
    """Arrays as they lie there; an absent chunk is zeros."""
    found = {}
    for path in sorted(subject.step.glob("*/.zarray")):
        layout = json.loads(path.read_text())
        dtype = np.dtype(
            "<u2" if layout["dtype"] == "bfloat16" else layout["dtype"]
        )
        chunks = []
        shape, grid = layout["shape"], layout["chunks"]
        for index in range(-(-shape[0] // grid[0])):
            name = ".".join([str(index)] + ["0"] * (len(shape) - 1))
            file = path.parent / name
            data = file.read_bytes() if file.exists() else None
            chunks.append(
                np.zeros(grid, dtype)
                if data is None
                else np.frombuffer(data, dtype).reshape(grid)
            )
        found[path.parent.name] = (layout, chunks)
    return found


def _common(subject: Subject) -> Any:
    import torch

    return [
        torch.load(subject.step / "common.pt", weights_only=False),
        json.loads((subject.step / "metadata.json").read_text()),
    ]


def _without_any_check(subject: Subject) -> Any:
    """The bytes themselves: any change of them is another answer."""
    return {
        path.name: path.read_bytes()
        for path in sorted(subject.step.rglob("*"))
        if path.is_file()
    }
