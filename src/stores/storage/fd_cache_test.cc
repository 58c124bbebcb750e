#include "stores/storage/fd_cache.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <optional>
#include <string>

namespace holdfast {
namespace {

std::shared_ptr<const OpenFile> File() { return std::make_shared<OpenFile>(); }

TEST(FdCache, DropsTheLeastRecentlyUsed) {
  FdCache cache(2);
  const auto a = File(), b = File(), c = File();
  cache.Insert("a", a);
  cache.Insert("b", b);
  EXPECT_EQ(cache.Find("a"), a);  // now b is the oldest
  cache.Insert("c", c);
  EXPECT_EQ(cache.file_count(), 2u);
  EXPECT_EQ(cache.Find("a"), a);
  EXPECT_EQ(cache.Find("b"), nullptr);
  EXPECT_EQ(cache.Find("c"), c);
}

TEST(FdCache, InsertReplacesAndEraseForgets) {
  FdCache cache(2);
  const auto old_file = File(), new_file = File();
  cache.Insert("k", old_file);
  cache.Insert("k", new_file);
  EXPECT_EQ(cache.file_count(), 1u);
  EXPECT_EQ(cache.Find("k"), new_file);
  EXPECT_EQ(old_file.use_count(), 1);
  cache.Erase("no");
  cache.Erase("k");
  EXPECT_EQ(cache.Find("k"), nullptr);
  cache.Insert("k", new_file);
  cache.Clear();
  EXPECT_EQ(cache.file_count(), 0u);
  EXPECT_EQ(new_file.use_count(), 1);
}

TEST(FdCache, ZeroKeepsNothing) {
  FdCache cache(0);
  cache.Insert("k", File());
  EXPECT_EQ(cache.Find("k"), nullptr);
}

TEST(FdCache, AllTogetherKeepAQuarterOfTheDescriptors) {
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit few = before;
  few.rlim_cur = 32;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  FdCache first(256);
  std::optional<FdCache> second(256);
  for (int i = 0; i < 6; ++i) second->Insert(std::to_string(i), File());
  for (int i = 0; i < 100; ++i) first.Insert(std::to_string(i), File());
  EXPECT_EQ(second->file_count(), 6u);
  EXPECT_EQ(first.file_count(), 2u);
  EXPECT_NE(first.Find("99"), nullptr);
  second.reset();
  for (int i = 0; i < 100; ++i) first.Insert(std::to_string(i), File());
  EXPECT_EQ(first.file_count(), 8u);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  for (int i = 0; i < 100; ++i) first.Insert(std::to_string(i), File());
  EXPECT_EQ(first.file_count(), 100u);
}

}  // namespace
}  // namespace holdfast
