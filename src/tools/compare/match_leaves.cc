#include "tools/compare/match_leaves.h"

#include <optional>
#include <unordered_map>

#include "engine/restore/leaf_request.h"
#include "ground/base/status_macros.h"
#include "tools/convert/leaf_map.h"

namespace holdfast {
namespace {

bool IsSelected(const LeafInfo& leaf, const DiffOptions& options) {
  return !options.select || options.select(leaf);
}

// The metadata that a leaf of A should have in B.
struct Expected {
  size_t leaf = 0;
  std::string name;
  std::optional<DType> dtype;
};

Result<std::vector<Expected>> ExpectedInB(const std::vector<LeafInfo>& a,
                                          const LeafMap& map) {
  std::vector<Expected> expected;
  if (map.is_empty()) {
    for (size_t i = 0; i < a.size(); ++i) {
      expected.push_back({i, a[i].name, a[i].dtype});
    }
    return expected;
  }
  // MapLeaves would refuse a leaf that cannot be read, which is reported later
  // with its name.
  std::vector<LeafInfo> sound = a;
  for (LeafInfo& leaf : sound) leaf.problem = Status();
  HF_ASSIGN_OR_RETURN(const MappedLeaves mapped, MapLeaves(sound, {}, map));
  for (const TargetLeaf& leaf : mapped.leaves) {
    const LeafInfo& info = a[leaf.source];
    expected.push_back({leaf.source, leaf.name,
                        info.dtype ? std::optional(leaf.dtype) : std::nullopt});
  }
  return expected;
}

DiffVerdict VerdictOfMetadata(const LeafInfo& a, std::optional<DType> dtype,
                              const LeafInfo& b, const DiffOptions& options) {
  if (a.kind != b.kind) return DiffVerdict::kKind;
  if (!HasElements(a.kind)) return DiffVerdict::kSame;
  if (a.shape != b.shape) return DiffVerdict::kShape;
  if (dtype != b.dtype && !options.ignore_dtype) return DiffVerdict::kDType;
  // Key data made by one PRNG implementation mean nothing to another.
  if (a.prng_impl != b.prng_impl && !a.prng_impl.empty() &&
      !b.prng_impl.empty()) {
    return DiffVerdict::kKind;
  }
  return DiffVerdict::kSame;
}

LeafDiff PairOf(const std::vector<LeafInfo>& a, const Expected& expected,
                const std::vector<LeafInfo>& b, size_t j,
                const DiffOptions& options) {
  const size_t i = expected.leaf;
  LeafDiff pair;
  pair.a = i;
  pair.b = j;
  pair.name = a[i].name;
  if (a[i].name != b[j].name) pair.name_b = b[j].name;
  pair.verdict = VerdictOfMetadata(a[i], expected.dtype, b[j], options);
  for (const LeafInfo* leaf : {&a[i], &b[j]}) {
    if (leaf->problem.ok() || !pair.problem.ok()) continue;
    pair.problem = leaf->problem;
    if (pair.verdict == DiffVerdict::kSame) {
      pair.verdict = DiffVerdict::kUnreadable;
    }
  }
  return pair;
}

}  // namespace

Result<std::vector<LeafDiff>> MatchLeaves(const std::vector<LeafInfo>& a,
                                          const std::vector<LeafInfo>& b,
                                          const DiffOptions& options) {
  std::unordered_map<std::string_view, size_t> by_name;
  for (size_t i = 0; i < b.size(); ++i) by_name.emplace(b[i].name, i);
  std::vector<bool> is_taken(b.size(), false);
  std::vector<LeafDiff> diffs;
  HF_ASSIGN_OR_RETURN(const std::vector<Expected> expected,
                      ExpectedInB(a, options.map));
  for (const Expected& wanted : expected) {
    const LeafInfo& leaf = a[wanted.leaf];
    if (!IsSelected(leaf, options)) continue;
    const auto found = by_name.find(wanted.name);
    if (found != by_name.end() && !is_taken[found->second]) {
      is_taken[found->second] = true;
      diffs.push_back(PairOf(a, wanted, b, found->second, options));
      continue;
    }
    LeafDiff& only = diffs.emplace_back();
    only.a = wanted.leaf;
    only.name = leaf.name;
    if (wanted.name != leaf.name) only.name_b = wanted.name;
    only.verdict = DiffVerdict::kOnlyInA;
  }
  for (size_t j = 0; j < b.size(); ++j) {
    if (is_taken[j] || !IsSelected(b[j], options)) continue;
    LeafDiff& only = diffs.emplace_back();
    only.b = j;
    only.name = b[j].name;
    only.verdict = DiffVerdict::kOnlyInB;
  }
  return diffs;
}

}  // namespace holdfast
