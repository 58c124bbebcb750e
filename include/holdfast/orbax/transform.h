// Rules that make one tree from another: they rename keys, change values, or
// compute a value from several others, as in Orbax's transform_utils.
//
//   Transforms transforms = {
//       {R"(net/layer(\d+)/(.*))",
//        Transform{.original_key = R"(params/dense\1/\2)"}},
//       {"step", Transform{.use_fallback = true}},
//   };
//   auto tree = ApplyTransformations(original, transforms, new_tree);
//
// A rule's name is a regular expression in Python's syntax, which must match a
// complete key of the new tree; the parts of a key are joined with "/". If
// several rules match a key, the last one decides.
//
// Thread-safety: pure functions; the callbacks run on the caller's thread.
// Ownership: arguments are borrowed for the call; results own their contents.
// Errors: InvalidArgument where Orbax raises ValueError, with Orbax's message,
// and for a rule that contradicts itself or is not a regular expression, naming
// the rule; NotFound where Orbax raises KeyError, with Orbax's message (the
// key's repr); ResourceExhausted for a match that would take too long; the
// errors that a callback returns.
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

// Where the value of a key in the new tree comes from.
struct Transform {
  // The key in the original tree. \1, \g<1> and \g<name> are replaced by groups
  // of the rule's expression. Absent: the same key.
  std::optional<std::string> original_key;
  // Uses the tree that keys without a rule do not use: the new tree if
  // `default_to_original`, otherwise the original.
  bool use_fallback = false;
  // Computes the new value from the original one.
  std::function<Result<Tree>(const Tree& value)> value_fn;
  // Computes the value of `key` from the complete original tree.
  std::function<Result<Tree>(std::string_view key, const Tree& original)>
      multi_value_fn;
};

// A rule for a restore, which reads only the leaves that its rules need.
struct RestoreTransform {
  std::optional<std::string> original_key;
  bool use_fallback = false;
  std::function<Result<Tree>(const Tree& value)> value_fn;
  // Like Transform::multi_value_fn, but also receives the restore arguments for
  // `key`.
  std::function<Result<Tree>(std::string_view key, const Tree& original,
                             const AnyRestoreArgs& args)>
      multi_value_fn;
  // The leaves that `multi_value_fn` needs: expressions for original keys, and
  // how to restore these leaves. The restore does not read other leaves of
  // `original`.
  std::optional<std::vector<std::pair<std::string, AnyRestoreArgs>>>
      multi_value_fn_input_args;
};

using AnyTransform = std::variant<Transform, RestoreTransform>;
using Transforms = std::vector<std::pair<std::string, AnyTransform>>;

// Fails with InvalidArgument if fields that exclude each other are set.
Status CheckTransform(const AnyTransform& transform);

// Returns `new_tree` with values from `original_tree`. A key without a rule
// gets the original's value if `default_to_original` and the original has the
// key; otherwise it keeps the new tree's value. None and empty containers of
// the new tree are kept.
//
// A RestoreTransform's multi_value_fn receives its key's entry in
// `restore_args` (by parameter name, keys joined with "."); NotFound "'key'" if
// the entry is missing. If `restore_args` is null, it receives default
// RestoreArgs.
//
// InvalidArgument `Transformation key "K" not found in origin tree.` or "K not
// found in origin tree (`use_fallback` requested)."
Result<Tree> ApplyTransformations(const Tree& original_tree,
                                  const Transforms& transformations,
                                  const Tree& new_tree,
                                  bool default_to_original = true,
                                  const RestoreArgsMap* restore_args = nullptr);

// How each stored leaf is restored, in the order of `stored`. Absent: the leaf
// is not read.
struct TransformPlan {
  std::vector<std::optional<AnyRestoreArgs>> args;
};

// Computes which leaves of a checkpoint a restore with `transforms` reads.
// `stored`: the keys of every leaf, including empty containers.
// `item`: the tree to restore; InvalidArgument if null.
// `restore_args`: by parameter name in the item; if null, defaults for the
// stored names. NotFound "('a', 'b')" if a leaf is read for that key of the
// item, and there is no entry for the key.
Result<TransformPlan> PlanTransforms(const std::vector<TreePath>& stored,
                                     const Tree* item,
                                     const Transforms& transforms,
                                     const RestoreArgsMap* restore_args,
                                     bool default_to_original = true);

// Does the second half of such a restore: ApplyTransformations on `restored`,
// which may have any value in place of leaves that were not read.
// InvalidArgument if `restore_args` is null.
Result<Tree> TransformRestored(const Tree& item, const Tree& restored,
                               const RestoreArgsMap* restore_args,
                               const Transforms& transforms,
                               bool default_to_original = true);

}  // namespace holdfast
