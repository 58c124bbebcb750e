#include "formats/zarr/raw_spans.h"

#include <gtest/gtest.h>

#include <random>

namespace holdfast::zarr {
namespace {

struct Spans {
  RawPlan plan;
  std::vector<RawSpan> list;
};

Spans SpansOf(const Shape& chunk_shape, size_t item_bytes, const Box& box,
              const Shape& target_strides, const RawSpanOptions& options = {}) {
  Spans spans;
  spans.plan =
      PlanRawSpans(chunk_shape, item_bytes, box, target_strides, options);
  EXPECT_TRUE(ForEachRawSpan(spans.plan, [&](const RawSpan& span) {
                spans.list.push_back(span);
                return Status();
              }).ok());
  return spans;
}

TEST(RawSpansTest, WholeChunkIsOneDirectSpan) {
  const Shape shape = {4, 6};
  const Spans spans =
      SpansOf(shape, 8, BoxOf(shape), ContiguousStrides(shape, 8));
  EXPECT_TRUE(spans.plan.direct);
  ASSERT_EQ(spans.list.size(), 1u);
  EXPECT_EQ(spans.list[0].offset, 0u);
  EXPECT_EQ(spans.plan.span_bytes, 4 * 6 * 8);
}

TEST(RawSpansTest, RowsAreOneRun) {
  const Box box = {{3, 0}, {2, 6}};
  const Spans spans = SpansOf({10, 6}, 4, box, ContiguousStrides(box.shape, 4));
  EXPECT_TRUE(spans.plan.direct);
  ASSERT_EQ(spans.list.size(), 1u);
  EXPECT_EQ(spans.list[0].offset, 3u * 6 * 4);
  EXPECT_EQ(spans.plan.span_bytes, 2 * 6 * 4);
}

TEST(RawSpansTest, SmallGapsAreReadThrough) {
  const Box box = {{1, 2}, {3, 2}};
  const Spans spans = SpansOf({10, 6}, 4, box, ContiguousStrides(box.shape, 4));
  EXPECT_FALSE(spans.plan.direct);
  ASSERT_EQ(spans.list.size(), 1u);
  EXPECT_EQ(spans.list[0].offset, (1u * 6 + 2) * 4);
  EXPECT_EQ(spans.plan.span_bytes, (2 * 6 + 2) * 4);
}

TEST(RawSpansTest, LargeGapsAreNot) {
  const Box box = {{1, 2}, {3, 2}};
  const Spans spans = SpansOf({10, 6}, 4, box, ContiguousStrides(box.shape, 4),
                              {.gap_bytes_max = 15});
  EXPECT_TRUE(spans.plan.direct);
  ASSERT_EQ(spans.list.size(), 3u);
  EXPECT_EQ(spans.plan.span_bytes, 8);
  EXPECT_EQ(spans.list[2].offset, (3u * 6 + 2) * 4);
  EXPECT_EQ(spans.list[2].box_in_target, (Box{{2, 0}, {1, 2}}));
}

TEST(RawSpansTest, SpansWithGapsAreBounded) {
  const Box box = {{0, 0}, {10, 2}};
  const Spans spans = SpansOf({10, 6}, 4, box, ContiguousStrides(box.shape, 4),
                              {.span_bytes_max = 40});
  EXPECT_EQ(spans.list.size(), 10u);
}

TEST(RawSpansTest, RankZero) {
  const Spans spans = SpansOf({}, 8, {{}, {}}, {});
  EXPECT_TRUE(spans.plan.direct);
  ASSERT_EQ(spans.list.size(), 1u);
  EXPECT_EQ(spans.plan.span_bytes, 8);
}

// Checks that each element of the box is in exactly one span, at the right
// place.
void CheckCovers(const Spans& spans, const Shape& chunk_shape, int64_t item) {
  const Shape strides = ContiguousStrides(chunk_shape, item);
  std::vector<int> seen(ElementCount(spans.plan.box.shape));
  const Shape packed = ContiguousStrides(spans.plan.box.shape, 1);
  for (const RawSpan& span : spans.list) {
    const Box& part = span.box_in_target;
    for (int64_t n = 0; n < ElementCount(part.shape); ++n) {
      int64_t rest = n;
      int64_t in_span = 0;
      int64_t in_chunk = 0;
      int64_t in_target = 0;
      for (size_t i = part.shape.size(); i-- > 0;) {
        const int64_t at = rest % part.shape[i];
        rest /= part.shape[i];
        in_span += at * strides[i];
        in_target += (part.origin[i] + at) * packed[i];
        in_chunk +=
            (spans.plan.box.origin[i] + part.origin[i] + at) * strides[i];
      }
      ASSERT_EQ(static_cast<int64_t>(span.offset) + in_span, in_chunk);
      ASSERT_LE(in_span + item, spans.plan.span_bytes);
      ++seen[in_target];
    }
  }
  for (int count : seen) ASSERT_EQ(count, 1);
}

TEST(RawSpansTest, PropertyCoversTheBoxOnce) {
  std::mt19937 random(7);
  const auto draw = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  for (int round = 0; round < 2000; ++round) {
    Shape shape(draw(0, 4));
    Box box = {Shape(shape.size()), Shape(shape.size())};
    for (size_t i = 0; i < shape.size(); ++i) {
      shape[i] = draw(1, 6);
      box.origin[i] = draw(0, static_cast<int>(shape[i]) - 1);
      box.shape[i] = draw(1, static_cast<int>(shape[i] - box.origin[i]));
    }
    const int64_t item = int64_t{1} << draw(0, 4);
    Shape strides = ContiguousStrides(box.shape, item);
    if (draw(0, 3) == 0 && !strides.empty()) strides[0] += item;
    const RawSpanOptions options = {.gap_bytes_max = draw(0, 60),
                                    .span_bytes_max = draw(1, 400),
                                    .direct_bytes_min = draw(1, 200)};
    const Spans spans = SpansOf(shape, item, box, strides, options);
    CheckCovers(spans, shape, item);
    if (!spans.plan.direct) continue;
    // A direct span has no gaps.
    int64_t elements = 1;
    for (size_t i = spans.plan.split; i < shape.size(); ++i) {
      elements *= box.shape[i];
    }
    ASSERT_EQ(spans.plan.span_bytes, elements * item);
  }
}

}  // namespace
}  // namespace holdfast::zarr
