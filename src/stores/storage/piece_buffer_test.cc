#include "stores/storage/piece_buffer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

namespace holdfast {
namespace {

TEST(PieceBuffer, JoinsInAnyOrderAndFillsGapsWithZero) {
  std::mt19937 random(5);
  for (int round = 0; round < 100; ++round) {
    std::string want;
    PieceBuffer buffer;
    std::vector<std::pair<size_t, std::string>> runs;
    for (size_t n = random() % 6; n > 0; --n) {
      want.append(random() % 3, '\0');  // a gap
      const std::string text(random() % 9, static_cast<char>('a' + n));
      if (!text.empty()) runs.push_back({want.size(), text});
      want += text;
    }
    while (!want.empty() && want.back() == '\0') want.pop_back();
    std::shuffle(runs.begin(), runs.end(), random);
    for (const auto& [offset, text] : runs) {
      const std::string_view view = text;
      const std::string_view pieces[] = {view.substr(0, 2),
                                         view.substr(view.size() < 2 ? 1 : 2)};
      ASSERT_TRUE(buffer.Add(offset, pieces, "p").ok());
    }
    const Result<Bytes> joined = buffer.Join("p");
    ASSERT_TRUE(joined.ok());
    EXPECT_EQ(joined->view(), want);
  }
}

TEST(PieceBuffer, RefusesOffsetsThatOverflow) {
  PieceBuffer buffer;
  const std::string_view pieces[] = {"ab"};
  EXPECT_EQ(buffer.Add(~uint64_t{0}, pieces, "p").code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(buffer.Join("p")->size(), 0u);
}

}  // namespace
}  // namespace holdfast
