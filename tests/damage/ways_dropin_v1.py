"""Ways to read through `holdfast.orbax.v1`."""

from __future__ import annotations

from typing import Any

from checkpoints import NEW, Layout
from ways import Subject, is_orbax, way
from ways_dropin import wanted_tree

from holdfast.orbax import v1


def has_items(layout: Layout) -> bool:
    return layout.kind in ("state", "items")


def _name(subject: Subject) -> dict[str, Any]:
    """Returns the argument that names the tree, if the default would not find
    it."""
    if subject.layout.kind == "items":
        return {"checkpointable_name": "state"}
    if subject.layout.kind == "tree":
        return {"checkpointable_name": None}
    return {"checkpointable_name": "state"}


@way("v1.load", is_orbax)
def load(subject: Subject) -> Any:
    return v1.load(subject.step, **_name(subject))


@way("v1.load with a target", is_orbax)
def load_target(subject: Subject) -> Any:
    return v1.load(subject.step, wanted_tree(subject), **_name(subject))


@way("v1.load_checkpointables", has_items)
def load_checkpointables(subject: Subject) -> Any:
    found = v1.load_checkpointables(subject.step)
    return [(name, found[name]) for name in sorted(found)]


@way("v1.metadata", is_orbax)
def metadata(subject: Subject) -> Any:
    found = v1.metadata(subject.step, **_name(subject))
    return [
        repr(found.metadata),
        found.custom_metadata,
        found.init_timestamp_nsecs,
        found.commit_timestamp_nsecs,
    ]


@way("v1.checkpointables_metadata", has_items)
def items_metadata(subject: Subject) -> Any:
    found = v1.checkpointables_metadata(subject.step)
    return [
        sorted((name, repr(each)) for name, each in found.metadata.items()),
        found.custom_metadata,
        found.init_timestamp_nsecs,
        found.commit_timestamp_nsecs,
    ]


@way("training.Checkpointer", has_items)
def training(subject: Subject) -> Any:
    with v1.training.Checkpointer(subject.root) as run:
        steps = [each.step for each in run.checkpoints]
        found = run.load_checkpointables()
        return steps, [(name, found[name]) for name in sorted(found)]


@way("training.Checkpointer, one step", has_items)
def training_step(subject: Subject) -> Any:
    with v1.training.Checkpointer(subject.root) as run:
        found = run.load_checkpointables(NEW)
        metadata = run.checkpointables_metadata(NEW)
        return [
            [(name, found[name]) for name in sorted(found)],
            metadata.custom_metadata,
        ]
