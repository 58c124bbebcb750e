#include "formats/ocdbt/pending_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/ocdbt/database_test_util.h"
#include "twins/fault_store.h"

namespace holdfast::ocdbt {
namespace {

std::unique_ptr<PendingStore> OpenPending(const std::shared_ptr<Store>& base) {
  auto store = PendingStore::Open(base, "dir/", FixedOptions('p'));
  EXPECT_TRUE(store.ok()) << store.status().ToString();
  return *std::move(store);
}

TEST(PendingStoreTest, ChangesAreSeenAndThenCommitted) {
  const auto base = std::make_shared<MemoryStore>();
  ASSERT_TRUE(WriteItems(*base, "dir/", {{"a", "1"}, {"b", "2"}, {"c", "3"}},
                         FixedOptions('a'))
                  .ok());
  const Items before = Contents(*base);
  const auto store = OpenPending(base);
  Set(*store, "b", "22");
  Set(*store, "d", "4");
  ASSERT_TRUE(store->Delete("a").ok());
  const Items expected = {{"b", "22"}, {"c", "3"}, {"d", "4"}};
  EXPECT_EQ(Contents(*store), expected);
  EXPECT_EQ(store->Read("a").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(store->Stat("b")->byte_count, 2u);
  EXPECT_EQ(Contents(*base), before);
  ASSERT_TRUE(store->Commit().ok());
  EXPECT_EQ(*ReadItems(*base, "dir/"), expected);
  EXPECT_EQ(Contents(*store), expected);
  ASSERT_TRUE(store->Commit().ok());  // nothing is pending now
  EXPECT_EQ(
      (*Database::Open(base.get(), "dir/"))->version()->version.generation, 2u);
}

TEST(PendingStoreTest, NothingToCommitWritesNothing) {
  const auto base = std::make_shared<MemoryStore>();
  const auto store = OpenPending(base);
  EXPECT_TRUE(Contents(*store).empty());
  ASSERT_TRUE(store->Commit().ok());
  EXPECT_TRUE(Contents(*base).empty());
}

TEST(PendingStoreTest, PiecesOfAnObjectAppearWithFinish) {
  const auto base = std::make_shared<MemoryStore>();
  const auto store = OpenPending(base);
  const auto writer = store->Create("k");
  const std::string_view tail = "lo", head = "hel";
  ASSERT_TRUE((*writer)->WriteAt(3, {&tail, 1}).ok());
  ASSERT_TRUE((*writer)->WriteAt(0, {&head, 1}).ok());
  EXPECT_FALSE(store->Stat("k").ok());
  ASSERT_TRUE((*writer)->Finish(true).ok());
  EXPECT_EQ(store->Read("k", {1, 3})->ToString(), "ell");
  EXPECT_EQ((*writer)->Finish(true).code(), StatusCode::kFailedPrecondition);
}

TEST(PendingStoreTest, MustCreateLooksAtBoth) {
  const auto base = std::make_shared<MemoryStore>();
  ASSERT_TRUE(WriteItems(*base, "dir/", {{"a", "1"}}, FixedOptions('a')).ok());
  const auto store = OpenPending(base);
  Set(*store, "b", "2");
  for (const char* key : {"a", "b"}) {
    EXPECT_EQ(store->Write(key, "x", {.must_create = true}).code(),
              StatusCode::kAlreadyExists);
  }
  ASSERT_TRUE(store->Delete("a").ok());
  EXPECT_TRUE(store->Write("a", "x", {.must_create = true}).ok());
}

TEST(PendingStoreTest, AFailedCommitKeepsTheChanges) {
  const auto base = std::make_shared<FaultStore>();
  const auto store = OpenPending(base);
  Set(*store, "a", std::string(2000, 'a'));
  base->SetFaults({.fail_at = 3, .sticky = true});
  EXPECT_FALSE(store->Commit().ok());
  base->SetFaults({});
  EXPECT_FALSE(ReadItems(*base, "dir/").ok());
  ASSERT_TRUE(store->Commit().ok());
  EXPECT_EQ(*ReadItems(*base, "dir/"), (Items{{"a", std::string(2000, 'a')}}));
}

}  // namespace
}  // namespace holdfast::ocdbt
