// Trees of many nodes on a store with latency: each level is one round trip.
#include <gtest/gtest.h>

#include <string>

#include "formats/ocdbt/database.h"
#include "formats/ocdbt/database_test_util.h"
#include "stores/storage/memory_store.h"

namespace holdfast::ocdbt {
namespace {

// Claims that requests take long, and counts how often a caller waits.
class FarStore final : public MemoryStore {
 public:
  FarStore() : MemoryStore("far") {}
  int requests_in_flight() const override { return 16; }
  Result<Bytes> Read(std::string_view key, ByteRange range) override {
    ++trip_count;
    return MemoryStore::Read(key, range);
  }
  Status ReadBatch(std::span<const RangeRead> requests,
                   const CancelToken* cancel) override {
    const int trips_before = trip_count;
    const Status status = MemoryStore::ReadBatch(requests, cancel);
    trip_count = trips_before + 1;  // no matter which calls it consists of
    return status;
  }

  int trip_count = 0;
};

Items WriteSmallNodes(Store& store, int count) {
  BulkWriteOptions options;
  options.max_decoded_node_bytes = 4000;
  Items items;
  for (int i = 0; i < count; ++i) {
    const std::string key = "key/" + std::to_string(100'000 + i);
    items[key] = "value of " + key;
  }
  EXPECT_TRUE(WriteItems(store, "", items, options).ok());
  return items;
}

TEST(FetchAhead, ALevelOfNodesIsOneRoundTrip) {
  FarStore store;
  const auto written = WriteSmallNodes(store, 3000);
  const auto database = Database::Open(&store, "", {}).value();
  const int opened = store.trip_count;
  EXPECT_EQ(ReadItems(*database).value(), written);
  // The trips fetch the root and the leaves.
  EXPECT_LE(store.trip_count - opened, 3);
  const int walked = store.trip_count;
  EXPECT_TRUE(database->Find("key/101234").ok());
  EXPECT_EQ(store.trip_count, walked);
}

TEST(FetchAhead, ATreeLargerThanTheCacheIsWalkedAllTheSame) {
  FarStore store;
  const auto written = WriteSmallNodes(store, 3000);
  OpenOptions options;
  options.node_cache_bytes_max = 10'000;
  const auto database = Database::Open(&store, "", options).value();
  EXPECT_EQ(ReadItems(*database).value(), written);
}

TEST(FetchAhead, ADamagedNodeIsToldByWhoNeedsIt) {
  FarStore store;
  WriteSmallNodes(store, 3000);
  std::string file;
  ASSERT_TRUE(store
                  .List("d/",
                        [&](std::string_view key, const ObjectInfo&) {
                          file = key;
                          return Status();
                        })
                  .ok());
  const std::string whole = store.Read(file, {}).value().ToString();
  for (const size_t at : {whole.size() / 4, whole.size() / 2}) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    ASSERT_TRUE(store.Store::Write(file, damaged).ok());
    const auto database = Database::Open(&store, "", {}).value();
    const Status status = database->ForEach(
        "", "", "", [](std::string_view, const ValueRef&) { return Status(); });
    EXPECT_EQ(status.code(), StatusCode::kDataLoss) << status.ToString();
    EXPECT_NE(status.ToString().find("Byte range"), std::string::npos);
  }
}

}  // namespace
}  // namespace holdfast::ocdbt
