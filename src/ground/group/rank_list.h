// Ranks as text ("rank 3", "ranks 0-2, 5"), and what ranks reported.
//
// Thread-safety: pure functions; one thread per RanksByText.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast {

// Returns text such as "rank 3" or "ranks 0-2, 5". `ranks` is ascending. Long
// lists end in "and 12 more".
std::string RankList(const std::vector<int64_t>& ranks);

// Groups the ranks that reported the same text, in the order of their first
// rank.
class RanksByText {
 public:
  void Add(const std::string& text, int64_t rank);
  // Returns "rank 2: full; ranks 3, 4: lost" if the separator between ranks and
  // texts is ": ". A long list of texts ends in "and 12 ranks more".
  std::string Join(std::string_view separator) const;

 private:
  struct Group {
    std::string text;
    std::vector<int64_t> ranks;
  };
  std::map<std::string, size_t> places_;
  std::vector<Group> groups_;
};

}  // namespace holdfast
