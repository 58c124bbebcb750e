#include "formats/ocdbt/bulk_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "formats/ocdbt/database_test_util.h"
#include "ground/base/status_macros.h"

namespace holdfast::ocdbt {
namespace {

using ::testing::HasSubstr;

// The pairs are unsorted, with values of all sizes around the inline limit.
using Pairs = std::vector<std::pair<std::string, std::string>>;

Pairs MakePairs(std::mt19937_64& random, size_t count) {
  Items items;
  while (items.size() < count) {
    std::string key = random() % 2 == 0 ? "layers." : "";
    for (size_t n = random() % 10; n > 0; --n) key += "ab/."[random() % 4];
    std::string value(random() % 200, '\0');
    if (random() % 8 == 0) value.resize(1000 + random() % 3000);
    for (char& c : value) c = static_cast<char>(random());
    items[key] = value;
  }
  Pairs pairs(items.begin(), items.end());
  std::shuffle(pairs.begin(), pairs.end(), random);
  return pairs;
}

// Puts all pairs from several threads, with indices in the order of `order`.
Result<BulkWriteSummary> WritePairs(Store& store, const Pairs& pairs,
                                    const std::vector<size_t>& order,
                                    int thread_count,
                                    const BulkWriteOptions& options) {
  HF_ASSIGN_OR_RETURN(const auto writer,
                      BulkWriter::Create(&store, "", options));
  std::atomic<size_t> next = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < thread_count; ++t) {
    threads.emplace_back([&] {
      for (size_t i = next++; i < order.size(); i = next++) {
        const auto& [key, value] = pairs[order[i]];
        // Half of the values belong to `keepalive` only, in two pieces.
        const auto copy = std::make_shared<std::string>(value);
        const std::string_view view = *copy;
        EncodedChunk chunk = Chunk(view);
        chunk.pieces = {view.substr(0, view.size() / 3),
                        view.substr(view.size() / 3)};
        const Status status =
            writer->Put(order[i], key, std::move(chunk), copy);
        EXPECT_TRUE(status.ok()) << status.ToString();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return writer->Finish();
}

std::vector<size_t> InOrder(size_t count) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

TEST(BulkWriterTest, RandomDatabasesReadBackEqual) {
  std::mt19937_64 random(41);
  int highest = 0;
  for (int round = 0; round < 60; ++round) {
    const Pairs pairs = MakePairs(random, 1 + random() % 150);
    BulkWriteOptions options = FixedOptions();
    options.max_inline_value_bytes = std::vector{0, 64, 1024}[random() % 3];
    options.max_decoded_node_bytes =
        std::vector{0, 100, 400, 3000}[random() % 4];
    options.target_data_file_bytes =
        std::vector{0, 1, 5000, 1000000}[random() % 4];
    options.compress_nodes = random() % 2 == 0;
    options.data_prefix = std::vector{"d/", "", "x/y-"}[random() % 3];
    MemoryStore store;
    const auto summary =
        WritePairs(store, pairs, InOrder(pairs.size()), 1, options);
    ASSERT_TRUE(summary.ok()) << summary.status().ToString();
    highest = std::max<int>(highest, summary->tree_height);
    const auto items = ReadItems(store);
    ASSERT_TRUE(items.ok()) << items.status().ToString();
    EXPECT_EQ(*items, Items(pairs.begin(), pairs.end()));
    for (const WrittenFile& file : summary->files) {
      EXPECT_EQ(store.Stat(file.path)->byte_count, file.byte_count);
    }
    EXPECT_EQ(summary->files.size() + 1, Contents(store).size());
  }
  EXPECT_GE(highest, 4);
}

TEST(BulkWriterTest, BytesDependOnNeitherThreadsNorOrder) {
  std::mt19937_64 random(42);
  const Pairs pairs = MakePairs(random, 500);
  const auto write = [&](const std::vector<size_t>& order, int thread_count) {
    BulkWriteOptions options = FixedOptions();
    options.max_inline_value_bytes = 64;
    options.max_decoded_node_bytes = 2000;
    options.target_data_file_bytes = 20000;
    MemoryStore store;
    EXPECT_TRUE(WritePairs(store, pairs, order, thread_count, options).ok());
    return Contents(store);
  };
  const Items want = write(InOrder(pairs.size()), 1);
  EXPECT_GT(want.size(), 5u);
  for (int round = 0; round < 5; ++round) {
    std::vector<size_t> order = InOrder(pairs.size());
    std::shuffle(order.begin(), order.end(), random);
    EXPECT_EQ(write(order, 8), want);
    EXPECT_EQ(write(InOrder(pairs.size()), 8), want);
  }
}

TEST(BulkWriterTest, OffsetsFollowIndexesAndFilesRollOverAtTarget) {
  MemoryStore store;
  BulkWriteOptions options = FixedOptions();
  options.max_inline_value_bytes = 0;
  options.target_data_file_bytes = 10;
  const auto writer = BulkWriter::Create(&store, "", options);
  // 4 + 6 bytes reach the target; 25 exceed it by themselves; the node follows
  // "e".
  const Pairs pairs = {{"e", "1234"},
                       {"d", "123456"},
                       {"c", ""},
                       {"b", std::string(25, 'b')},
                       {"a", "12"}};
  for (const size_t index : {4, 2, 0, 3, 1}) {
    ASSERT_TRUE((*writer)
                    ->Put(index, pairs[index].first, Chunk(pairs[index].second))
                    .ok());
  }
  const auto summary = (*writer)->Finish();
  ASSERT_TRUE(summary.ok()) << summary.status().ToString();
  ASSERT_EQ(summary->files.size(), 3u);
  EXPECT_EQ(store.Read(summary->files[0].path)->view(), "1234123456");
  EXPECT_EQ(store.Read(summary->files[1].path)->view(), std::string(25, 'b'));
  EXPECT_THAT(store.Read(summary->files[2].path)->ToString(),
              ::testing::StartsWith("12\x0c\xdb\x20\xde"));
  EXPECT_EQ(*ReadItems(store), Items(pairs.begin(), pairs.end()));
  EXPECT_EQ(summary->key_count, 5u);
  EXPECT_EQ(summary->inline_value_byte_count, 0u);
  EXPECT_EQ(summary->indirect_value_byte_count, 37u);
  EXPECT_EQ(summary->node_count, 1u);
}

TEST(BulkWriterTest, LargeFilesArePaddedToPages) {
  for (const size_t size : {size_t{4} << 20, (size_t{4} << 20) + 1}) {
    MemoryStore store;
    const std::string value(size, 'v');
    BulkWriteOptions options = FixedOptions();
    options.target_data_file_bytes = 1;
    const auto summary = WriteItems(store, "", {{"k", value}}, options);
    ASSERT_TRUE(summary.ok());
    ASSERT_EQ(summary->files.size(), 2u);
    EXPECT_EQ(summary->files[0].byte_count, (size + 4095) / 4096 * 4096);
    EXPECT_EQ(*ReadItems(store), (Items{{"k", value}}));
  }
}

TEST(BulkWriterTest, NoKeysGiveMissingRoot) {
  MemoryStore store;
  const auto summary = WriteItems(store, "dir/", {}, FixedOptions());
  ASSERT_TRUE(summary.ok());
  EXPECT_TRUE(summary->files.empty());
  const auto database = Database::Open(&store, "dir/");
  ASSERT_TRUE(database.ok()) << database.status().ToString();
  EXPECT_TRUE((*database)->version()->version.root.missing());
  EXPECT_EQ((*database)->version()->version.generation, 1u);
  EXPECT_TRUE((*database)->CheckAll().ok());
}

TEST(BulkWriterTest, KeepaliveIsReleasedOnceWritten) {
  MemoryStore store;
  const auto writer = BulkWriter::Create(&store, "", FixedOptions());
  const auto value = std::make_shared<std::string>(5000, 'v');
  ASSERT_TRUE((*writer)->Put(1, "b", Chunk(*value), value).ok());
  EXPECT_EQ(value.use_count(), 2);  // waits for index 0
  ASSERT_TRUE((*writer)->Put(0, "a", Chunk("inline"), value).ok());
  EXPECT_EQ(value.use_count(), 1);
  ASSERT_TRUE((*writer)->Finish().ok());
}

TEST(BulkWriterTest, RefusesBadInput) {
  MemoryStore store;
  const auto writer = BulkWriter::Create(&store, "", FixedOptions());
  ASSERT_TRUE((*writer)->Put(0, "a", Chunk("")).ok());
  EXPECT_EQ((*writer)->Put(0, "b", Chunk("")).ToString(),
            "INVALID_ARGUMENT: Index 0 is given twice, now with key \"b\"");
  EXPECT_EQ((*writer)->Put(1, std::string(65536, 'k'), Chunk("")).ToString(),
            "INVALID_ARGUMENT: Key of 65536 bytes exceeds limit of 65535");
  ASSERT_TRUE((*writer)->Put(2, std::string(65535, 'k'), Chunk("")).ok());
  EXPECT_EQ((*writer)->Finish().status().ToString(),
            "FAILED_PRECONDITION: Index 1 of 3 was never given");
  ASSERT_TRUE((*writer)->Put(1, "a", Chunk("")).ok());
  EXPECT_EQ((*writer)->Finish().status().ToString(),
            "INVALID_ARGUMENT: Key \"a\" is given twice");
  EXPECT_EQ((*writer)->Put(3, "z", Chunk("")).code(),
            StatusCode::kFailedPrecondition);
}

TEST(BulkWriterTest, RefusesBadOptions) {
  MemoryStore store;
  const auto error = [&](auto set, std::string directory = "") {
    BulkWriteOptions options = FixedOptions();
    set(options);
    const auto writer = BulkWriter::Create(&store, directory, options);
    return writer.ok() ? "OK" : writer.status().ToString();
  };
  EXPECT_EQ(error([](auto& o) { o.target_data_file_bytes = -5; }),
            "INVALID_ARGUMENT: OCDBT target_data_file_size must be >= 0, "
            "where 0 means no limit; got -5");
  EXPECT_THAT(error([](auto& o) { o.max_inline_value_bytes = 1048577; }),
              HasSubstr("max_inline_value_bytes"));
  EXPECT_THAT(error([](auto& o) { o.version_tree_arity_log2 = 0; }),
              HasSubstr("version_tree_arity_log2"));
  EXPECT_THAT(error([](auto& o) { o.data_prefix = "../d/"; }),
              HasSubstr("Invalid key"));
  EXPECT_THAT(error([](auto&) {}, "dir"), HasSubstr("must be empty or end"));
}

TEST(BulkWriterTest, RefusesToReplaceADatabase) {
  MemoryStore store;
  ASSERT_TRUE(WriteItems(store, "", {{"old", "1"}}, FixedOptions('a')).ok());
  EXPECT_EQ(
      WriteItems(store, "", {{"new", "2"}}, FixedOptions('b')).status().code(),
      StatusCode::kAlreadyExists);
  EXPECT_EQ(*ReadItems(store), (Items{{"old", "1"}}));
}

TEST(BulkWriterTest, AbandonedWriterLeavesNothing) {
  MemoryStore store;
  {
    BulkWriteOptions options = FixedOptions();
    options.target_data_file_bytes = 5000;
    const auto writer = BulkWriter::Create(&store, "", options);
    const std::string value(3000, 'v');
    for (size_t i = 0; i < 5; ++i) {
      ASSERT_TRUE((*writer)->Put(i, std::to_string(i), Chunk(value)).ok());
    }
    EXPECT_FALSE(Contents(store).empty());
  }
  EXPECT_TRUE(Contents(store).empty());
}

TEST(BulkWriterTest, DefaultsAreRandomNameUuidAndTimeOfDay) {
  MemoryStore store;
  BulkWriteOptions options;
  const auto first = WriteItems(store, "1/", {{"k", "v"}}, options);
  const auto second = WriteItems(store, "2/", {{"k", "v"}}, options);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first->files[0].path.size(), 2u + 32);
  EXPECT_NE(first->files[0].path, second->files[0].path);
  const auto a = Database::Open(&store, "1/");
  const auto b = Database::Open(&store, "2/");
  EXPECT_NE((*a)->manifest().config.uuid, (*b)->manifest().config.uuid);
  EXPECT_LT((*a)->version()->version.commit_time_ns,
            (*b)->version()->version.commit_time_ns);
  EXPECT_GT((*a)->version()->version.commit_time_ns, 1700000000000000000u);
}

// Puts all pairs in order of index from several threads. Pairs of more than
// `stream_bytes_min` bytes are put as streams of pieces.
Result<BulkWriteSummary> StreamPairs(Store& store, const Pairs& pairs,
                                     size_t stream_bytes_min, int thread_count,
                                     const BulkWriteOptions& options) {
  HF_ASSIGN_OR_RETURN(const auto writer,
                      BulkWriter::Create(&store, "", options));
  const auto put = [&](size_t i) {
    const auto& [key, value] = pairs[i];
    if (value.size() < stream_bytes_min)
      return writer->Put(i, key, Chunk(value));
    return writer->PutStream(i, key, [&](const WriteFn& write) {
      std::string_view rest = value;
      do {
        const std::string_view pieces[] = {
            rest.substr(0, 30),
            rest.substr(std::min<size_t>(30, rest.size()), 70)};
        rest.remove_prefix(std::min<size_t>(100, rest.size()));
        HF_RETURN_IF_ERROR(write(pieces));
      } while (!rest.empty());
      return Status();
    });
  };
  std::atomic<size_t> next = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < thread_count; ++t) {
    threads.emplace_back([&] {
      for (size_t i = next++; i < pairs.size(); i = next++) {
        const Status status = put(i);
        EXPECT_TRUE(status.ok()) << status.ToString();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return writer->Finish();
}

TEST(BulkWriterTest, StreamsGiveTheBytesOfPut) {
  std::mt19937_64 random(43);
  for (const uint64_t file_bytes : {0, 1, 3000}) {
    const Pairs pairs = MakePairs(random, 300);
    const auto write = [&](size_t stream_bytes_min, int thread_count) {
      BulkWriteOptions options = FixedOptions();
      options.max_inline_value_bytes = 64;
      options.target_data_file_bytes = file_bytes;
      MemoryStore store;
      const auto summary =
          StreamPairs(store, pairs, stream_bytes_min, thread_count, options);
      EXPECT_TRUE(summary.ok()) << summary.status().ToString();
      return Contents(store);
    };
    const auto want = write(10000, 1);
    EXPECT_EQ(write(0, 1), want);
    EXPECT_EQ(write(150, 4), want);
  }
}

TEST(BulkWriterTest, AbortEndsTheWaitForATurn) {
  MemoryStore store;
  {
    const auto writer = *BulkWriter::Create(&store, "", FixedOptions());
    std::thread waiting([&] {
      const Status status = writer->PutStream(
          1, "b", [](const WriteFn&) { return InternalError("not called"); });
      EXPECT_EQ(status.message(), "stop");
    });
    writer->Abort(CancelledError("stop"));
    waiting.join();
    EXPECT_EQ(writer->Put(0, "a", Chunk("x")).message(), "stop");
    EXPECT_EQ(writer->Finish().status().message(), "stop");
  }
  EXPECT_TRUE(Contents(store).empty());
}

TEST(BulkWriterTest, AFailedStreamFailsTheWriterAndLeavesNothing) {
  MemoryStore store;
  {
    const auto writer = *BulkWriter::Create(&store, "", FixedOptions());
    const std::string large(100000, 'x');
    const Status status = writer->PutStream(0, "a", [&](const WriteFn& write) {
      const std::string_view piece = large;
      HF_RETURN_IF_ERROR(write({&piece, 1}));
      return DataLossError("half way");
    });
    EXPECT_EQ(status.message(), "half way");
    EXPECT_EQ(writer->Put(1, "b", Chunk("x")).message(), "half way");
    EXPECT_EQ(writer->Finish().status().message(), "half way");
  }
  EXPECT_TRUE(Contents(store).empty());
}

}  // namespace
}  // namespace holdfast::ocdbt
