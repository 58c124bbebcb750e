#include "ground/group/rank_list.h"

#include <cstddef>

namespace holdfast {
namespace {

constexpr int kRunsMax = 8;
constexpr size_t kTextsMax = 8;

}  // namespace

std::string RankList(const std::vector<int64_t>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  int runs = 0;
  for (size_t i = 0; i < ranks.size();) {
    if (runs == kRunsMax) {
      return text + " and " + std::to_string(ranks.size() - i) + " more";
    }
    size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    // Two neighbors read better as separate ranks.
    if (end - i == 2) end = i + 1;
    if (runs++ > 0) text += ", ";
    text += std::to_string(ranks[i]);
    if (end - i > 1) text += "-" + std::to_string(ranks[end - 1]);
    i = end;
  }
  return text;
}

void RanksByText::Add(const std::string& text, int64_t rank) {
  const auto [it, is_new] = places_.try_emplace(text, groups_.size());
  if (is_new) groups_.push_back({text, {}});
  groups_[it->second].ranks.push_back(rank);
}

std::string RanksByText::Join(std::string_view separator) const {
  std::string out;
  size_t left_out = 0;
  for (size_t i = 0; i < groups_.size(); ++i) {
    if (i >= kTextsMax) {
      left_out += groups_[i].ranks.size();
      continue;
    }
    if (i > 0) out += "; ";
    out += RankList(groups_[i].ranks);
    out += separator;
    out += groups_[i].text;
  }
  if (left_out > 0) {
    out += "; and " + std::to_string(left_out) +
           (left_out == 1 ? " rank more" : " ranks more");
  }
  return out;
}

}  // namespace holdfast
