// Rules that make one tree out of another: renamed keys, changed values, values
// made of several others. Orbax's transform_utils.
//
//   Transforms transforms = {
//       {R"(net/layer(\d+)/(.*))",
//        Transform{.original_key = R"(params/dense\1/\2)"}},
//       {"step", Transform{.use_fallback = true}},
//   };
//   auto tree = ApplyTransformations(original, transforms, new_tree);
//
// A rule's name is a regular expression in Python's syntax that must match a
// whole key of the new tree; the parts of a key are joined with "/". Rules are
// tried in order, and the last one that matches decides.
//
// Thread-safety: pure functions; the callbacks run on the caller's thread.
// Ownership: arguments are borrowed for the call; results own what they hold.
// Errors: InvalidArgument where Orbax raises ValueError, with its text, and for
// a rule that contradicts itself or is not a regular expression, naming it;
// NotFound where it raises KeyError, with its text (the key's repr);
// ResourceExhausted for a match that would take too long; and what a callback
// returns.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "holdfast/export.h"
#include "holdfast/restore_args.h"
#include "holdfast/status.h"
#include "holdfast/tree.h"
#include "holdfast/tree_utils.h"

namespace holdfast HOLDFAST_EXPORT {

// The source of the value of a key of the new tree.
struct Transform {
  // The key in the original tree; \1, \g<1> and \g<name> stand for groups of
  // the rule's expression. Absent: the same key.
  std::optional<std::string> original_key;
  // The value comes from where keys without a rule do not get theirs.
  bool use_fallback = false;
  // Makes the new value of the original one.
  std::function<Result<Tree>(const Tree& value)> value_fn;
  // Makes the value of `key` of the whole original tree.
  std::function<Result<Tree>(std::string_view key, const Tree& original)>
      multi_value_fn;
};

// A rule for restores, which read only the leaves that some rule needs.
struct RestoreTransform {
  std::optional<std::string> original_key;
  bool use_fallback = false;
  std::function<Result<Tree>(const Tree& value)> value_fn;
  // As Transform's; also gets what the caller wants for `key`.
  std::function<Result<Tree>(std::string_view key, const Tree& original,
                             const AnyRestoreArgs& args)>
      multi_value_fn;
  // The leaves that `multi_value_fn` needs: expressions of original keys, and
  // how to restore them. Other leaves of `original` were not read.
  std::optional<std::vector<std::pair<std::string, AnyRestoreArgs>>>
      multi_value_fn_input_args;
};

using AnyTransform = std::variant<Transform, RestoreTransform>;
using Transforms = std::vector<std::pair<std::string, AnyTransform>>;

// InvalidArgument: fields that exclude each other.
Status CheckTransform(const AnyTransform& transform);

// `new_tree` with values from `original_tree`. Keys without a rule take the
// original's value, if it has one and `default_to_original`; else they keep
// the new tree's. None and empty containers of the new tree stay. A
// RestoreTransform's multi_value_fn gets the entry of `restore_args` (by
// parameter name, keys joined with "."), NotFound "'key'" where it has no
// entry; null: default RestoreArgs.
// InvalidArgument `Transformation key "K" not found in origin tree.` or
// "K not found in origin tree (`use_fallback` requested)."
Result<Tree> ApplyTransformations(const Tree& original_tree,
                                  const Transforms& transformations,
                                  const Tree& new_tree,
                                  bool default_to_original = true,
                                  const RestoreArgsMap* restore_args = nullptr);

// How each stored leaf is restored, in the order given; absent: not at all.
struct TransformPlan {
  std::vector<std::optional<AnyRestoreArgs>> args;
};

// Which leaves of a checkpoint a restore with `transforms` reads.
// stored: the keys of every leaf, empty containers included. item: the tree
// that is wanted; null: InvalidArgument. restore_args: by parameter name of the
// item; null: defaults, for names that are stored. NotFound "('a', 'b')": a
// leaf is read for that key of the item and restore_args has no entry for it.
Result<TransformPlan> PlanTransforms(const std::vector<TreePath>& stored,
                                     const Tree* item,
                                     const Transforms& transforms,
                                     const RestoreArgsMap* restore_args,
                                     bool default_to_original = true);

// The second half of such a restore: ApplyTransformations on `restored`, which
// has anything at all in the place of leaves that were not read.
// InvalidArgument without restore_args.
Result<Tree> TransformRestored(const Tree& item, const Tree& restored,
                               const RestoreArgsMap* restore_args,
                               const Transforms& transforms,
                               bool default_to_original = true);

}  // namespace holdfast
