#include "formats/ocdbt/ocdbt_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "formats/ocdbt/database_test_util.h"

namespace holdfast::ocdbt {
namespace {

class OcdbtStoreTest : public ::testing::Test {
 protected:
  OcdbtStoreTest()
      : items_{{"a/.zarray", "{}"},
               {"a/0", std::string(2000, 'x') + "end"},
               {"b/empty", ""}} {
    EXPECT_TRUE(WriteItems(base_, "dir/", items_, FixedOptions()).ok());
    auto database = Database::Open(&base_, "dir/");
    store_ = std::make_unique<OcdbtStore>(std::move(database).value());
  }

  const Items items_;
  MemoryStore base_;
  std::unique_ptr<OcdbtStore> store_;
};

TEST_F(OcdbtStoreTest, ReadsWholeValuesAndRanges) {
  for (const auto& [key, value] : items_) {
    EXPECT_EQ(store_->Stat(key)->byte_count, value.size());
    EXPECT_EQ(store_->Read(key)->view(), value);
    EXPECT_EQ(store_->Read(key, {value.size(), kToEnd})->view(), "");
    for (size_t offset = 0; offset < value.size(); offset += 700) {
      const size_t count = std::min<size_t>(5, value.size() - offset);
      const std::string want = value.substr(offset, count);
      EXPECT_EQ(store_->Read(key, {offset, count})->view(), want);
      std::string target(count, '\0');
      EXPECT_TRUE(store_->ReadInto(key, offset, target).ok());
      EXPECT_EQ(target, want);
    }
  }
}

TEST_F(OcdbtStoreTest, ReadBatchMixesInlineAndIndirect) {
  std::string meta(2, '\0');
  std::string tail(3, '\0');
  const std::vector<RangeRead> requests = {{"a/0", 2000, tail},
                                           {"a/.zarray", 0, meta}};
  ASSERT_TRUE(store_->ReadBatch(requests).ok());
  EXPECT_EQ(tail, "end");
  EXPECT_EQ(meta, "{}");
}

TEST_F(OcdbtStoreTest, RangesEndAtTheValue) {
  for (const char* key : {"a/.zarray", "a/0", "b/empty"}) {
    const uint64_t size = items_.at(key).size();
    EXPECT_EQ(store_->Read(key, {size, 1}).status().code(),
              StatusCode::kOutOfRange);
    EXPECT_EQ(store_->Read(key, {size + 1, kToEnd}).status().code(),
              StatusCode::kOutOfRange);
    char byte = 0;
    EXPECT_EQ(store_->ReadInto(key, size, {&byte, 1}).code(),
              StatusCode::kOutOfRange);
  }
  EXPECT_THAT(std::string(store_->Read("a/0", {1, 5000}).status().message()),
              ::testing::HasSubstr("Requested byte range [1, 5001) is not "
                                   "valid for value of size 2003"));
}

TEST_F(OcdbtStoreTest, LocateLeadsToTheDataFile) {
  const auto location = store_->Locate("a/0");
  ASSERT_TRUE(location.ok());
  ASSERT_EQ(location->store, &base_);
  EXPECT_FALSE(location->inline_value.has_value());
  EXPECT_EQ(location->store
                ->Read(location->key, {location->offset, location->byte_count})
                ->view(),
            items_.at("a/0"));
  const auto inline_location = store_->Locate("a/.zarray");
  EXPECT_EQ(inline_location->store, nullptr);
  EXPECT_EQ(inline_location->inline_value->view(), "{}");
  EXPECT_EQ(inline_location->byte_count, 2u);
}

TEST_F(OcdbtStoreTest, ListsByPlainPrefixInOrder) {
  std::vector<std::pair<std::string, uint64_t>> got;
  ASSERT_TRUE(store_
                  ->List("a/",
                         [&](std::string_view key, const ObjectInfo& info) {
                           got.emplace_back(key, info.byte_count);
                           return Status();
                         })
                  .ok());
  EXPECT_THAT(got, ::testing::ElementsAre(
                       std::pair<std::string, uint64_t>("a/.zarray", 2),
                       std::pair<std::string, uint64_t>("a/0", 2003)));
}

TEST_F(OcdbtStoreTest, AbsentKeyIsNotFound) {
  EXPECT_EQ(store_->Stat("a/1").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(store_->Read("a/").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(store_->Locate("").status().code(), StatusCode::kNotFound);
}

TEST_F(OcdbtStoreTest, CannotBeWritten) {
  EXPECT_EQ(store_->Write("k", "v").code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(store_->Create("k").status().code(),
            StatusCode::kFailedPrecondition);
  EXPECT_EQ(store_->Delete("a/0").code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(store_->Delete("a/0").message()),
              ::testing::HasSubstr("dir/|ocdbt:a/0"));
}

TEST_F(OcdbtStoreTest, MissingDataFileIsNamed) {
  const std::string file = store_->Locate("a/0")->key;
  ASSERT_TRUE(base_.Delete(file).ok());
  const Status status = store_->Read("a/0").status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr(file));
}

}  // namespace
}  // namespace holdfast::ocdbt
