// Checks chunk layouts element by element.
#include "tools/view/chunk_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

#include "engine/restore/extent_read.h"
#include "ground/tensor/grid.h"

namespace holdfast {
namespace {

using ::testing::HasSubstr;

// An array that is cut along random axes into extents. Each is stored somewhere
// in one file, with permuted axes and gaps between elements.
struct Scene {
  Shape shape;
  std::vector<Extent> extents;
  std::string file;  // of uint16: the index of each element in C order
};

uint16_t NumberOf(const Shape& shape, const Shape& index) {
  uint64_t number = 0;
  for (size_t d = 0; d < shape.size(); ++d) {
    number = number * static_cast<uint64_t>(shape[d]) +
             static_cast<uint64_t>(index[d]);
  }
  return static_cast<uint16_t>(number);
}

// Calls fn(index) for each element of a box.
template <typename Fn>
void ForEachIndex(const Box& box, const Fn& fn) {
  const ChunkGrid grid{box.shape, Shape(box.shape.size(), 1)};
  for (int64_t i = 0; i < ElementCount(box.shape); ++i) {
    Shape index = grid.ChunkIndex(i);
    for (size_t d = 0; d < index.size(); ++d) index[d] += box.origin[d];
    fn(index);
  }
}

class SceneMaker {
 public:
  explicit SceneMaker(uint32_t seed) : random_(seed) {}

  Scene Make() {
    Scene scene;
    const int rank = Pick(0, 4);
    for (int d = 0; d < rank; ++d) scene.shape.push_back(Pick(1, 6));
    order_.resize(rank);
    std::iota(order_.begin(), order_.end(), 0);
    if (Pick(0, 1)) std::shuffle(order_.begin(), order_.end(), random_);
    keeps_order_ = Pick(0, 3) != 0;
    has_gaps_ = Pick(0, 3) == 0;
    Cut({Shape(rank, 0), scene.shape}, 0, scene);
    return scene;
  }

 private:
  int Pick(int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random_);
  }

  void Cut(const Box& box, int depth, Scene& scene) {
    std::vector<size_t> axes;
    for (size_t d = 0; d < box.shape.size(); ++d) {
      if (box.shape[d] > 1) axes.push_back(d);
    }
    if (depth == 3 || axes.empty() || Pick(0, 1)) return Place(box, scene);
    const size_t axis = axes[Pick(0, static_cast<int>(axes.size()) - 1)];
    const int64_t at = Pick(1, static_cast<int>(box.shape[axis]) - 1);
    Box first = box, second = box;
    first.shape[axis] = at;
    second.origin[axis] += at;
    second.shape[axis] -= at;
    Cut(first, depth + 1, scene);
    Cut(second, depth + 1, scene);
  }

  void Place(const Box& box, Scene& scene) {
    std::vector<int> order = order_;
    if (!keeps_order_) std::shuffle(order.begin(), order.end(), random_);
    Extent extent;
    extent.box = box;
    extent.file = "f";
    extent.offset = scene.file.size() + 2 * Pick(0, 3);
    extent.strides.resize(box.shape.size());
    int64_t stride = 2;
    for (auto axis = order.rbegin(); axis != order.rend(); ++axis) {
      extent.strides[*axis] = stride;
      stride *= box.shape[*axis];
      if (has_gaps_ && Pick(0, 2) == 0) stride += 2 * Pick(1, 3);
    }
    scene.file.resize(extent.offset + stride + 8, '\x7f');
    ForEachIndex(box, [&](const Shape& index) {
      uint64_t at = extent.offset;
      for (size_t d = 0; d < index.size(); ++d) {
        at += (index[d] - box.origin[d]) * extent.strides[d];
      }
      const uint16_t number = NumberOf(scene.shape, index);
      std::memcpy(scene.file.data() + at, &number, 2);
    });
    scene.extents.push_back(std::move(extent));
  }

  std::mt19937 random_;
  std::vector<int> order_;
  bool keeps_order_ = true;
  bool has_gaps_ = false;
};

// Reads the chunks like a zarr reader, and checks every element.
void ExpectRight(const Scene& scene, const ChunkLayout& layout) {
  const ChunkGrid grid{scene.shape, layout.chunk_shape};
  ASSERT_EQ(static_cast<int64_t>(layout.ranges.size()), grid.ChunkCount());
  const size_t rank = scene.shape.size();
  Shape stored(rank);
  for (size_t i = 0; i < rank; ++i) {
    stored[i] = layout.chunk_shape[layout.order[i]];
  }
  const Shape stored_strides = ContiguousStrides(stored, 2);
  for (int64_t c = 0; c < grid.ChunkCount(); ++c) {
    const Box box = grid.ChunkBox(grid.ChunkIndex(c));
    ASSERT_EQ(box.shape, layout.chunk_shape);  // zarr stores full chunks
    ForEachIndex(box, [&](const Shape& index) {
      uint64_t at = layout.ranges[c].offset;
      for (size_t i = 0; i < rank; ++i) {
        const int axis = layout.order[i];
        at += (index[axis] - box.origin[axis]) * stored_strides[i];
      }
      uint16_t number = 0;
      ASSERT_LE(at + 2, scene.file.size());
      std::memcpy(&number, scene.file.data() + at, 2);
      EXPECT_EQ(number, NumberOf(scene.shape, index));
    });
  }
}

TEST(ChunkLayout, RandomParts) {
  int laid_out = 0, of_several = 0;
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    const Scene scene = SceneMaker(seed).Make();
    SCOPED_TRACE("seed " + std::to_string(seed));
    for (const uint64_t target : {uint64_t{1} << 20, uint64_t{16}}) {
      for (const bool any_order : {true, false}) {
        const ChunkLayout layout =
            LayOutChunks(DType::kUint16, scene.shape, scene.extents,
                         {.chunk_bytes = target,
                          .chunk_bytes_min = 1,
                          .any_order = any_order});
        if (!layout.why_not.empty()) continue;
        ++laid_out;
        of_several += scene.extents.size() > 1;
        ExpectRight(scene, layout);
      }
    }
  }
  EXPECT_GT(laid_out, 8000);
  EXPECT_GT(of_several, 2000);
}

Extent Whole(const Shape& shape, Shape strides = {}) {
  return {{Shape(shape.size(), 0), shape}, "f", 100, std::move(strides), false};
}

TEST(ChunkLayout, CutsLargeTensorsAlongTheirOutermostAxis) {
  const Shape shape{1000, 1024};
  const Extent extent = Whole(shape);
  const ChunkLayout layout = LayOutChunks(DType::kFloat32, shape, {&extent, 1},
                                          {.chunk_bytes = 1 << 20});
  ASSERT_EQ(layout.why_not, "");
  EXPECT_EQ(layout.chunk_shape, (Shape{250, 1024}));
  EXPECT_EQ(layout.ranges[3].offset, 100u + 750 * 4096);
}

// The number of rows is prime, and a single row would be too small for a chunk.
TEST(ChunkLayout, KeepsWholeWhatNoDivisorCuts) {
  const Shape shape{32003, 1024};
  const Extent extent = Whole(shape);
  const ChunkLayout layout = LayOutChunks(DType::kFloat32, shape, {&extent, 1},
                                          {.chunk_bytes = 8 << 20});
  ASSERT_EQ(layout.why_not, "");
  EXPECT_EQ(layout.chunk_shape, shape);
}

TEST(ChunkLayout, TransposedIsAnOrderOfAxes) {
  const Shape shape{8, 4};
  const Extent extent = Whole(shape, {2, 16});
  ChunkLayout layout = LayOutChunks(DType::kUint16, shape, {&extent, 1}, {});
  ASSERT_EQ(layout.why_not, "");
  EXPECT_EQ(layout.order, (std::vector<int>{1, 0}));
  layout =
      LayOutChunks(DType::kUint16, shape, {&extent, 1}, {.any_order = false});
  ASSERT_EQ(layout.why_not, "");
  EXPECT_EQ(layout.order, (std::vector<int>{1, 0}));
}

TEST(ChunkLayout, SaysWhyNot) {
  // The array has every second element of a long row.
  const Shape shape{100000};
  Extent extent = Whole(shape, {4});
  EXPECT_THAT(LayOutChunks(DType::kUint16, shape, {&extent, 1}, {}).why_not,
              HasSubstr("its elements lie apart (100000 runs of 2 bytes)"));

  const Extent parts[2] = {
      {{{0, 0}, {4, 6}}, "f", 0, {12, 2}, false},
      {{{4, 0}, {4, 6}}, "f", 48, {2, 8}, false},
  };
  EXPECT_THAT(LayOutChunks(DType::kUint16, {8, 6}, parts, {}).why_not,
              HasSubstr("different orders of axes"));

  Extent half = Whole({4, 6});
  EXPECT_THAT(LayOutChunks(DType::kUint16, {8, 6}, {&half, 1}, {}).why_not,
              HasSubstr("lie nowhere"));

  const Extent three = Whole({2, 3, 4}, {8, 16, 2});
  EXPECT_THAT(
      LayOutChunks(DType::kUint16, {2, 3, 4}, {&three, 1}, {.any_order = false})
          .why_not,
      HasSubstr("zarr 2 has no such order"));
}

}  // namespace
}  // namespace holdfast
