// ApplyTransformations and TransformRestored of holdfast/orbax/transform.h.

#include "holdfast/orbax/transform.h"

#include <string>
#include <unordered_map>
#include <utility>

#include "ground/base/status_macros.h"
#include "ground/names/code_points.h"
#include "holdfast/tree_utils.h"
#include "orbax/transforms/rule.h"

namespace holdfast {
namespace {

class Applier {
 public:
  Applier(const Tree& original_tree, const FlatDict& original,
          std::vector<Rule> rules, bool default_to_original,
          const RestoreArgsMap* restore_args)
      : original_tree_(original_tree),
        rules_(std::move(rules)),
        default_to_original_(default_to_original),
        restore_args_(restore_args) {
    for (const auto& [path, leaf] : original) {
      original_[StrKeypath(path, "/")] = &leaf;
    }
  }

  Status Apply(const TreePath& path, Tree& value) {
    const std::string key = StrKeypath(path, "/");
    bool has_rule = false;
    for (Rule& rule : rules_) {
      HF_ASSIGN_OR_RETURN(const std::optional<RegexMatch> match,
                          rule.FullMatch(key));
      if (!match) continue;
      has_rule = true;
      if (!rule.use_fallback()) {
        HF_ASSIGN_OR_RETURN(value, RuledValue(rule, path, key, *match));
      } else if (!default_to_original_) {
        HF_ASSIGN_OR_RETURN(value, FallbackValue(key));
      }
    }
    if (has_rule || !default_to_original_) return Status();
    const auto original = original_.find(key);
    if (original != original_.end()) value = *original->second;
    return Status();
  }

 private:
  Result<Tree> FallbackValue(const std::string& key) const {
    const auto original = original_.find(key);
    if (original != original_.end()) return *original->second;
    return InvalidArgumentError(
        key + " not found in origin tree (`use_fallback` requested).");
  }

  Result<Tree> RuledValue(const Rule& rule, const TreePath& path,
                          const std::string& key,
                          const RegexMatch& match) const {
    if (rule.has_multi_value_fn()) return MultiValue(rule, path, key);
    HF_ASSIGN_OR_RETURN(const std::string original_key,
                        rule.OriginalKey(key, match));
    const auto original = original_.find(original_key);
    if (original != original_.end()) return rule.Value(*original->second);
    return InvalidArgumentError("Transformation key \"" + original_key +
                                "\" not found in origin tree.");
  }

  Result<Tree> MultiValue(const Rule& rule, const TreePath& path,
                          const std::string& key) const {
    if (const Transform* const plain = rule.as_transform()) {
      return plain->multi_value_fn(key, original_tree_);
    }
    AnyRestoreArgs args;
    if (restore_args_ != nullptr) {
      const auto given = restore_args_->find(StrKeypath(path));
      if (given == restore_args_->end()) return NotFoundError(PythonRepr(key));
      args = given->second;
    }
    return rule.as_restore_transform()->multi_value_fn(key, original_tree_,
                                                       args);
  }

  const Tree& original_tree_;
  std::vector<Rule> rules_;
  const bool default_to_original_;
  const RestoreArgsMap* const restore_args_;
  std::unordered_map<std::string, const Tree*> original_;
};

}  // namespace

Result<Tree> ApplyTransformations(const Tree& original_tree,
                                  const Transforms& transformations,
                                  const Tree& new_tree,
                                  bool default_to_original,
                                  const RestoreArgsMap* restore_args) {
  if (new_tree.is_none() || new_tree.is_empty_container()) return Tree::Dict();
  HF_ASSIGN_OR_RETURN(std::vector<Rule> rules, MakeRules(transformations));
  HF_ASSIGN_OR_RETURN(const FlatDict original, ToFlatDict(original_tree));
  HF_ASSIGN_OR_RETURN(FlatDict flat, ToFlatDict(new_tree));
  Applier applier(original_tree, original, std::move(rules),
                  default_to_original, restore_args);
  for (auto& [path, value] : flat) {
    HF_RETURN_IF_ERROR(applier.Apply(path, value));
  }
  return FromFlatDict(flat, &new_tree);
}

Result<Tree> TransformRestored(const Tree& item, const Tree& restored,
                               const RestoreArgsMap* restore_args,
                               const Transforms& transforms,
                               bool default_to_original) {
  if (restore_args == nullptr) {
    return InvalidArgumentError(
        "If providing `transforms`, must provide `restore_args` matching "
        "structure of expected result.");
  }
  return ApplyTransformations(restored, transforms, item, default_to_original,
                              restore_args);
}

}  // namespace holdfast
