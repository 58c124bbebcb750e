// OCDBT databases written to buckets: data files are sent while they are made,
// in several concurrent requests, with bounded memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "formats/ocdbt/bulk_writer.h"
#include "formats/ocdbt/ocdbt_store.h"
#include "stores/cloud/bucket_store.h"
#include "twins/fault_bucket.h"
#include "twins/memory_bucket.h"

namespace holdfast {
namespace {

constexpr uint64_t kPartBytes = uint64_t{16} << 20;
constexpr uint64_t kBuffered = 8 * kPartBytes;
constexpr size_t kValueCount = 48;

MemoryBucketOptions PartsLike(bool is_s3) {
  MemoryBucketOptions options =
      is_s3 ? MemoryBucketOptions::S3Like() : MemoryBucketOptions::GcsLike();
  options.part_bytes = kPartBytes;
  options.traits.put_bytes_max = kPartBytes;
  return options;
}

// Returns bytes that depend on the position and on the value's index.
std::string ValueOf(size_t index) {
  std::string value((uint64_t{3} << 20) + 1000 * index, '\0');
  uint32_t state = 7 + static_cast<uint32_t>(index);
  for (char& c : value) {
    state = state * 1664525u + 1013904223u;
    c = static_cast<char>(state >> 24);
  }
  return value;
}

Status WriteDatabase(Store& store, const ocdbt::BulkWriteOptions& options) {
  Result<std::unique_ptr<ocdbt::BulkWriter>> writer =
      ocdbt::BulkWriter::Create(&store, "db/", options);
  if (!writer.ok()) return writer.status();
  std::atomic<size_t> next{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (size_t i = next++; i < kValueCount; i = next++) {
        const auto value = std::make_shared<std::string>(ValueOf(i));
        EncodedChunk chunk;
        chunk.pieces = {*value};
        chunk.byte_count = value->size();
        (void)(*writer)->Put(i, "k" + std::to_string(i), std::move(chunk),
                             value);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const Status status = (*writer)->Finish().status();
  return status.ok() ? store.Flush() : status;
}

struct RemoteWriteTest : testing::TestWithParam<bool> {
  std::shared_ptr<MemoryBucket> memory =
      std::make_shared<MemoryBucket>(PartsLike(GetParam()));
  std::shared_ptr<FaultBucket> bucket = std::make_shared<FaultBucket>(memory);
};

// Hangs unless four parts are sent concurrently.
TEST_P(RemoteWriteTest, PartsFillThePipeAndMemoryIsBounded) {
  std::mutex mutex;
  std::condition_variable changed;
  int waiting = 0;
  bucket->SetHook([&](BucketRequest kind, std::string_view) {
    if (kind != BucketRequest::kPart) return Status();
    std::unique_lock lock(mutex);
    ++waiting;
    changed.notify_all();
    changed.wait(lock, [&] { return waiting >= 4; });
    return Status();
  });
  BucketStore store(bucket, "ckpt", {.buffered_bytes_max = kBuffered});
  ocdbt::BulkWriteOptions options;
  options.sync = false;
  const Status status = WriteDatabase(store, options);
  ASSERT_TRUE(status.ok()) << status.ToString();
  // Each of the threads may in addition hold the part that it fills.
  EXPECT_LE(store.peak_buffered_bytes(), kBuffered + 4 * kPartBytes);
  EXPECT_TRUE(memory->ListUploads("")->empty());

  auto database = ocdbt::Database::Open(&store, "db/");
  ASSERT_TRUE(database.ok()) << database.status().ToString();
  ocdbt::OcdbtStore values(*std::move(database));
  for (size_t i = 0; i < kValueCount; ++i) {
    const Result<Bytes> value = values.Read("k" + std::to_string(i));
    ASSERT_TRUE(value.ok()) << value.status().ToString();
    ASSERT_TRUE(value->view() == ValueOf(i)) << i;
  }
}

// If a request fails, the write fails, or the database is complete.
TEST_P(RemoteWriteTest, AFailedRequestFailsTheDatabase) {
  ocdbt::BulkWriteOptions options;
  options.sync = false;
  for (const uint64_t k : {1, 3, 6}) {
    bucket->SetFaults({.fail_at = k});
    BucketStore store(bucket, "at" + std::to_string(k));
    const Status status = WriteDatabase(store, options);
    EXPECT_EQ(status.code(), StatusCode::kUnavailable) << k;
  }
}

INSTANTIATE_TEST_SUITE_P(Buckets, RemoteWriteTest, testing::Bool(),
                         [](const auto& info) {
                           return info.param ? "S3Like" : "GcsLike";
                         });

}  // namespace
}  // namespace holdfast
