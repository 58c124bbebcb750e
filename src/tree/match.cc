#include "tree/match.h"

#include <algorithm>
#include <numeric>

#include "tree/value_type.h"

namespace holdfast {
namespace {

std::vector<size_t> KeyOrder(const std::vector<MatchItem>& items) {
  std::vector<size_t> order(items.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return CompareKeys(*items[a].path, *items[b].path) < 0;
  });
  return order;
}

std::string_view Category(std::string_view value_type) {
  return IsEmptyValueType(value_type) ? value_type : "leaf";
}

// Empty when the two are alike.
std::string DescribeKinds(const MatchItem& wanted, const MatchItem& stored) {
  for (size_t i = 0; i < wanted.path->size(); ++i) {
    const bool want = (*wanted.path)[i].is_sequence;
    if (want == (*stored.path)[i].is_sequence) continue;
    return "element " + std::to_string(i) +
           (want ? ": want a sequence, got a dict"
                 : ": want a dict, got a sequence");
  }
  const std::string_view want = Category(wanted.value_type);
  const std::string_view got = Category(stored.value_type);
  if (want == got) return "";
  return "want " + std::string(want) + ", got " + std::string(got);
}

void SortResult(MatchResult& result) {
  std::sort(result.pairs.begin(), result.pairs.end());
  std::sort(result.missing.begin(), result.missing.end());
  std::sort(result.unexpected.begin(), result.unexpected.end());
  std::sort(result.different.begin(), result.different.end(),
            [](const KindDifference& a, const KindDifference& b) {
              return a.wanted < b.wanted;
            });
}

// "and 7 more" after the lines shown.
void AppendRest(std::string& text, size_t count, size_t lines_max) {
  if (count > lines_max) {
    text += "and " + std::to_string(count - lines_max) + " more\n";
  }
}

void AppendPaths(std::string& text, std::string_view label,
                 const std::vector<size_t>& indices,
                 const std::vector<MatchItem>& items, size_t lines_max) {
  for (size_t i = 0; i < std::min(indices.size(), lines_max); ++i) {
    text += label;
    text += ": " + KeyPathRepr(*items[indices[i]].path) + "\n";
  }
  AppendRest(text, indices.size(), lines_max);
}

}  // namespace

std::vector<MatchItem> MatchItems(const std::vector<FlatLeaf>& leaves) {
  std::vector<MatchItem> items;
  items.reserve(leaves.size());
  for (const FlatLeaf& leaf : leaves) {
    items.push_back({&leaf.path, leaf.value_type});
  }
  return items;
}

MatchResult MatchStructure(const std::vector<MatchItem>& wanted,
                           const std::vector<MatchItem>& stored) {
  MatchResult result;
  const std::vector<size_t> want_order = KeyOrder(wanted);
  const std::vector<size_t> have_order = KeyOrder(stored);
  size_t w = 0;
  size_t s = 0;
  // A merge of two sorted lists: what is only in one of them is missing or
  // unexpected.
  while (w < want_order.size() && s < have_order.size()) {
    const size_t want = want_order[w];
    const size_t have = have_order[s];
    const int order = CompareKeys(*wanted[want].path, *stored[have].path);
    if (order <= 0) ++w;
    if (order >= 0) ++s;
    if (order < 0) {
      result.missing.push_back(want);
    } else if (order > 0) {
      result.unexpected.push_back(have);
    } else {
      result.pairs.emplace_back(want, have);
      std::string what = DescribeKinds(wanted[want], stored[have]);
      if (!what.empty()) {
        result.different.push_back({want, have, std::move(what)});
      }
    }
  }
  result.missing.insert(result.missing.end(), want_order.begin() + w,
                        want_order.end());
  result.unexpected.insert(result.unexpected.end(), have_order.begin() + s,
                           have_order.end());
  SortResult(result);
  return result;
}

std::string DescribeMatch(const MatchResult& result,
                          const std::vector<MatchItem>& wanted,
                          const std::vector<MatchItem>& stored,
                          size_t lines_max) {
  std::string text;
  AppendPaths(text, "missing in checkpoint", result.missing, wanted, lines_max);
  AppendPaths(text, "not wanted", result.unexpected, stored, lines_max);
  for (size_t i = 0; i < std::min(result.different.size(), lines_max); ++i) {
    const KindDifference& difference = result.different[i];
    text += "different: " + KeyPathRepr(*wanted[difference.wanted].path) +
            ": " + difference.what + "\n";
  }
  AppendRest(text, result.different.size(), lines_max);
  return text;
}

}  // namespace holdfast
