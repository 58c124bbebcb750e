// Checks for programs that run as ranks: each failure prints a line with the
// rank.
//
// Thread-safety: one thread.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

namespace holdfast {

class RankChecks {
 public:
  explicit RankChecks(int64_t rank) : rank_(rank) {}

  void Equal(const std::string& what, const std::string& got,
             const std::string& want) {
    if (got == want) return;
    ++failure_count_;
    std::fprintf(stderr, "rank %lld: %s: got \"%s\", want \"%s\"\n",
                 static_cast<long long>(rank_), what.c_str(), got.c_str(),
                 want.c_str());
  }
  void True(const std::string& what, bool condition) {
    Equal(what, condition ? "true" : "false", "true");
  }
  int ExitCode() const { return failure_count_ == 0 ? 0 : 1; }

 private:
  int64_t rank_;
  int failure_count_ = 0;
};

}  // namespace holdfast
