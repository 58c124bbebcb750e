#include "twins/counting_store.h"

#include <utility>

#include "conformance/store_conformance.h"
#include "stores/storage/memory_store.h"

namespace holdfast {
namespace {

struct CountingFactory {
  std::unique_ptr<Store> Make() {
    return std::make_unique<CountingStore>(&memory);
  }
  MemoryStore memory;
};
INSTANTIATE_TYPED_TEST_SUITE_P(Counting, StoreConformance, CountingFactory);

TEST(CountingStore, CountsCallsAndBytes) {
  MemoryStore memory;
  CountingStore store(&memory);
  ASSERT_TRUE(store.Write("a", "0123456789").ok());
  ASSERT_TRUE(store.Write("b", "abc", {.sync = false}).ok());
  auto writer = store.Create("c");
  const std::string_view pieces[] = {"12", "3"};
  ASSERT_TRUE((*writer)->WriteAt(5, pieces).ok());
  ASSERT_TRUE((*writer)->Finish(true).ok());
  std::string target(2, '?');
  ASSERT_TRUE(store.Read("a", {4, kToEnd}).ok());
  ASSERT_TRUE(store.ReadInto("a", 0, target).ok());
  const RangeRead requests[] = {{"a", 1, target}, {"b", 0, target}};
  ASSERT_TRUE(store.ReadBatch(requests).ok());
  ASSERT_TRUE(store.Stat("a").ok());
  ASSERT_TRUE(store.List("", [](auto, const auto&) { return Status(); }).ok());
  ASSERT_TRUE(store.Delete("a").ok());
  ASSERT_TRUE(store.SyncNames().ok());
  const StoreCounters want = {.stat_calls = 1,
                              .read_calls = 4,
                              .read_bytes = 6 + 2 + 2 + 2,
                              .list_calls = 1,
                              .write_calls = 3,
                              .written_bytes = 10 + 3 + 3,
                              .create_calls = 1,
                              .finish_calls = 1,
                              .delete_calls = 1,
                              .sync_names_calls = 1,
                              .synced_writes = 2};
  EXPECT_EQ(store.counters(), want);
  store.ResetCounters();
  EXPECT_EQ(store.counters(), StoreCounters());
}

TEST(CountingStore, FailedReadsCountNoBytes) {
  MemoryStore memory;
  CountingStore store(&memory);
  EXPECT_FALSE(store.Read("no").ok());
  EXPECT_EQ(store.counters(), (StoreCounters{.read_calls = 1}));
}

TEST(CountingStore, LocatedReadsAreCounted) {
  MemoryStore memory;
  CountingStore store(&memory);
  ASSERT_TRUE(memory.Write("k", "x").ok());
  EXPECT_EQ(store.Locate("k")->store, &store);
}

}  // namespace
}  // namespace holdfast
