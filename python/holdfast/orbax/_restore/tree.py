"""Restores a pytree item: matches the caller's request, plans, reads, rebuilds.

`restore_tree` is for items with a recorded tree; `restore_legacy` is for older
items, whose values may be in a msgpack file or whose tree must come from the
caller.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

from holdfast import _files, _gc
from holdfast.orbax._leaves.args import PLACEHOLDER, RestoreArgs
from holdfast.orbax._leaves.files import (
    as_path,
    budget_options,
    check_absolute,
)
from holdfast.orbax._leaves.limits import ByteLimiter
from holdfast.orbax._leaves.param_info import ParamInfo
from holdfast.orbax._leaves.plan import (
    Kind,
    LeafPlan,
    complete_args,
    plan_leaf,
)
from holdfast.orbax._leaves.reader import ArraysAt
from holdfast.orbax._restore.by_handlers import (
    HandlerKinds,
    RestoreOptions,
    read_plans,
)
from holdfast.orbax._restore.legacy import restore_legacy
from holdfast.orbax._restore.source import (
    Entry,
    Source,
    has_structure,
    open_item,
)
from holdfast.orbax._trees import structure
from holdfast.orbax._trees.empty_values import is_empty_typestr
from holdfast.orbax.metadata.tree import ValueMetadataEntry
from holdfast.orbax.tree_paths import deserialize_tree, flatten_with_path
from holdfast.orbax.tree_structure import Diff, trimmed


def restore_pytree(
    directory: Any,
    item: Any = None,
    restore_args: Any = None,
    *,
    partial_restore: bool = False,
    use_ocdbt: bool = True,
    use_zarr3: bool = False,
    options: RestoreOptions | None = None,
) -> Any:
    """Restores the tree of a pytree item.

    Args:
        directory: the item's directory, as any path-like object.
        item: determines the result's structure; None means the stored tree's.
        restore_args: a tree like `item`, with RestoreArgs as leaves. Different
            containers with the same keys are accepted, such as dicts for a flax
            State.
        partial_restore: `item` may lack leaves of the checkpoint. Leaves of
            `item` that the checkpoint lacks do not change.
        use_ocdbt: if no tree is recorded, do not derive one from directory
            names.
        use_zarr3: whether arrays are zarr 3; used if no tree is recorded.
        options: how to read the item.

    Returns:
        A tree like `item`; without `item`, dicts and lists.

    Raises:
        FileNotFoundError: the directory, the structure or files are missing.
        ValueError: structures do not match, leaves cannot be read as requested,
            or files are damaged.
        TypeError: with `partial_restore`, containers have different kinds.
    """
    options = options or RestoreOptions()
    restore_args = _like_item(item, restore_args, partial_restore)
    path = os.fspath(directory)
    aggregate_filename = options.aggregate_filename
    if has_structure(path, aggregate_filename):
        with _gc.paused():
            source = open_item(
                directory,
                missing_chunks="fill"
                if options.fills_missing
                else "as_recorded",
                aggregate_filename=aggregate_filename,
            )
            if not _needs_aggregate(source, aggregate_filename):
                return restore_tree(
                    source, item, restore_args, partial_restore, options
                )
    return restore_legacy(
        directory,
        item,
        restore_args,
        use_ocdbt=use_ocdbt,
        use_zarr3=use_zarr3,
        options=options,
    )


def _like_item(item: Any, restore_args: Any, has_others: bool) -> Any:
    """Returns the arguments in the item's own containers, if the keys match.

    Otherwise, or if the containers already match, returns the arguments
    unchanged. A later match with the item then reports the differences.

    Args:
        item: the caller's item.
        restore_args: arguments for its leaves, or for containers of leaves.
        has_others: whether there may be arguments for leaves outside the item.
    """
    if item is None or restore_args is None:
        return restore_args
    if structure.is_alike_up_to(item, restore_args):
        return restore_args
    target = structure.flatten(item)
    given = structure.flat_dict(structure.serialize(restore_args))
    places = [_at_or_above(given, names) for names in target.paths]
    if None in places or (len(set(places)) != len(given) and not has_others):
        return restore_args
    return target.rebuild([given[place] for place in places if place])


def _at_or_above(
    given: structure.FlatDict, names: structure.Names
) -> structure.Names | None:
    """Returns the path in `given` that is `names` or a prefix of it."""
    for count in range(len(names), 0, -1):
        if names[:count] in given:
            return names[:count]
    return None


def _needs_aggregate(source: Source, aggregate_filename: str) -> bool:
    """Returns whether values are stored in an existing msgpack file."""
    if not source.has_tree_metadata:
        return True
    if not _files.exists(os.path.join(source.path, aggregate_filename)):
        return False
    return any(leaf.has_value_in_aggregate() for leaf in source.leaves)


def restore_tree(
    source: Source,
    item: Any = None,
    restore_args: Any = None,
    partial_restore: bool = False,
    options: RestoreOptions | None = None,
) -> Any:
    """Restores an opened item whose values are all stored as arrays.

    Args and errors are those of `restore_pytree`.
    """
    options = options or RestoreOptions()
    check_absolute(source.path)
    kinds = HandlerKinds(options.registry)
    if item is None and restore_args is None:
        whole = _whole_tree(source, kinds, options)
        if whole is not PLACEHOLDER:
            return whole
    entries = source.entry_tree()
    if item is None and options.metadata_options.support_rich_types:
        # Use the recorded containers as the target.
        item = source.rich_entry_tree()
    if item is None:
        item = entries
    elif partial_restore:
        entries, restore_args = _trim_to_item(item, entries, restore_args)
    else:
        if options.metadata_options.support_rich_types:
            entries = _entries_for(item, source, entries)
        entries = _matched_entries(item, entries)
    target = structure.flatten(item)
    args = _args_of_leaves(target, restore_args)
    entry_of = structure.flat_dict(entries)
    plans = [
        _plan(target, names, entry_of[names], leaf_args, kinds, options)
        for names, leaf_args in zip(target.paths, args, strict=True)
    ]
    values = _read(source, target, plans, options)
    if partial_restore:
        values = [
            wanted if value is PLACEHOLDER else value
            for value, wanted in zip(values, target.leaves, strict=True)
        ]
    return target.rebuild(values)


_PLAIN_KINDS = {
    "np.ndarray": Kind.NUMPY,
    "scalar": Kind.SCALAR,
    "string": Kind.STRING,
}


def _whole_tree(
    source: Source, kinds: HandlerKinds, options: RestoreOptions
) -> Any:
    """Returns the tree as the engine loads it, or `...` if a leaf needs more.

    Ignores errors: the caller then restores leaf by leaf, which fails too, with
    Orbax's message.
    """
    types = source.checkpoint.value_types
    is_plain = all(_is_plain(kind, skipped, kinds) for kind, skipped in types)
    if options.metadata_options.support_rich_types or not types or not is_plain:
        return PLACEHOLDER
    try:
        return source.checkpoint.load(**budget_options(options.byte_limiter))
    except Exception:
        return PLACEHOLDER


def _is_plain(value_type: str, skipped: bool, kinds: HandlerKinds) -> bool:
    """Returns whether the engine's value of a leaf is the same as Orbax's."""
    if is_empty_typestr(value_type):
        return True
    kind = _PLAIN_KINDS.get(value_type)
    return not skipped and kind is not None and kinds(value_type)[0] is kind


def arrays_at(
    source: Source, byte_limiter: ByteLimiter | None = None
) -> ArraysAt:
    """Returns where to look for the item's arrays."""
    return ArraysAt(
        path=source.path,
        use_ocdbt=True if source.use_ocdbt else None,
        metadata_key="zarr.json" if source.use_zarr3 else ".zarray",
        byte_limiter=byte_limiter,
    )


def _plan(
    target: structure.FlatTree,
    names: structure.Names,
    entry: Any,
    args: RestoreArgs,
    kinds: HandlerKinds,
    options: RestoreOptions,
) -> LeafPlan:
    name = ".".join(names)
    if entry is PLACEHOLDER:
        return LeafPlan(Kind.VALUE, name, None, args, PLACEHOLDER)
    assert isinstance(entry, ValueMetadataEntry)
    stored = entry.stored if isinstance(entry, Entry) else None

    def keypath() -> str:
        return structure.describe_keypath(target.tree, names)

    return plan_leaf(
        name, stored, entry, args, keypath, kinds, options.metadata_options
    )


def _read(
    source: Source,
    target: structure.FlatTree,
    plans: list[LeafPlan],
    options: RestoreOptions,
) -> list[Any]:
    """Returns the value of each plan, read by the engine or a handler."""
    parameter = parameters_of(source, options)
    keypaths = functools.cache(
        lambda: [path for path, _ in flatten_with_path(target.tree)]
    )

    def info_of(i: int) -> ParamInfo:
        return parameter(
            name=plans[i].name,
            keypath=keypaths()[i],
            skip_deserialize=False,
            # As in Orbax: ValueMetadataEntry has no handler, so its type string
            # is "None".
            value_typestr="None",
        )

    return read_plans(plans, info_of, arrays_at(source, options.byte_limiter))


def parameters_of(
    source: Source, options: RestoreOptions | None = None
) -> Callable[..., ParamInfo]:
    """Returns a function that makes a ParamInfo of the item.

    Its arguments are the fields in which the item's ParamInfos differ.
    """
    return functools.partial(
        ParamInfo,
        parent_dir=as_path(source.directory),
        is_ocdbt_checkpoint=source.use_ocdbt,
        use_zarr3=bool(source.use_zarr3),
        raise_array_data_missing_error=source.raise_array_data_missing_error,
        byte_limiter=None if options is None else options.byte_limiter,
    )


def _args_of_leaves(
    target: structure.FlatTree, restore_args: Any
) -> list[RestoreArgs]:
    """Returns the restore arguments of each leaf of the target.

    Raises:
        ValueError: `restore_args` has a different structure.
    """
    if restore_args is None:
        default = RestoreArgs()
        return [default] * len(target.leaves)
    given = structure.match_up_to(target.tree, restore_args)
    return [
        complete_args(leaf, args)
        for leaf, args in zip(target.leaves, given, strict=True)
    ]


def _entries_for(item: Any, source: Source, entries: Any) -> Any:
    """Returns the item's entries, taken from the tree of recorded containers.

    That tree may be larger than the item. Without recorded containers, returns
    `entries`.

    Raises:
        KeyError: the tree lacks a leaf of the item.
    """
    rich = source.rich_entry_tree()
    if rich is None or any(
        leaf is PLACEHOLDER for leaf in structure.flatten(item).leaves
    ):
        return entries
    return structure.serialize(deserialize_tree(rich, item))


def _trim_to_item(
    item: Any, entries: Any, restore_args: Any
) -> tuple[Any, Any]:
    """Returns the entries and arguments of only the item's leaves.

    The entry of a leaf that the checkpoint lacks is `...`.
    """
    template = _zeros_for_empties(structure.serialize(item))
    entries = trimmed(template, entries, strict=False)
    # Keep arguments that already match, because a flax State turns the dicts
    # that it contains into States.
    if restore_args is not None and not structure.is_alike_up_to(
        item, restore_args
    ):
        restore_args = trimmed(item, restore_args, strict=True)
    return entries, restore_args


def _zeros_for_empties(serialized: Any) -> Any:
    """Replaces empty containers with leaves, as in `_METADATA`."""
    if isinstance(serialized, dict | list | tuple):
        if not serialized:
            return 0
        if isinstance(serialized, dict):
            return {k: _zeros_for_empties(v) for k, v in serialized.items()}
        return [_zeros_for_empties(v) for v in serialized]
    return serialized


def _matched_entries(item: Any, entries: Any) -> Any:
    """Returns the entries, with `...` where the item has `...`.

    Raises:
        ValueError: the structures differ.
    """
    wanted = structure.serialize(item)
    diff = structure.difference(wanted, entries)
    if diff is not None and not _only_placeholders_differ(diff):
        raise structure_mismatch(diff)
    if all(leaf is not PLACEHOLDER for leaf in structure.flatten(item).leaves):
        return entries
    placeholders = {
        names
        for names, leaf in structure.flat_dict(wanted).items()
        if leaf is PLACEHOLDER
    }
    kept = {
        names: PLACEHOLDER if names in placeholders else entry
        for names, entry in structure.flat_dict(entries).items()
    }
    kept.update(dict.fromkeys(placeholders, PLACEHOLDER))
    return structure.FlatDict(kept)


def structure_mismatch(diff: Any) -> ValueError:
    """Returns the error for an item that does not match the checkpoint."""
    return ValueError(
        "User-provided restore item and on-disk value metadata tree structures"
        f" do not match:\n{structure.format_difference(diff)}\nIf this"
        " mismatch is intentional, pass `partial_restore=True` to only restore"
        " parameters found in `item`."
    )


def _only_placeholders_differ(diff: Any) -> bool:
    """Returns whether every difference is a `...` in the item that the
    checkpoint lacks."""
    if isinstance(diff, Diff):
        return diff.lhs is PLACEHOLDER and diff.rhs is None
    parts = diff.values() if isinstance(diff, dict) else diff
    return all(
        part is None or _only_placeholders_differ(part) for part in parts
    )
