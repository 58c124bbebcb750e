#include "compare/match_leaves.h"

#include <unordered_map>
#include <utility>

#include "base/status_macros.h"

namespace holdfast {
namespace {

bool IsSelected(const LeafInfo& leaf, const DiffOptions& options) {
  return !options.select || options.select(leaf);
}

Result<std::string> NameInB(const LeafInfo& leaf, const DiffOptions& options) {
  if (!options.name_in_b) return leaf.name;
  return options.name_in_b(leaf);
}

DiffVerdict VerdictOfMetadata(const LeafInfo& a, const LeafInfo& b,
                              const DiffOptions& options) {
  if (a.kind != b.kind) return DiffVerdict::kKind;
  if (!HasElements(a)) return DiffVerdict::kSame;
  if (a.shape != b.shape) return DiffVerdict::kShape;
  if (a.dtype != b.dtype && !options.ignore_dtype) return DiffVerdict::kDType;
  // Typed keys hold numbers that mean nothing to another implementation.
  if (a.prng_impl != b.prng_impl && !a.prng_impl.empty() &&
      !b.prng_impl.empty()) {
    return DiffVerdict::kKind;
  }
  return DiffVerdict::kSame;
}

LeafDiff PairOf(const std::vector<LeafInfo>& a, size_t i,
                const std::vector<LeafInfo>& b, size_t j,
                const DiffOptions& options) {
  LeafDiff pair;
  pair.a = i;
  pair.b = j;
  pair.name = a[i].name;
  if (a[i].name != b[j].name) pair.name_b = b[j].name;
  pair.verdict = VerdictOfMetadata(a[i], b[j], options);
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

bool HasElements(const LeafInfo& leaf) {
  return leaf.kind == ValueKind::kArray || leaf.kind == ValueKind::kScalar;
}

bool HasText(const LeafInfo& leaf) {
  switch (leaf.kind) {
    case ValueKind::kArray:
    case ValueKind::kScalar:
    case ValueKind::kNone:
    case ValueKind::kEmptyDict:
    case ValueKind::kEmptyList:
    case ValueKind::kEmptyTuple:
    case ValueKind::kPlaceholder:
      return false;
    default:
      return true;
  }
}

Result<std::vector<LeafDiff>> MatchLeaves(const std::vector<LeafInfo>& a,
                                          const std::vector<LeafInfo>& b,
                                          const DiffOptions& options) {
  // An external leaf may share its name with nothing else either.
  std::unordered_map<std::string_view, size_t> by_name;
  for (size_t i = 0; i < b.size(); ++i) by_name.emplace(b[i].name, i);
  std::vector<bool> is_taken(b.size(), false);
  std::unordered_map<std::string, size_t> taken_names;
  std::vector<LeafDiff> diffs;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!IsSelected(a[i], options)) continue;
    HF_ASSIGN_OR_RETURN(std::string name, NameInB(a[i], options));
    const auto [earlier, is_new] = taken_names.emplace(std::move(name), i);
    if (!is_new) {
      return InvalidArgumentError("diff: leaves " + a[earlier->second].name +
                                  " and " + a[i].name + " are both named " +
                                  earlier->first);
    }
    const auto found = by_name.find(earlier->first);
    if (found != by_name.end()) {
      is_taken[found->second] = true;
      diffs.push_back(PairOf(a, i, b, found->second, options));
      continue;
    }
    LeafDiff& only = diffs.emplace_back();
    only.a = i;
    only.name = a[i].name;
    if (earlier->first != only.name) only.name_b = earlier->first;
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
