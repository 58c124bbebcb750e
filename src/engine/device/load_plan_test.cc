#include "engine/device/load_plan.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>

#include "ground/tensor/grid.h"
#include "gtest/gtest.h"

namespace holdfast {
namespace {

int64_t Draw(std::mt19937& random, int64_t first, int64_t last) {
  return std::uniform_int_distribution<int64_t>(first, last)(random);
}

LeafInfo LeafOf(Shape shape, Shape chunk_shape, std::string codecs) {
  LeafInfo leaf;
  leaf.dtype = DType::kUint16;
  leaf.shape = std::move(shape);
  leaf.chunk_shape = std::move(chunk_shape);
  leaf.codecs = std::move(codecs);
  return leaf;
}

WantedPart PartOf(size_t leaf, Box box) {
  return {leaf, std::move(box), DType::kUint16};
}

LeafInfo RandomLeaf(std::mt19937& random) {
  LeafInfo leaf = LeafOf({}, {}, Draw(random, 0, 1) == 0 ? "none" : "zstd");
  const int64_t rank = Draw(random, 0, 3);
  for (int64_t dim = 0; dim < rank; ++dim) {
    leaf.shape.push_back(Draw(random, 1, 12));
    leaf.chunk_shape.push_back(Draw(random, 1, 14));
  }
  if (Draw(random, 0, 5) == 0) leaf.chunk_shape.clear();
  return leaf;
}

Box RandomBox(const Shape& shape, std::mt19937& random) {
  Box box;
  for (const int64_t extent : shape) {
    box.origin.push_back(Draw(random, 0, extent - 1));
    box.shape.push_back(Draw(random, 1, extent - box.origin.back()));
  }
  return box;
}

// Calls fn(C order number in the leaf, chunk number) for each element of a box.
template <typename Fn>
void ForEachElement(const LeafInfo& leaf, const Box& box, const Fn& fn) {
  const int64_t count = ElementCount(box.shape);
  for (int64_t i = 0; i < count; ++i) {
    int64_t left = i, number = 0, chunk = 0, scale = 1, chunk_scale = 1;
    for (size_t dim = box.shape.size(); dim-- > 0;) {
      const int64_t at = box.origin[dim] + left % box.shape[dim];
      left /= box.shape[dim];
      number += at * scale;
      scale *= leaf.shape[dim];
      if (leaf.chunk_shape.empty()) continue;
      chunk += at / leaf.chunk_shape[dim] * chunk_scale;
      chunk_scale *= leaf.shape[dim];
    }
    fn(number, chunk);
  }
}

TEST(LoadPlan, EachElementIsPlannedOnceAndEachChunkInOneWindow) {
  for (unsigned seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::vector<LeafInfo> leaves;
    std::vector<WantedPart> parts;
    for (size_t leaf = 0; leaf < 3; ++leaf) {
      leaves.push_back(RandomLeaf(random));
      for (int64_t i = Draw(random, 0, 3); i > 0; --i) {
        parts.push_back(PartOf(leaf, RandomBox(leaves[leaf].shape, random)));
      }
    }
    const uint64_t window_bytes =
        64 * static_cast<uint64_t>(Draw(random, 1, 30));
    const auto windows = PlanLoad(leaves, parts, window_bytes);

    std::vector<std::map<int64_t, int>> planned(parts.size());
    std::map<std::pair<size_t, int64_t>, std::set<size_t>> windows_of_chunk;
    for (size_t w = 0; w < windows.size(); ++w) {
      ASSERT_FALSE(windows[w].pieces.empty());
      uint64_t end = 0;
      std::set<std::pair<size_t, int64_t>> chunks;
      bool is_cut_raw = true;
      for (const LoadPiece& piece : windows[w].pieces) {
        const WantedPart& part = parts[piece.part];
        EXPECT_EQ(piece.offset % 64, 0u);
        EXPECT_GE(piece.offset, end);
        end = piece.offset + ElementBytes(piece.box, part.dtype);
        const LeafInfo& leaf = leaves[part.leaf];
        is_cut_raw = is_cut_raw && leaf.codecs == "none";
        ForEachElement(leaf, piece.box, [&](int64_t number, int64_t chunk) {
          ++planned[piece.part][number];
          chunks.insert({part.leaf, chunk});
          windows_of_chunk[{part.leaf, chunk}].insert(w);
        });
      }
      EXPECT_LE(end, windows[w].byte_count);
      if (windows[w].byte_count > window_bytes) {
        EXPECT_EQ(chunks.size(), 1u);
        // A raw chunk is cut, down to the padding of its smallest pieces.
        if (is_cut_raw) {
          EXPECT_GT(64 * windows[w].pieces.size(), window_bytes);
        }
      }
    }
    for (size_t i = 0; i < parts.size(); ++i) {
      std::map<int64_t, int> want;
      ForEachElement(leaves[parts[i].leaf], parts[i].box,
                     [&](int64_t number, int64_t) { want[number] = 1; });
      EXPECT_EQ(planned[i], want);
    }
    for (const auto& [chunk, in] : windows_of_chunk) {
      if (leaves[chunk.first].codecs != "none") {
        EXPECT_EQ(in.size(), 1u);
      }
    }
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(LoadPlan, FillsWindowsInTheOrderOfTheLeaves) {
  // 100 rows of 1 KiB, in chunks of 2 rows; windows of 16 KiB.
  const std::vector<LeafInfo> leaves = {
      LeafOf({100, 512}, {2, 512}, "zstd"),
      LeafOf({100, 512}, {100, 512}, "none"),
      LeafOf({3}, {3}, "zstd"),
  };
  const std::vector<WantedPart> parts = {PartOf(0, BoxOf({100, 512})),
                                         PartOf(1, BoxOf({100, 512})),
                                         PartOf(2, BoxOf({3}))};
  const auto windows = PlanLoad(leaves, parts, 16 << 10);
  EXPECT_LE(windows.size(), 18u);  // 13 if they were full
  std::pair<size_t, int64_t> last{0, -1};
  for (const LoadWindow& window : windows) {
    EXPECT_LE(window.byte_count, uint64_t{16} << 10);
    for (const LoadPiece& piece : window.pieces) {
      const std::pair<size_t, int64_t> at{piece.part, piece.box.origin[0]};
      EXPECT_LT(last, at);
      last = at;
      if (piece.part == 0) {
        EXPECT_EQ(piece.box.origin[0] % 2, 0);
      }
    }
  }
  EXPECT_EQ(last.first, 2u);
}

TEST(LoadPlan, BoxesThatShareChunksShareWindows) {
  // Columns for four devices, of chunks of full rows.
  const std::vector<LeafInfo> leaves = {LeafOf({64, 128}, {4, 128}, "zstd")};
  std::vector<WantedPart> parts;
  for (int64_t device = 0; device < 4; ++device) {
    parts.push_back(PartOf(0, {{0, 32 * device}, {64, 32}}));
  }
  const auto windows = PlanLoad(leaves, parts, 4096);
  ASSERT_EQ(windows.size(), 4u);
  for (const LoadWindow& window : windows) {
    EXPECT_EQ(window.byte_count, 4096u);
    std::map<size_t, int64_t> rows;
    for (const LoadPiece& piece : window.pieces) {
      rows[piece.part] += piece.box.shape[0];
    }
    EXPECT_EQ(rows,
              (std::map<size_t, int64_t>{{0, 16}, {1, 16}, {2, 16}, {3, 16}}));
  }
}

TEST(LoadPlan, ARawChunkStaysWholeIfAWindowHoldsIt) {
  const std::vector<LeafInfo> leaves = {LeafOf({8, 512}, {4, 512}, "none")};
  const std::vector<WantedPart> parts = {PartOf(0, BoxOf({8, 512}))};
  const auto windows = PlanLoad(leaves, parts, 4096);
  ASSERT_EQ(windows.size(), 2u);
  EXPECT_EQ(windows[0].pieces.size(), 1u);
  EXPECT_EQ(windows[1].pieces.size(), 1u);
}

TEST(LoadPlan, NothingWantedIsNoWindow) {
  EXPECT_TRUE(PlanLoad({}, {}, 4096).empty());
}

}  // namespace
}  // namespace holdfast
