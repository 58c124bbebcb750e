#include "stores/storage/piece_cursor.h"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>
#include <vector>

namespace holdfast {
namespace {

// Moves everything through the cursor and returns it. Each "write" takes a
// random number of bytes.
std::string Drain(const std::vector<std::string_view>& pieces,
                  size_t vectors_max, size_t bytes_max, std::mt19937& random) {
  PieceCursor cursor(pieces);
  std::vector<iovec> vectors(vectors_max);
  std::string out;
  while (const size_t used = cursor.Fill(vectors, bytes_max)) {
    std::string offered;
    for (size_t i = 0; i < used; ++i) {
      EXPECT_GT(vectors[i].iov_len, 0u);
      offered.append(static_cast<const char*>(vectors[i].iov_base),
                     vectors[i].iov_len);
    }
    EXPECT_LE(offered.size(), bytes_max);
    const size_t written = 1 + random() % offered.size();
    out += offered.substr(0, written);
    cursor.Advance(written);
  }
  return out;
}

TEST(PieceCursor, ShortWritesLoseAndRepeatNothing) {
  std::mt19937 random(3);
  for (int round = 0; round < 500; ++round) {
    std::string whole;
    std::vector<std::string> owned(random() % 20);
    for (std::string& piece : owned) {
      for (size_t n = random() % 8; n > 0; --n) {
        piece += static_cast<char>('a' + random() % 26);
      }
      whole += piece;
    }
    const std::vector<std::string_view> pieces(owned.begin(), owned.end());
    EXPECT_EQ(Drain(pieces, 1 + random() % 5, 1 + random() % 30, random),
              whole);
  }
}

TEST(PieceCursor, OnlyEmptyPiecesAreTheEnd) {
  std::array<iovec, 4> vectors;
  const std::vector<std::string_view> pieces = {"", "", ""};
  EXPECT_EQ(PieceCursor(pieces).Fill(vectors, 100), 0u);
}

}  // namespace
}  // namespace holdfast
