// The number of bytes read by opening an item of many processes.
#include <gtest/gtest.h>

#include <string>

#include "engine/restore/item.h"
#include "scale/virtual_ranks.h"
#include "stores/storage/memory_store.h"

namespace holdfast::testing {
namespace {

constexpr const char* kFirst = "array_metadatas/process_0";
constexpr const char* kSecond = "array_metadatas/process_1";

// Returns a store with an item of two processes that has one typed PRNG key.
std::shared_ptr<MemoryStore> ItemWithKey() {
  auto store = std::make_shared<MemoryStore>();
  const uint32_t bits[2] = {7, 8};
  auto traits = std::make_shared<ArrayTraits>();
  traits->prng_impl = "threefry2x32";
  const Tree tree = Tree::Dict(
      {{"key",
        Tree::JaxArray(Array::FromBytes(DType::kUint32, {2}, bits), traits)}});
  VirtualSave save;
  save.process_count = 2;
  save.options.write_digests = false;
  for (int64_t rank = 0; rank < 2; ++rank) {
    EXPECT_TRUE(SaveRank(save, rank, tree, *store).ok());
  }
  EXPECT_TRUE(Finish(save, *store).ok());
  return store;
}

std::string PrngImplOf(std::shared_ptr<Store> store) {
  ItemPlace place;
  place.directory = Place("memory");
  place.kind = ItemKind::kPytree;
  place.store = std::move(store);
  const auto item = Item::Open(place, {});
  EXPECT_TRUE(item.ok()) << item.status().ToString();
  return (*item)->leaves()[0].info.prng_impl;
}

TEST(OpenOfManyProcesses, OneFileThatNamesAllArraysIsEnough) {
  const auto store = ItemWithKey();
  std::string other((*store->Read(kSecond)).view());
  other.replace(other.find("threefry2x32"), 12, "rbg");
  ASSERT_TRUE(store->Write(kSecond, other).ok());
  EXPECT_EQ(PrngImplOf(store), "threefry2x32");
}

TEST(OpenOfManyProcesses, OthersAreReadWhereTheFirstSaysTooLittle) {
  const auto store = ItemWithKey();
  ASSERT_TRUE(store->Delete(kFirst).ok());
  EXPECT_EQ(PrngImplOf(store), "threefry2x32");
  const auto damaged = ItemWithKey();
  ASSERT_TRUE(damaged->Write(kFirst, "{").ok());
  EXPECT_EQ(PrngImplOf(damaged), "threefry2x32");
}

}  // namespace
}  // namespace holdfast::testing
