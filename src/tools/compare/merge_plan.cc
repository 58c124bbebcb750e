#include "tools/compare/merge_plan.h"

#include <cmath>
#include <unordered_map>
#include <utility>

#include "engine/restore/leaf_request.h"
#include "ground/base/status_macros.h"
#include "tools/compare/match_leaves.h"

namespace holdfast {
namespace {

// Joins the first `count` keys. Each is prefixed with its length, so that a key
// with dots is not mistaken for several keys.
std::string JoinedKey(const std::vector<std::string>& key, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) {
    text += std::to_string(key[i].size()) + ":" + key[i];
  }
  return text;
}

LeafInfo WithPrefix(LeafInfo leaf, const std::string& prefix) {
  if (prefix.empty()) return leaf;
  std::vector<std::string> keys;
  for (size_t begin = 0; begin <= prefix.size();) {
    const size_t dot = std::min(prefix.find('.', begin), prefix.size());
    keys.push_back(prefix.substr(begin, dot - begin));
    begin = dot + 1;
  }
  leaf.name = leaf.key.empty() ? prefix : prefix + "." + leaf.name;
  leaf.key_kinds.resize(leaf.key.size());
  leaf.key_kinds.insert(leaf.key_kinds.begin(), keys.size(), KeyKind::kName);
  leaf.key.insert(leaf.key.begin(), keys.begin(), keys.end());
  return leaf;
}

class Planner {
 public:
  Planner(const std::vector<MergePart>& parts, const MergeOptions& options)
      : parts_(parts), options_(options) {}

  Result<std::vector<MergedLeaf>> Union() {
    for (size_t part = 0; part < parts_.size(); ++part) {
      const auto& leaves = parts_[part].checkpoint->leaves();
      for (size_t i = 0; i < leaves.size(); ++i) {
        HF_RETURN_IF_ERROR(
            AddLeaf(WithPrefix(leaves[i], parts_[part].prefix), {part, i}));
      }
    }
    HF_RETURN_IF_ERROR(CheckNesting());
    return std::move(merged_);
  }

  Result<std::vector<MergedLeaf>> Average() {
    const auto& first = parts_[0].checkpoint->leaves();
    for (size_t i = 0; i < first.size(); ++i) {
      MergedLeaf& leaf = merged_.emplace_back();
      leaf.info = first[i];
      leaf.origins = {{0, i}};
      by_key_[JoinedKey(first[i].key, first[i].key.size())] = i;
      leaf.is_average = IsAveraged(leaf.info);
      if (leaf.is_average) leaf.info.fingerprint.clear();
    }
    for (size_t part = 1; part < parts_.size(); ++part) {
      HF_RETURN_IF_ERROR(AddSource(part));
    }
    return std::move(merged_);
  }

 private:
  Status Collision(const std::string& name, const MergeOrigin& a,
                   const MergeOrigin& b, std::string_view why) const {
    return InvalidArgumentError("merge: leaf " + name + ": " +
                                PartLabel(parts_[a.part]) + " and " +
                                PartLabel(parts_[b.part]) + std::string(why));
  }

  Status AddLeaf(LeafInfo info, MergeOrigin origin) {
    const auto [earlier, is_new] =
        by_key_.emplace(JoinedKey(info.key, info.key.size()), merged_.size());
    if (is_new) {
      merged_.push_back({std::move(info), {origin}, false});
      return Status();
    }
    MergedLeaf& other = merged_[earlier->second];
    const bool are_equal_empties =
        IsEmptyKind(info.kind) && info.kind == other.info.kind;
    // Two empty dicts are equal, so they do not collide.
    if (are_equal_empties || options_.prefer == MergePrefer::kFirst) {
      return Status();
    }
    if (options_.prefer == MergePrefer::kRefuse) {
      return Collision(info.name, other.origins[0], origin,
                       " both have it (prefer one, or give them prefixes)");
    }
    other = {std::move(info), {origin}, false};
    return Status();
  }

  // Refuses a name that is a leaf in one part and a container in another. An
  // empty dict is not refused, but replaced by the container.
  Status CheckNesting() {
    std::vector<bool> is_dropped(merged_.size(), false);
    for (const MergedLeaf& leaf : merged_) {
      for (size_t count = 1; count < leaf.info.key.size(); ++count) {
        const auto above = by_key_.find(JoinedKey(leaf.info.key, count));
        if (above == by_key_.end()) continue;
        const MergedLeaf& outer = merged_[above->second];
        if (outer.info.kind == ValueKind::kEmptyDict) {
          is_dropped[above->second] = true;
          continue;
        }
        return Collision(leaf.info.name, leaf.origins[0], outer.origins[0],
                         " disagree: it lies below the leaf " +
                             outer.info.name + " of the latter");
      }
    }
    std::vector<MergedLeaf> kept;
    for (size_t i = 0; i < merged_.size(); ++i) {
      if (!is_dropped[i]) kept.push_back(std::move(merged_[i]));
    }
    merged_ = std::move(kept);
    return Status();
  }

  Status AddSource(size_t part) {
    const auto& leaves = parts_[part].checkpoint->leaves();
    for (size_t i = 0; i < leaves.size(); ++i) {
      const auto found =
          by_key_.find(JoinedKey(leaves[i].key, leaves[i].key.size()));
      if (found == by_key_.end()) {
        return Collision(leaves[i].name, {part, i}, {0, 0},
                         " disagree: the latter does not have it");
      }
      MergedLeaf& leaf = merged_[found->second];
      HF_RETURN_IF_ERROR(CheckLike(leaf, leaves[i], {part, i}));
      leaf.origins.push_back({part, i});
    }
    for (const MergedLeaf& leaf : merged_) {
      if (leaf.origins.size() == part + 1) continue;
      return Collision(leaf.info.name, {0, 0}, {part, 0},
                       " disagree: the latter does not have it");
    }
    return Status();
  }

  Status CheckLike(const MergedLeaf& leaf, const LeafInfo& other,
                   const MergeOrigin& origin) const {
    const LeafInfo& info = leaf.info;
    const auto differ = [&](const std::string& a, const std::string& b) {
      return Collision(info.name, leaf.origins[0], origin,
                       " disagree: " + a + " and " + b);
    };
    if (info.kind != other.kind) {
      return differ(std::string(ValueKindName(info.kind)),
                    std::string(ValueKindName(other.kind)));
    }
    if (!HasElements(info.kind)) return Status();
    if (info.shape != other.shape) {
      return differ("shape " + ShapeToString(info.shape),
                    "shape " + ShapeToString(other.shape));
    }
    const bool are_numbers =
        leaf.is_average && other.dtype &&
        DTypeKindOf(*info.dtype) == DTypeKindOf(*other.dtype);
    if (info.dtype == other.dtype || are_numbers) return Status();
    const auto name = [](const LeafInfo& of) {
      return std::string(of.dtype ? DTypeName(*of.dtype) : "no dtype");
    };
    return differ(name(info), name(other));
  }

  const std::vector<MergePart>& parts_;
  const MergeOptions& options_;
  std::vector<MergedLeaf> merged_;
  std::unordered_map<std::string, size_t> by_key_;
};

// Refuses options that `average` would ignore, and options that only `average`
// uses.
Status CheckGoTogether(const std::vector<MergePart>& parts,
                       const MergeOptions& options) {
  if (!options.average) {
    if (!options.take_first && options.weights.empty()) return Status();
    return InvalidArgumentError(
        std::string("merge: ") +
        (options.take_first ? "take_first (--take-first)"
                            : "weights (--weights)") +
        ": it is about an average, which is not asked for; ask for one "
        "(average, --average), or leave it out");
  }
  if (options.prefer != MergePrefer::kRefuse) {
    return InvalidArgumentError(
        "merge: average and prefer: a mean takes all sources, and none of them "
        "comes first; want one of the two");
  }
  for (const MergePart& part : parts) {
    if (part.prefix.empty()) continue;
    return InvalidArgumentError(
        "merge: average: the sources must have the same leaves, and prefix " +
        part.prefix + " puts those of " + PartLabel(part) +
        " elsewhere; leave prefixes out");
  }
  return Status();
}

Status CheckWeights(const MergeOptions& options, size_t part_count) {
  if (options.weights.empty()) return Status();
  if (options.weights.size() != part_count) {
    return InvalidArgumentError("merge: got " +
                                std::to_string(options.weights.size()) +
                                " weights, want one for each of " +
                                std::to_string(part_count) + " sources");
  }
  double sum = 0;
  for (const double weight : options.weights) sum += weight;
  if (std::isfinite(sum) && sum > 0) return Status();
  return InvalidArgumentError("merge: the weights add up to " +
                              std::to_string(sum) + ", want more than 0");
}

}  // namespace

bool IsAveraged(const LeafInfo& leaf) {
  return HasElements(leaf.kind) && leaf.dtype && leaf.prng_impl.empty() &&
         DTypeKindOf(*leaf.dtype) >= DTypeKind::kFloat;
}

std::string PartLabel(const MergePart& part) {
  return part.label.empty() ? part.checkpoint->info().path : part.label;
}

Result<std::vector<MergedLeaf>> PlanMerge(const std::vector<MergePart>& parts,
                                          const MergeOptions& options) {
  HF_RETURN_IF_ERROR(CheckGoTogether(parts, options));
  if (!options.average) return Planner(parts, options).Union();
  HF_RETURN_IF_ERROR(CheckWeights(options, parts.size()));
  return Planner(parts, options).Average();
}

}  // namespace holdfast
