"""Ways to read through `holdfast.orbax`, the drop-in for Orbax's v0
interface."""

from __future__ import annotations

import asyncio
from typing import Any

import jax
import numpy as np
from checkpoints import NEW, Layout, full_tree
from etils import epath
from ways import Subject, has_text, is_orbax, lacks_text, way

import holdfast.orbax as ocp


def is_managed(layout: Layout) -> bool:
    return layout.manager


@way("PyTreeCheckpointer", is_orbax)
def pytree(subject: Subject) -> Any:
    return ocp.PyTreeCheckpointer().restore(subject.tree_path)


def _abstract(leaf: Any) -> Any:
    if isinstance(leaf, jax.Array):
        return jax.ShapeDtypeStruct(
            leaf.shape, leaf.dtype, sharding=leaf.sharding
        )
    return np.zeros_like(leaf) if isinstance(leaf, np.ndarray) else leaf


def wanted_tree(subject: Subject) -> Any:
    """Returns a target like the saved tree."""
    return jax.tree.map(_abstract, subject.layout.tree(NEW))


@way("PyTreeRestore with a target", is_orbax)
def pytree_args(subject: Subject) -> Any:
    wanted = wanted_tree(subject)
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
        return checkpointer.restore(
            subject.tree_path,
            args=ocp.args.PyTreeRestore(
                item=wanted,
                restore_args=ocp.checkpoint_utils.construct_restore_args(
                    wanted
                ),
            ),
        )


@way("PyTreeRestore of a part", is_orbax)
def pytree_part(subject: Subject) -> Any:
    wanted = {"big": np.zeros(0), "a": {"w": np.zeros(0)}, "key": 0}
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
        return checkpointer.restore(
            subject.tree_path,
            args=ocp.args.PyTreeRestore(
                item=wanted,
                restore_args=jax.tree.map(lambda _: ocp.RestoreArgs(), wanted),
                partial_restore=True,
            ),
        )


@way("PyTreeRestore with transforms", is_orbax)
def pytree_transforms(subject: Subject) -> Any:
    wanted = {"renamed": 0, "small": 0}
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
        return checkpointer.restore(
            subject.tree_path,
            args=ocp.args.PyTreeRestore(
                item=wanted,
                restore_args=jax.tree.map(lambda _: ocp.RestoreArgs(), wanted),
                transforms={"renamed": ocp.Transform(original_key="wide")},
            ),
        )


@way("PyTreeCheckpointer.metadata", is_orbax)
def pytree_metadata(subject: Subject) -> Any:
    found = ocp.PyTreeCheckpointer().metadata(subject.tree_path)
    return repr(found.item_metadata), found.custom_metadata


@way("StandardCheckpointer", is_orbax)
def standard(subject: Subject) -> Any:
    with ocp.StandardCheckpointer() as checkpointer:
        return checkpointer.restore(subject.tree_path)


@way("StandardCheckpointer with a target", lacks_text)
def standard_target(subject: Subject) -> Any:
    with ocp.StandardCheckpointer() as checkpointer:
        return checkpointer.restore(subject.tree_path, wanted_tree(subject))


def _items() -> Any:
    return ocp.args.Composite(
        state=ocp.args.PyTreeRestore(), meta=ocp.args.JsonRestore()
    )


@way("Checkpointer of a composite", lambda layout: layout.kind == "items")
def composite(subject: Subject) -> Any:
    handlers = {
        "state": ocp.PyTreeCheckpointHandler(),
        "meta": ocp.JsonCheckpointHandler(),
    }
    if subject.layout.is_v1:
        handlers["meta"] = ocp.PyTreeCheckpointHandler()
    handler = ocp.CompositeCheckpointHandler(**handlers)
    args = {
        name: ocp.args.JsonRestore()
        if isinstance(each, ocp.JsonCheckpointHandler)
        else ocp.args.PyTreeRestore()
        for name, each in handlers.items()
    }
    with ocp.Checkpointer(handler) as checkpointer:
        found = checkpointer.restore(
            subject.step, args=ocp.args.Composite(**args)
        )
        return [(name, found[name]) for name in ("state", "meta")]


def _manager(subject: Subject) -> Any:
    return ocp.CheckpointManager(
        subject.root,
        item_handlers={
            "state": ocp.PyTreeCheckpointHandler(),
            "meta": ocp.JsonCheckpointHandler(),
        },
        options=ocp.CheckpointManagerOptions(
            best_fn=lambda metrics: metrics["loss"], read_only=True
        ),
    )


@way("CheckpointManager.restore", is_managed)
def manager(subject: Subject) -> Any:
    with _manager(subject) as run:
        found = run.restore(NEW, args=_items())
        return [(name, found[name]) for name in ("state", "meta")]


@way("CheckpointManager, the newest", is_managed)
def manager_newest(subject: Subject) -> Any:
    with _manager(subject) as run:
        found = run.restore(None, args=_items())
        return [
            run.latest_step(),
            run.all_steps(),
            [(name, found[name]) for name in ("state", "meta")],
        ]


@way("CheckpointManager, what it restores by itself", is_managed)
def manager_bare(subject: Subject) -> Any:
    with _manager(subject) as run:
        found = run.restore(NEW)
        return [(name, found[name]) for name in sorted(found.keys())]


@way("CheckpointManager.metadata", is_managed)
def manager_metadata(subject: Subject) -> Any:
    with _manager(subject) as run:
        found = run.metadata(NEW)
        items = found.item_metadata
        return [
            [(name, repr(items[name])) for name in sorted(items.keys())],
            found.custom_metadata,
            found.init_timestamp_nsecs,
            found.commit_timestamp_nsecs,
            found.metrics,
        ]


@way("CheckpointManager, metrics and the best", is_managed)
def manager_metrics(subject: Subject) -> Any:
    with _manager(subject) as run:
        return [run.best_step(), run.metrics(NEW), run.all_steps()]


@way("PyTreeCheckpointHandler alone", is_orbax)
def handler_alone(subject: Subject) -> Any:
    handler = ocp.PyTreeCheckpointHandler()
    return handler.restore(
        epath.Path(subject.tree_path), args=ocp.args.PyTreeRestore()
    )


@way("StandardCheckpointHandler alone", is_orbax)
def standard_handler_alone(subject: Subject) -> Any:
    handler = ocp.StandardCheckpointHandler()
    return handler.restore(
        epath.Path(subject.tree_path), args=ocp.args.StandardRestore()
    )


@way("JsonCheckpointHandler alone", is_managed)
def json_alone(subject: Subject) -> Any:
    handler = ocp.JsonCheckpointHandler()
    return handler.restore(
        epath.Path(subject.step / "meta"), args=ocp.args.JsonRestore()
    )


def _infos(subject: Subject, names: list[str]) -> list[Any]:
    whole = subject.whole / subject.layout.item
    is_ocdbt = (whole / "manifest.ocdbt").exists()
    text = (whole / "_METADATA").read_text()
    return [
        ocp.type_handlers.ParamInfo(
            name=name,
            parent_dir=epath.Path(subject.tree_path),
            is_ocdbt_checkpoint=is_ocdbt,
            use_zarr3='"use_zarr3": true' in text,
        )
        for name in names
    ]


@way("NumpyHandler alone", is_orbax)
def numpy_handler(subject: Subject) -> Any:
    names = ["big", "a.w", "b.w", "wide", "low", "small"]
    handler = ocp.type_handlers.NumpyHandler()
    return asyncio.run(handler.deserialize(_infos(subject, names)))


@way("ArrayHandler alone", is_orbax)
def array_handler(subject: Subject) -> Any:
    infos = _infos(subject, ["placed", "big"])
    args = [
        ocp.ArrayRestoreArgs(sharding=full_tree(NEW)["placed"].sharding),
        ocp.ArrayRestoreArgs(
            sharding=jax.sharding.SingleDeviceSharding(jax.devices()[0])
        ),
    ]
    handler = ocp.type_handlers.ArrayHandler()
    return asyncio.run(handler.deserialize(infos, args))


@way("ScalarHandler alone", is_orbax)
def scalar_handler(subject: Subject) -> Any:
    handler = ocp.type_handlers.ScalarHandler()
    return asyncio.run(handler.deserialize(_infos(subject, ["count", "rate"])))


@way("StringHandler alone", has_text)
def string_handler(subject: Subject) -> Any:
    handler = ocp.type_handlers.StringHandler()
    return asyncio.run(handler.deserialize(_infos(subject, ["text"])))
