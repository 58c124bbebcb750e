#include "stores/storage/memory_store.h"

#include "conformance/store_conformance.h"

namespace holdfast {
namespace {

struct MemoryFactory {
  std::unique_ptr<Store> Make() { return std::make_unique<MemoryStore>(); }
};
INSTANTIATE_TYPED_TEST_SUITE_P(Memory, StoreConformance, MemoryFactory);

TEST(MemoryStore, ReadsShareTheObjectsBytes) {
  MemoryStore store;
  ASSERT_TRUE(store.Write("k", "0123456789").ok());
  const Result<Bytes> whole = store.Read("k");
  const Result<Bytes> part = store.Read("k", {3, 4});
  ASSERT_TRUE(whole.ok() && part.ok());
  EXPECT_EQ(part->data(), whole->data() + 3);
}

TEST(MemoryStore, PutTakesBytesWithoutACopy) {
  MemoryStore store("here");
  const Bytes value(std::string(1000, 'x'));
  store.Put("a/k", value);
  EXPECT_EQ(store.Read("a/k")->data(), value.data());
  EXPECT_EQ(store.Describe("a/k"), "here/a/k");
}

TEST(MemoryStore, AnObjectTooLargeForMemoryIsResourceExhausted) {
  MemoryStore store;
  auto writer = store.Create("k");
  const std::string_view pieces[] = {"x"};
  ASSERT_TRUE((*writer)->WriteAt(uint64_t{1} << 62, pieces).ok());
  EXPECT_EQ((*writer)->Finish(true).code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(store.Stat("k").status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace holdfast
