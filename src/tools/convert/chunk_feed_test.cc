#include "tools/convert/chunk_feed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <numeric>
#include <random>
#include <thread>

#include "ground/tensor/copy.h"
#include "ground/tensor/grid.h"

namespace holdfast {
namespace {

// A source of int32 arrays in memory. Element i of leaf n is n * 1000000 + i.
class FakeSource : public Checkpoint {
 public:
  explicit FakeSource(std::vector<Shape> shapes) {
    for (size_t n = 0; n < shapes.size(); ++n) {
      std::vector<int32_t> elements(ElementCount(shapes[n]));
      std::iota(elements.begin(), elements.end(),
                static_cast<int32_t>(n) * 1000000);
      arrays_.push_back(
          Array::FromBytes(DType::kInt32, shapes[n], elements.data()));
      LeafInfo& info = infos_.emplace_back();
      info.dtype = DType::kInt32;
      info.shape = shapes[n];
    }
  }

 protected:
  Result<Stats> DoReadInto(const std::vector<ReadRequest>& requests,
                           const RunOptions&) const override {
    ++pass_count_;
    if (fails_) return DataLossError("torn");
    Stats stats;
    for (const ReadRequest& request : requests) {
      CopyStrided(Subview(arrays_[request.leaf].view(),
                          {request.origin, request.target.shape}),
                  request.target);
      stats.stored_bytes += ElementCount(request.target.shape) * 4;
    }
    return stats;
  }
  Result<std::string> DoReadText(size_t) const override {
    return InternalError("not asked for");
  }

 public:
  const Array& array(size_t n) const { return arrays_[n]; }
  int pass_count() const { return pass_count_; }
  void Fail() { fails_ = true; }

 private:
  std::vector<Array> arrays_;
  mutable std::atomic<int> pass_count_ = 0;
  bool fails_ = false;
};

std::vector<FeedUnit> UnitsOfGrid(size_t leaf, const Shape& shape,
                                  const Shape& chunk_shape) {
  const ChunkGrid grid{shape, chunk_shape};
  std::vector<FeedUnit> units;
  for (int64_t i = 0; i < grid.ChunkCount(); ++i) {
    units.push_back({leaf, DType::kInt32, grid.ChunkBox(grid.ChunkIndex(i))});
  }
  return units;
}

// Expects the feed to return the source's elements at `box`.
void ExpectRead(ChunkFeed& feed, const FakeSource& source, size_t leaf,
                const Box& box) {
  Array got = *Array::Allocate(DType::kInt32, box.shape);
  const Status status = feed.Read(leaf, box.origin, got.mutable_view());
  ASSERT_TRUE(status.ok()) << status.ToString();
  Array want = *Array::Allocate(DType::kInt32, box.shape);
  CopyStrided(Subview(source.array(leaf).view(), box), want.mutable_view());
  EXPECT_EQ(std::memcmp(got.view().data, want.view().data, got.byte_count()), 0)
      << leaf << " " << BoxToString(box);
}

TEST(AppendPieces, CoverTheUnitOnceInOrder) {
  const FeedUnit unit{2, DType::kInt32, {{10, 20}, {5, 7}}};
  for (const uint64_t bytes_max : {1, 4, 11, 28, 60, 139, 140}) {
    std::vector<FeedUnit> pieces;
    AppendPieces(unit, bytes_max, pieces);
    std::vector<int> seen(35);
    int last = -1;
    for (const FeedUnit& piece : pieces) {
      EXPECT_LE(piece.byte_count(), std::max<uint64_t>(bytes_max, 4));
      for (int64_t i = 0; i < piece.box.shape[0]; ++i) {
        for (int64_t j = 0; j < piece.box.shape[1]; ++j) {
          const int at = (piece.box.origin[0] - 10 + i) * 7 +
                         (piece.box.origin[1] - 20 + j);
          EXPECT_EQ(at, last + 1);
          last = at;
          ++seen[at];
        }
      }
    }
    EXPECT_THAT(seen, ::testing::Each(1));
    EXPECT_EQ(pieces.size() == 1, bytes_max >= 140);
  }
}

TEST(ChunkFeed, ReadsABatchInOnePass) {
  const FakeSource source({{8, 6}, {10}});
  std::vector<FeedUnit> units = UnitsOfGrid(0, {8, 6}, {2, 3});
  for (const FeedUnit& unit : UnitsOfGrid(1, {10}, {4})) units.push_back(unit);
  // Batches have up to 100 bytes: four chunks of 24 bytes, then four more, then
  // the rest.
  ChunkFeed feed(source, units, {{}, 200});
  for (const FeedUnit& unit : units) {
    ExpectRead(feed, source, unit.leaf, unit.box);
  }
  EXPECT_EQ(source.pass_count(), 3);
  EXPECT_EQ(feed.stored_bytes(), 8u * 6 * 4 + 40);
  EXPECT_LE(feed.waiting_bytes_peak(), 200u);
  for (size_t i = 0; i < units.size(); ++i) {
    Array unit = *Array::Allocate(DType::kInt32, units[i].box.shape);
    CopyStrided(Subview(source.array(units[i].leaf).view(), units[i].box),
                unit.mutable_view());
    EXPECT_EQ(feed.hashes()[i],
              ElementsHash({unit.view().data, unit.byte_count()}));
  }
}

TEST(ChunkFeed, GivesUnitsPieceByPiece) {
  const FakeSource source({{6, 4}});
  ChunkFeed feed(source, UnitsOfGrid(0, {6, 4}, {6, 4}), {{}, 1000});
  for (int64_t row = 0; row < 6; ++row) {
    ExpectRead(feed, source, 0, {{row, 0}, {1, 4}});
  }
  EXPECT_EQ(source.pass_count(), 1);
  // The batch was freed, so it is read again.
  ExpectRead(feed, source, 0, {{0, 0}, {6, 4}});
  EXPECT_EQ(source.pass_count(), 2);
}

TEST(ChunkFeed, ReadsAlongAcrossUnits) {
  const FakeSource source(std::vector<Shape>{Shape{9}});
  ChunkFeed feed(source, UnitsOfGrid(0, {9}, {4}), {{}, 1000});
  ExpectRead(feed, source, 0, {{2}, {7}});
  EXPECT_EQ(source.pass_count(), 1);
}

TEST(ChunkFeed, AnyOrderGivesTheElements) {
  std::mt19937 random(5);
  for (int round = 0; round < 100; ++round) {
    const Shape shape{1 + int64_t(random() % 12), 1 + int64_t(random() % 12)};
    const FakeSource source({shape, {30}});
    const Shape chunk{1 + int64_t(random()) % shape[0],
                      1 + int64_t(random()) % shape[1]};
    std::vector<FeedUnit> units = UnitsOfGrid(0, shape, chunk);
    for (const FeedUnit& unit : UnitsOfGrid(1, {30}, {7})) {
      units.push_back(unit);
    }
    uint64_t largest = 0;
    for (const FeedUnit& unit : units) {
      largest = std::max(largest, unit.byte_count());
    }
    const uint64_t bytes_max = 2 * largest + random() % 300;
    ChunkFeed feed(source, units, {{}, bytes_max});
    std::vector<FeedUnit> wanted = units;
    std::shuffle(wanted.begin(), wanted.end(), random);
    for (const FeedUnit& unit : wanted) {
      ExpectRead(feed, source, unit.leaf, unit.box);
    }
    EXPECT_LE(feed.waiting_bytes_peak(), bytes_max);
  }
}

TEST(ChunkFeed, ManyThreadsGetTheirOwn) {
  const FakeSource source({{64, 32}});
  const std::vector<FeedUnit> units = UnitsOfGrid(0, {64, 32}, {4, 8});
  ChunkFeed feed(source, units, {{}, 16 * 128});
  std::atomic<size_t> next = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (size_t i = next++; i < units.size(); i = next++) {
        ExpectRead(feed, source, 0, units[i].box);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(feed.waiting_bytes_peak(), 16u * 128);
}

TEST(ChunkFeed, PassesFailuresOn) {
  FakeSource source(std::vector<Shape>{Shape{8}});
  source.Fail();
  ChunkFeed feed(source, UnitsOfGrid(0, {8}, {4}), {{}, 1000});
  Array target = *Array::Allocate(DType::kInt32, {4});
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(feed.Read(0, {4 * i}, target.mutable_view()).ToString(),
              "DATA_LOSS: torn");
  }
}

}  // namespace
}  // namespace holdfast
