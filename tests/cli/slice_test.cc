#include "cli/slice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace holdfast::cli {
namespace {

AxisSelection Range(int64_t first, int64_t step, int64_t count) {
  return {first, step, count, false};
}
AxisSelection Index(int64_t index) { return {index, 1, 1, true}; }

struct GoodSlice {
  std::string text;
  Shape shape;
  Selection want;
};

TEST(ParseSlice, ReadsWhatNumpyReads) {
  const GoodSlice cases[] = {
      {"3", {5}, {Index(3)}},
      {"-1", {5}, {Index(4)}},
      {"+1", {5}, {Index(1)}},
      {"0:2,:", {3, 4}, {Range(0, 1, 2), Range(0, 1, 4)}},
      {" 0 : 2 , : ", {3, 4}, {Range(0, 1, 2), Range(0, 1, 4)}},
      {"0:2", {3, 4}, {Range(0, 1, 2), Range(0, 1, 4)}},
      {"0,", {3, 4}, {Index(0), Range(0, 1, 4)}},
      {"...,0", {2, 3, 4}, {Range(0, 1, 2), Range(0, 1, 3), Index(0)}},
      {"1,...,-1", {2, 3, 4}, {Index(1), Range(0, 1, 3), Index(3)}},
      {"...", {}, {}},
      {"...", {2}, {Range(0, 1, 2)}},
      {"0,...", {2}, {Index(0)}},
      {"::2", {5}, {Range(0, 2, 3)}},
      {"1::2", {5}, {Range(1, 2, 2)}},
      {"::-1", {5}, {Range(4, -1, 5)}},
      {"::-2", {4}, {Range(3, -2, 2)}},
      {"-3:-1", {5}, {Range(2, 1, 2)}},
      {"100:", {5}, {Range(5, 1, 0)}},
      {":100", {5}, {Range(0, 1, 5)}},
      {"-100:2", {5}, {Range(0, 1, 2)}},
      {"3:1", {5}, {Range(3, 1, 0)}},
      {":", {0}, {Range(0, 1, 0)}},
      {"::9223372036854775807", {5}, {Range(0, 1, 1)}},
  };
  for (const GoodSlice& good : cases) {
    const auto got = ParseSlice(good.text, good.shape);
    ASSERT_TRUE(got.ok()) << good.text << ": " << got.status().message();
    EXPECT_EQ(*got, good.want) << good.text;
  }
}

struct BadSlice {
  std::string text;
  Shape shape;
  StatusCode code;
  std::string message;
};

TEST(ParseSlice, RefusesWithTheReason) {
  constexpr auto kInvalid = StatusCode::kInvalidArgument;
  constexpr auto kRange = StatusCode::kOutOfRange;
  const BadSlice cases[] = {
      {"", {3}, kInvalid, "not an index"},
      {"a", {3}, kInvalid, "'a' is not an index"},
      {"1.5", {3}, kInvalid, "not an index"},
      {"1:b", {3}, kInvalid, "not a slice"},
      {"1:2:3:4", {3}, kInvalid, "not a slice"},
      {"::0", {3}, kInvalid, "step cannot be zero"},
      {"None", {3}, kInvalid, "newaxis is not supported"},
      {"np.newaxis", {3}, kInvalid, "newaxis is not supported"},
      {"...,...", {3}, kInvalid, "only one ellipsis"},
      {"0,0", {3}, kInvalid, "too many indices: array has 1 axes, got 2"},
      {"0", {}, kInvalid, "too many indices"},
      {"3", {3}, kRange, "index 3 is out of bounds for axis 0 with size 3"},
      {"0,-4", {3, 3}, kRange, "index -4 is out of bounds for axis 1"},
      {"0", {0}, kRange, "out of bounds"},
      {"99999999999999999999", {3}, kInvalid, "not an index"},
      {"+-1", {3}, kInvalid, "not an index"},
  };
  for (const BadSlice& bad : cases) {
    const auto got = ParseSlice(bad.text, bad.shape);
    EXPECT_EQ(got.status().code(), bad.code) << bad.text;
    EXPECT_THAT(std::string(got.status().message()),
                ::testing::HasSubstr(bad.message));
  }
}

TEST(SplitName, CutsAtTheLastBracket) {
  EXPECT_FALSE(SplitName("w").has_value());
  EXPECT_FALSE(SplitName("w]").has_value());
  EXPECT_FALSE(SplitName("w[0").has_value());
  EXPECT_EQ(SplitName("w[0:2,:]")->name, "w");
  EXPECT_EQ(SplitName("w[0:2,:]")->slice, "0:2,:");
  EXPECT_EQ(SplitName("a[0].b[1]")->name, "a[0].b");
  EXPECT_EQ(SplitName("[1]")->name, "");
}

// Returns the indices of a slice, as Python defines them, one by one.
std::vector<int64_t> SlowIndices(std::optional<int64_t> start,
                                 std::optional<int64_t> stop, int64_t step,
                                 int64_t extent) {
  const auto normal = [&](int64_t bound, int64_t low, int64_t high) {
    if (bound < 0) bound += extent;
    return std::max(low, std::min(bound, high));
  };
  std::vector<int64_t> indices;
  if (step > 0) {
    const int64_t end = stop ? normal(*stop, 0, extent) : extent;
    for (int64_t i = start ? normal(*start, 0, extent) : 0; i < end; i += step)
      indices.push_back(i);
  } else {
    const int64_t end = stop ? normal(*stop, -1, extent - 1) : -1;
    for (int64_t i = start ? normal(*start, -1, extent - 1) : extent - 1;
         i > end; i += step)
      indices.push_back(i);
  }
  return indices;
}

TEST(ParseSlice, AgreesWithPythonOnSmallSlices) {
  std::mt19937 random(7);
  std::uniform_int_distribution<int64_t> bound(-9, 9);
  for (int round = 0; round < 3000; ++round) {
    const int64_t extent = random() % 7;
    std::optional<int64_t> start, stop;
    if (random() % 4) start = bound(random);
    if (random() % 4) stop = bound(random);
    int64_t step = bound(random);
    if (step == 0) step = 1;
    const std::string text = (start ? std::to_string(*start) : "") + ":" +
                             (stop ? std::to_string(*stop) : "") + ":" +
                             std::to_string(step);
    const auto got = ParseSlice(text, {extent});
    ASSERT_TRUE(got.ok()) << text;
    std::vector<int64_t> indices;
    for (int64_t i = 0; i < (*got)[0].count; ++i) {
      indices.push_back((*got)[0].first + i * (*got)[0].step);
    }
    EXPECT_EQ(indices, SlowIndices(start, stop, step, extent))
        << text << " of " << extent;
  }
}

TEST(SelectFromBox, ReachesTheWantedElements) {
  // The value of an element of the 4 x 5 array is 10 * row + column.
  const auto selection = ParseSlice("::-2, 1:4:2", {4, 5});
  ASSERT_TRUE(selection.ok());
  const Box box = BoundingBox(*selection);
  EXPECT_EQ(box.origin, (Shape{1, 1}));
  EXPECT_EQ(box.shape, (Shape{3, 3}));
  std::string bytes;
  for (int row = 1; row < 4; ++row) {
    for (int column = 1; column < 4; ++column) {
      bytes += static_cast<char>(10 * row + column);
    }
  }
  const Array memory = Array::FromBytes(DType::kUint8, {3, 3}, bytes.data());
  const ConstArrayView view =
      SelectFromBox(*selection, box.origin, memory.view());
  ASSERT_EQ(view.shape, (Shape{2, 2}));
  std::vector<int> got;
  for (int64_t i = 0; i < 2; ++i) {
    for (int64_t j = 0; j < 2; ++j) {
      got.push_back(view.data[i * view.strides[0] + j * view.strides[1]]);
    }
  }
  EXPECT_EQ(got, (std::vector<int>{31, 33, 11, 13}));
}

}  // namespace
}  // namespace holdfast::cli
