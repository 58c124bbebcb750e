"""Transforms during a restore, and in memory, that Orbax refuses.

bad_calls describes what a call is, bad_calls_pytree_restore what "v0" holds.
"""

import jax
import numpy as np
from bad_calls import CALLS, GOOD_TREE, Opaque, restore_args

__all__ = ["CALLS"]  # all of them, once this module is imported


# During a restore.
def bad_transform(name, item, transforms, **options):
    """Registers a restore of "v0" with transforms and arguments for each
    leaf."""

    def call(p):
        target = item(p)
        made = dict(transforms=transforms(p), restore_args=jax.tree.map(
            lambda _: p.ocp.RestoreArgs(), target))
        made.update((key, value(p) if callable(value) else value)
                    for key, value in options.items())
        restore_args(p, target, **made)

    CALLS["transform_" + name] = call


def one(kind="Transform", **options):
    """Returns a function that makes the transform of a new key "x"."""
    return lambda p: {"x": getattr(p.ocp, kind)(**options)}


def new_key(p):
    return {"x": 0}


bad_transform("unknown_key", new_key, one(original_key="nowhere"))
bad_transform("unknown_back_reference", new_key, one(original_key=r"\1"))
bad_transform("key_of_a_dict", new_key, one(original_key="b"))
bad_transform("key_tuple", new_key, one(original_key=("b", "c")))
bad_transform("key_in_checkpoint_alone", new_key, lambda p: {})
bad_transform("key_in_checkpoint_alone_not_default", new_key, lambda p: {},
              transforms_default_to_original=False)
bad_transform("fallback_missing_not_default", new_key,
              one(use_fallback=True), transforms_default_to_original=False)
bad_transform("fallback_missing", new_key, one(use_fallback=True))
bad_transform("multi_without_restore_transform", new_key,
              one(multi_value_fn=lambda key, tree: 1))
bad_transform("multi_without_inputs", new_key, one(
    "RestoreTransform", multi_value_fn=lambda key, tree, args: 1))
bad_transform("multi_and_value_fn", new_key, lambda p: {
    "x": p.ocp.RestoreTransform(
        multi_value_fn=lambda key, tree, args: 1, value_fn=lambda v: v,
        multi_value_fn_input_args={"a": p.ocp.RestoreArgs()})})
bad_transform("multi_of_nothing", new_key, lambda p: {
    "x": p.ocp.RestoreTransform(
        multi_value_fn=lambda key, tree, args: tree["nowhere"],
        multi_value_fn_input_args={"nowhere": p.ocp.RestoreArgs()})})
bad_transform("multi_fails", new_key, lambda p: {
    "x": p.ocp.RestoreTransform(
        multi_value_fn=lambda key, tree, args: 1 // 0,
        multi_value_fn_input_args={"a": p.ocp.RestoreArgs()})})
bad_transform("multi_two_arguments", new_key, lambda p: {
    "x": p.ocp.RestoreTransform(
        multi_value_fn=lambda key, tree: 1,
        multi_value_fn_input_args={"a": p.ocp.RestoreArgs()})})
bad_transform("value_fn_fails", new_key, one(
    original_key="a", value_fn=lambda value: 1 // 0))
bad_transform("bad_regex", new_key, lambda p: {
    "(": p.ocp.Transform(original_key="a")})
bad_transform("no_transform", new_key, lambda p: {"x": 5})
bad_transform("without_restore_args", new_key, one(original_key="a"),
              restore_args=None)
bad_transform("empty_without_restore_args", lambda p: GOOD_TREE(),
              lambda p: {}, restore_args=None)
bad_transform("args_missing", lambda p: {"x": 0, "a": 0},
              one(original_key="a"),
              restore_args=lambda p: {"x": p.ocp.RestoreArgs()})
bad_transform("with_legacy", new_key, one(original_key="a"),
              legacy_transform_fn=lambda p: (lambda *args: args))
bad_transform("leaf_as_unknown", new_key, one(original_key="a"),
              restore_args=lambda p: {"x": p.ocp.RestoreArgs(
                  restore_type=Opaque)})
bad_transform("leaf_unplaced", new_key, one(original_key="a"),
              restore_args=lambda p: {"x": p.ocp.ArrayRestoreArgs()})
bad_transform("string_as_array", new_key, one(original_key="b/s"),
              restore_args=lambda p: {"x": p.ocp.RestoreArgs(
                  restore_type=np.ndarray)})


CALLS.update(
    transform_without_item=lambda p: restore_args(
        p, transforms={}, restore_args={}),
    transform_unknown_field=lambda p: p.ocp.Transform(no_such_field=1),
    transform_inputs_of_transform=lambda p: p.ocp.Transform(
        multi_value_fn_input_args={}))


def bad_legacy(name, function, **options):
    def call(p):
        item = {"x": 0}
        restore_args(p, item, legacy_transform_fn=function,
                     restore_args={"x": p.ocp.RestoreArgs()}, **options)

    CALLS["legacy_transform_" + name] = call


bad_legacy("fails", lambda item, structure, infos: 1 // 0)
bad_legacy("two_arguments", lambda item, structure: (structure, item))
bad_legacy("one_result", lambda item, structure, infos: structure)
bad_legacy("structures_differ", lambda item, structure, infos: (
    {"x": structure["a"]}, {"y": infos["a"]}))
bad_legacy("infos_for_leaf", lambda item, structure, infos: (
    {"x": structure["a"]}, {"x": infos}))
bad_legacy("not_as_args", lambda item, structure, infos: (
    {"z": structure["a"]}, {"z": infos["a"]}))


# The same in memory.
def bad_apply(name, transforms, target, **options):
    def call(p):
        p.ocp.apply_transformations({"a": 1, "b": {"c": 2}}, transforms(p),
                                    target, **options)

    CALLS["apply_" + name] = call


bad_apply("unknown_key", one(original_key="nowhere"), {"x": 0})
bad_apply("missing_key", lambda p: {}, {"x": 0})
bad_apply("fallback_missing", one(use_fallback=True), {"x": 0},
          default_to_original=False)
bad_apply("both_functions", one(value_fn=lambda v: v,
                                multi_value_fn=lambda key, tree: 1), {"x": 0})
bad_apply("multi_fails", one(multi_value_fn=lambda key, tree: tree["z"]),
          {"x": 0})
bad_apply("key_of_a_dict", one(original_key="b"), {"x": 0})
bad_apply("no_transform", lambda p: {"x": 5}, {"x": 0})
bad_apply("bad_regex", lambda p: {"(": p.ocp.Transform()}, {"x": 0})
bad_apply("target_none", one(original_key="a"), None)
bad_apply("target_number", one(original_key="a"), 5)


CALLS.update(
    merge_no_trees=lambda p: p.ocp.merge_trees(),
    merge_into_more=lambda p: p.ocp.merge_trees(
        {"a": 1}, {"b": 2}, target={"a": 0, "b": 0, "c": 0}))
