#include "engine/restore/array_index.h"

#include <gtest/gtest.h>

#include "stores/storage/memory_store.h"

namespace holdfast {
namespace {

TEST(ArrayIndex, GivesEachArrayItsOwnBytes) {
  MemoryStore store;
  for (const char* key : {"a/.zarray", "a/0.0", "a/0.1", "a/b/zarr.json",
                          "a/b/c/0/0", "unrelated", "w/c/0", "w/zarr.json"}) {
    ASSERT_TRUE(store.Write(key, std::string(10, 'x'), {}).ok());
  }
  const auto index = ArrayIndex::FromDirectory(store);
  ASSERT_TRUE(index.ok());
  ASSERT_EQ(index->arrays().size(), 3u);
  EXPECT_EQ(index->Find("a")->stored_bytes, 30u);
  EXPECT_EQ(index->Find("a")->zarr_format, 2);
  EXPECT_EQ(index->Find("a/b")->stored_bytes, 20u);
  EXPECT_EQ(index->Find("w")->stored_bytes, 20u);
  EXPECT_EQ(index->Find("w")->zarr_format, 3);
  EXPECT_EQ(index->Find("w/"), index->Find("w"));
  EXPECT_EQ(index->Find("x"), nullptr);
}

TEST(ArrayIndex, BareArrayHasTheEmptyName) {
  MemoryStore store;
  ASSERT_TRUE(store.Write(".zarray", "{}", {}).ok());
  ASSERT_TRUE(store.Write("0", "12345", {}).ok());
  const auto index = ArrayIndex::FromDirectory(store);
  ASSERT_TRUE(index.ok());
  ASSERT_NE(index->Find(""), nullptr);
  EXPECT_EQ(index->Find("")->stored_bytes, 7u);
  EXPECT_EQ(ArrayPrefix(""), "");
  EXPECT_EQ(ArrayPrefix("a.b"), "a.b/");
  EXPECT_EQ(ArrayPrefix("a/"), "a/");
}

TEST(ArrayIndex, MissingArrayIsExplained) {
  MemoryStore store;
  const Status missing = ReadStoredArray(store, "w").status();
  EXPECT_EQ(missing.code(), StatusCode::kNotFound);
  EXPECT_NE(missing.message().find("File not found"), std::string::npos);
}

}  // namespace
}  // namespace holdfast
