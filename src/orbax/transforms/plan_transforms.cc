// PlanTransforms of holdfast/orbax/transform.h: applies the rules in reverse,
// from the keys of the item to the keys of the checkpoint.

#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "ground/base/status_macros.h"
#include "ground/tree/key_path.h"
#include "holdfast/orbax/transform.h"
#include "holdfast/tree_utils.h"
#include "orbax/transforms/rule.h"

namespace holdfast {
namespace {

std::string PathRepr(const TreePath& path) {
  KeyPath keys;
  for (const std::string& key : path) keys.push_back({key});
  return KeyPathRepr(keys);
}

// The restore arguments of the item's leaves.
class ItemArgs {
 public:
  ItemArgs(const RestoreArgsMap* given, const std::vector<TreePath>& stored)
      : given_(given) {
    if (given == nullptr) stored_.insert(stored.begin(), stored.end());
  }

  Result<AnyRestoreArgs> At(const TreePath& path) const {
    if (given_ == nullptr) {
      if (stored_.contains(path)) return AnyRestoreArgs();
      return NotFoundError(PathRepr(path));
    }
    const auto args = given_->find(StrKeypath(path));
    if (args != given_->end()) return args->second;
    return NotFoundError(PathRepr(path));
  }

 private:
  const RestoreArgsMap* given_;
  std::set<TreePath> stored_;
};

// A rule, and the item's key that it produces from each original key.
class BackwardRule {
 public:
  BackwardRule(Rule rule, const FlatDict& item)
      : rule_(std::move(rule)), item_(item) {
    const RestoreTransform* const restore = rule_.as_restore_transform();
    if (restore == nullptr || !restore->multi_value_fn_input_args) return;
    for (const auto& [pattern, args] : *restore->multi_value_fn_input_args) {
      inputs_.emplace_back(LazyRegex(pattern), &args);
    }
  }

  Rule& rule() { return rule_; }

  // Returns the first key of the item that the rule produces from `key`, or
  // null.
  Result<const TreePath*> OutputOf(const std::string& key) {
    if (!is_matched_) {
      is_matched_ = true;
      error_ = MatchOutputs();
    }
    const auto output = output_of_.find(key);
    if (output != output_of_.end()) return output->second;
    // Matching stopped at an invalid key. Only keys that were found before it
    // have outputs.
    if (!error_.ok()) return error_;
    return static_cast<const TreePath*>(nullptr);
  }

  Result<const AnyRestoreArgs*> InputArgs(const std::string& key) {
    const RestoreTransform* const restore = rule_.as_restore_transform();
    if (restore == nullptr) {
      return InvalidArgumentError(
          "Must use RestoreTransform in order to use multi_value_fn during "
          "restore.");
    }
    if (!restore->multi_value_fn_input_args) {
      return InvalidArgumentError(
          "`multi_value_fn` was specified, but `multi_value_fn_input_args` "
          "were not. The latter must be specified to identify inputs for the "
          "function.");
    }
    for (auto& [regex, args] : inputs_) {
      HF_ASSIGN_OR_RETURN(const std::optional<RegexMatch> match,
                          regex.FullMatch(key));
      if (match) return args;
    }
    return static_cast<const AnyRestoreArgs*>(nullptr);
  }

 private:
  Status MatchOutputs() {
    for (const auto& [path, leaf] : item_) {
      const std::string key = StrKeypath(path, "/");
      HF_ASSIGN_OR_RETURN(const std::optional<RegexMatch> match,
                          rule_.FullMatch(key));
      if (!match) continue;
      HF_ASSIGN_OR_RETURN(std::string original, rule_.OriginalKey(key, *match));
      output_of_.emplace(std::move(original), &path);
    }
    return Status();
  }

  Rule rule_;
  const FlatDict& item_;
  std::vector<std::pair<LazyRegex, const AnyRestoreArgs*>> inputs_;
  bool is_matched_ = false;
  Status error_;
  std::unordered_map<std::string, const TreePath*> output_of_;
};

class Planner {
 public:
  Planner(const FlatDict& item, std::vector<Rule> rules, ItemArgs item_args,
          bool default_to_original)
      : item_args_(std::move(item_args)),
        default_to_original_(default_to_original) {
    for (const auto& [path, leaf] : item) wanted_.insert(path);
    for (Rule& rule : rules) rules_.emplace_back(std::move(rule), item);
  }

  Result<std::optional<AnyRestoreArgs>> Plan(const TreePath& path) {
    const std::string key = StrKeypath(path, "/");
    HF_ASSIGN_OR_RETURN(std::optional<AnyRestoreArgs> args, MatchingArgs(key));
    if (args || !wanted_.contains(path)) return args;
    HF_ASSIGN_OR_RETURN(const bool is_fallback, IsFallback(key));
    if (is_fallback == default_to_original_) return args;
    HF_ASSIGN_OR_RETURN(args, item_args_.At(path));
    return args;
  }

 private:
  Result<std::optional<AnyRestoreArgs>> MatchingArgs(const std::string& key) {
    for (BackwardRule& rule : rules_) {
      if (rule.rule().has_multi_value_fn()) {
        HF_ASSIGN_OR_RETURN(const AnyRestoreArgs* const args,
                            rule.InputArgs(key));
        if (args != nullptr) return std::optional<AnyRestoreArgs>(*args);
      } else if (!rule.rule().use_fallback()) {
        HF_ASSIGN_OR_RETURN(const TreePath* const output, rule.OutputOf(key));
        if (output == nullptr) continue;
        HF_ASSIGN_OR_RETURN(AnyRestoreArgs args, item_args_.At(*output));
        return std::optional<AnyRestoreArgs>(std::move(args));
      }
    }
    return std::optional<AnyRestoreArgs>();
  }

  // Returns whether a fallback rule matches the key. Tries all patterns, so
  // that an invalid pattern is always refused.
  Result<bool> IsFallback(const std::string& key) {
    bool is_fallback = false;
    for (BackwardRule& rule : rules_) {
      HF_ASSIGN_OR_RETURN(const std::optional<RegexMatch> match,
                          rule.rule().FullMatch(key));
      if (match && rule.rule().use_fallback()) is_fallback = true;
    }
    return is_fallback;
  }

  const ItemArgs item_args_;
  const bool default_to_original_;
  std::set<TreePath> wanted_;
  std::vector<BackwardRule> rules_;
};

}  // namespace

Result<TransformPlan> PlanTransforms(const std::vector<TreePath>& stored,
                                     const Tree* item,
                                     const Transforms& transforms,
                                     const RestoreArgsMap* restore_args,
                                     bool default_to_original) {
  if (item == nullptr) {
    return InvalidArgumentError(
        "If providing `transforms`, must provide `item` matching structure of "
        "expected result.");
  }
  HF_ASSIGN_OR_RETURN(std::vector<Rule> rules, MakeRules(transforms));
  HF_ASSIGN_OR_RETURN(const FlatDict flat_item, ToFlatDict(*item, true));
  Planner planner(flat_item, std::move(rules), ItemArgs(restore_args, stored),
                  default_to_original);
  TransformPlan plan;
  plan.args.reserve(stored.size());
  for (const TreePath& path : stored) {
    HF_ASSIGN_OR_RETURN(std::optional<AnyRestoreArgs> args, planner.Plan(path));
    plan.args.push_back(std::move(args));
  }
  return plan;
}

}  // namespace holdfast
