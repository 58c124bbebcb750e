// A merge of the ranks' databases refers to their values and never reads them.
#include <gtest/gtest.h>

#include <mutex>
#include <string>
#include <vector>

#include "formats/ocdbt/database.h"
#include "formats/ocdbt/entry_list.h"
#include "scale/virtual_ranks.h"
#include "stores/storage/memory_store.h"
#include "twins/counting_store.h"

namespace holdfast::testing {
namespace {

struct Extent {
  std::string key;
  uint64_t begin = 0;
  uint64_t end = 0;

  bool Overlaps(const Extent& other) const {
    return key == other.key && begin < other.end && other.begin < end;
  }
};

// Records what was read.
class ReadLog final : public CountingStore {
 public:
  explicit ReadLog(Store* inner) : CountingStore(inner) {}

  Result<Bytes> Read(std::string_view key, ByteRange range) override {
    auto bytes = CountingStore::Read(key, range);
    if (bytes.ok()) Add(key, range.offset, bytes->view().size());
    return bytes;
  }
  Status ReadInto(std::string_view key, uint64_t offset,
                  std::span<char> target) override {
    Add(key, offset, target.size());
    return CountingStore::ReadInto(key, offset, target);
  }
  Status ReadBatch(std::span<const RangeRead> requests,
                   const CancelToken* cancel) override {
    for (const RangeRead& request : requests) {
      Add(request.key, request.offset, request.target.size());
    }
    return CountingStore::ReadBatch(requests, cancel);
  }

  const std::vector<Extent>& reads() const { return reads_; }

 private:
  void Add(std::string_view key, uint64_t offset, uint64_t byte_count) {
    const std::lock_guard lock(mutex_);
    reads_.push_back({std::string(key), offset, offset + byte_count});
  }

  std::mutex mutex_;
  std::vector<Extent> reads_;
};

// Returns where the values of a process's database are stored.
std::vector<Extent> ValuesOf(int64_t rank, Store& store) {
  const std::string directory = "ocdbt.process_" + std::to_string(rank) + "/";
  const auto database = ocdbt::Database::Open(&store, directory);
  EXPECT_TRUE(database.ok()) << database.status().ToString();
  const auto list = ocdbt::ReadAllEntries(**database);
  EXPECT_TRUE(list.ok()) << list.status().ToString();
  std::vector<Extent> values;
  for (const ocdbt::LeafEntry& entry : list->entries) {
    if (entry.is_inline()) continue;
    values.push_back({directory + list->files[entry.file_index].path,
                      entry.offset, entry.offset + entry.value_byte_count});
  }
  return values;
}

TEST(Merge, ReadsNoValue) {
  constexpr int64_t kRanks = 6;
  VirtualSave save;
  save.process_count = kRanks;
  save.options.compression = Compression::kNone;
  MemoryStore memory;
  std::vector<float> elements(kRanks * 500);
  const Array whole =
      Array::FromBytes(DType::kFloat32, {kRanks, 500}, elements.data());
  const NamedSharding rows{{{"x"}, {kRanks}, {}, {}}, {{"x"}}};
  for (int64_t rank = 0; rank < kRanks; ++rank) {
    auto leaves = SpreadLeaves::OfRank(rows, {}, rank, {});
    Tree tree = Tree::Dict();
    for (int i = 0; i < 20; ++i) {
      tree.Add("w" + std::to_string(i), *leaves->Leaf(whole));
    }
    ASSERT_TRUE(SaveRank(save, rank, tree, memory).ok());
  }
  ReadLog log(&memory);
  const auto finished = Finish(save, log);
  ASSERT_TRUE(finished.ok()) << finished.status().ToString();
  EXPECT_GE(log.reads().size(), size_t{3 * kRanks});
  size_t value_count = 0;
  for (int64_t rank = 0; rank < kRanks; ++rank) {
    for (const Extent& value : ValuesOf(rank, memory)) {
      ++value_count;
      for (const Extent& read : log.reads()) {
        EXPECT_FALSE(read.Overlaps(value))
            << read.key << " at " << read.begin << " to " << read.end;
      }
    }
  }
  EXPECT_EQ(value_count, size_t{20 * kRanks});
}

}  // namespace
}  // namespace holdfast::testing
