#include "formats/ocdbt/commit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "formats/ocdbt/database_test_util.h"
#include "twins/fault_store.h"

namespace holdfast::ocdbt {
namespace {

const Items& SomeItems() {
  static const Items* const items = new Items{{"a", "inline"},
                                              {"b", std::string(3000, 'b')},
                                              {"c", std::string(5000, 'c')},
                                              {"d", std::string(2000, 'd')}};
  return *items;
}

// Writes two data files from one thread, so that operations come in a fixed
// order.
Status WriteDatabase(Store& store, bool sync) {
  BulkWriteOptions options = FixedOptions();
  options.sync = sync;
  options.target_data_file_bytes = 6000;
  return WriteItems(store, "dir/", SomeItems(), options).status();
}

TEST(CommitTest, DataIsDurableBeforeTheManifestIsWritten) {
  FaultStore store;
  ASSERT_TRUE(WriteDatabase(store, true).ok());
  const std::string first = "dir/d/" + std::string(31, 'a') + "0";
  const std::string second = "dir/d/" + std::string(31, 'a') + "1";
  EXPECT_THAT(
      store.operations(),
      ::testing::ElementsAre(
          "create " + first, "write_at " + first, "write_at " + first,
          "finish " + first + " sync", "create " + second, "write_at " + second,
          "write_at " + second, "finish " + second + " sync", "sync_names",
          "write dir/manifest.ocdbt sync atomic must_create", "sync_names"));
}

TEST(CommitTest, WithoutSyncNothingIsSynced) {
  FaultStore store;
  ASSERT_TRUE(WriteDatabase(store, false).ok());
  for (const std::string& operation : store.operations()) {
    EXPECT_EQ(operation.find("sync"), std::string::npos) << operation;
  }
}

TEST(CommitTest, EveryFailureIsReported) {
  FaultStore whole;
  ASSERT_TRUE(WriteDatabase(whole, true).ok());
  for (uint64_t k = 1; k <= whole.operation_count(); ++k) {
    FaultStore store({.fail_at = k, .code = StatusCode::kResourceExhausted});
    const Status status = WriteDatabase(store, true);
    EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << k;
    EXPECT_THAT(std::string(status.message()),
                ::testing::HasSubstr("injected"));
  }
}

// Power may fail at any operation: afterwards the database is either absent or
// complete. Once the write has returned, it is complete.
TEST(CommitTest, CrashLeavesAllOrNothing) {
  FaultStore whole;
  ASSERT_TRUE(WriteDatabase(whole, true).ok());
  const uint64_t operation_count = whole.operation_count();
  int absent = 0;
  for (uint64_t k = 1; k <= operation_count + 1; ++k) {
    for (uint64_t seed = 0; seed < 30; ++seed) {
      FaultStore store(
          {.seed = seed, .fail_at = k, .sticky = true, .torn_writes = true});
      const Status status = WriteDatabase(store, true);
      EXPECT_EQ(status.ok(), k > operation_count);
      const auto after = store.AfterCrash(seed);
      const auto items = ReadItems(*after, "dir/");
      if (items.ok()) {
        EXPECT_EQ(*items, SomeItems());
        continue;
      }
      EXPECT_EQ(items.status().code(), StatusCode::kNotFound)
          << items.status().ToString();
      EXPECT_GT(operation_count + 1, k);
      ++absent;
    }
  }
  EXPECT_GT(absent, 0);
}

TEST(CommitTest, MergeReportsEveryFailure) {
  const auto merge = [](FaultOptions faults, uint64_t* operation_count) {
    FaultStore store;
    EXPECT_TRUE(WriteItems(store, "one/", SomeItems(), FixedOptions()).ok());
    store.SetFaults(faults);
    BulkWriteOptions options = FixedOptions('e');
    options.max_inline_value_bytes = 3;
    options.sync = true;
    const Status status =
        MergeDatabases(&store, "", {"one/"}, options).status();
    *operation_count = store.operation_count();
    return status;
  };
  uint64_t operation_count = 0;
  ASSERT_TRUE(merge({}, &operation_count).ok());
  for (uint64_t k = 1; k <= operation_count; ++k) {
    uint64_t unused = 0;
    EXPECT_EQ(merge({.fail_at = k}, &unused).code(), StatusCode::kUnavailable)
        << k;
  }
}

}  // namespace
}  // namespace holdfast::ocdbt
