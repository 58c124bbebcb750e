#include "stores/cloud/upload_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <string>
#include <thread>

#include "conformance/bucket_calls.h"
#include "stores/cloud/bucket_store.h"
#include "stores/cloud/part_buffer.h"
#include "twins/fault_bucket.h"
#include "twins/memory_bucket.h"
#include "twins/thread_shortage.h"

namespace holdfast {
namespace {

using conformance::GetText;
using conformance::Pattern;

Status WriteText(ObjectWriter& writer, uint64_t offset, std::string_view text) {
  return writer.WriteAt(offset, {&text, 1});
}

MemoryBucketOptions PartsOf(uint64_t part_bytes, bool in_order) {
  MemoryBucketOptions options =
      in_order ? MemoryBucketOptions::GcsLike() : MemoryBucketOptions::S3Like();
  options.part_bytes = part_bytes;
  options.traits.put_bytes_max = part_bytes;
  return options;
}

TEST(PartBufferTest, FillsInAnyOrderAndCuts) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    const uint64_t byte_count = 1 + random() % 5000;
    const std::string content = Pattern(byte_count, random());
    std::vector<uint64_t> cuts = {0, byte_count};
    for (int i = 0; i < 10; ++i) cuts.push_back(random() % (byte_count + 1));
    std::sort(cuts.begin(), cuts.end());
    std::vector<size_t> order;
    for (size_t i = 0; i + 1 < cuts.size(); ++i) order.push_back(i);
    std::shuffle(order.begin(), order.end(), random);
    PartBuffer buffer(byte_count);
    auto block = std::make_shared<Buffer>(byte_count);
    std::fill(block->data(), block->data() + byte_count, '?');
    buffer.SetBlock(0, block);
    const bool leaves_gap = round % 2 == 1;
    std::string want = content;
    for (const size_t i : order) {
      const uint64_t count = cuts[i + 1] - cuts[i];
      if (count == 0) continue;
      EXPECT_FALSE(buffer.is_full());
      if (leaves_gap && i == order.front()) {
        want.replace(cuts[i], count, std::string(count, '\0'));
        continue;
      }
      std::copy_n(content.data() + cuts[i], count, block->data() + cuts[i]);
      ASSERT_TRUE(buffer.MarkFilled(cuts[i], count));
      EXPECT_FALSE(buffer.MarkFilled(cuts[i], count));
    }
    if (leaves_gap) buffer.Cut(byte_count);
    ASSERT_TRUE(buffer.is_full());
    std::string joined;
    for (const std::string_view piece : buffer.Pieces()) joined += piece;
    ASSERT_TRUE(joined == want);
  }
}

TEST(PartBufferTest, BlocksThatNobodyWroteAreZero) {
  PartBuffer buffer(2 * PartBuffer::kBlockBytes + 5);
  EXPECT_EQ(buffer.block_bytes(2 * PartBuffer::kBlockBytes), 5u);
  buffer.Cut(PartBuffer::kBlockBytes + 3);
  const auto pieces = buffer.Pieces();
  ASSERT_EQ(pieces.size(), 2u);
  EXPECT_EQ(pieces[1], std::string_view("\0\0\0", 3));
  EXPECT_EQ(buffer.held_bytes(), 0u);
}

// Counts the requests that an object takes.
TEST(UploadWriterTest, SmallObjectsAreOnePut) {
  const auto bucket = std::make_shared<FaultBucket>(
      std::make_shared<MemoryBucket>(PartsOf(1000, false)));
  BucketStore store(bucket, "");
  for (const uint64_t byte_count : {0, 1, 999, 1000}) {
    bucket->SetFaults({});
    auto writer = *store.Create("k");
    if (byte_count > 0) {
      ASSERT_TRUE(WriteText(*writer, 0, Pattern(byte_count, 1)).ok());
    }
    ASSERT_TRUE(writer->Finish(true).ok());
    EXPECT_THAT(bucket->requests(), testing::ElementsAre("put k"));
    EXPECT_EQ(bucket->Head("k")->byte_count, byte_count);
  }
  bucket->SetFaults({});
  auto writer = *store.Create("k");
  ASSERT_TRUE(WriteText(*writer, 0, Pattern(1001, 1)).ok());
  ASSERT_TRUE(writer->Finish(true).ok());
  EXPECT_THAT(bucket->requests(),
              testing::UnorderedElementsAre("start_upload k", "part k 0",
                                            "part k 1", "finish_upload k"));
}

TEST(UploadWriterTest, PartsGoWhileTheRestIsStillWritten) {
  const auto bucket = std::make_shared<FaultBucket>(
      std::make_shared<MemoryBucket>(PartsOf(1000, false)));
  std::mutex mutex;
  std::condition_variable changed;
  int part_count = 0;
  bucket->SetHook([&](BucketRequest kind, std::string_view) {
    if (kind != BucketRequest::kPart) return Status();
    std::lock_guard lock(mutex);
    ++part_count;
    changed.notify_all();
    return Status();
  });
  BucketStore store(bucket, "");
  auto writer = *store.Create("k");
  ASSERT_TRUE(WriteText(*writer, 0, Pattern(5500, 1)).ok());
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return part_count == 5; });  // hangs if it fails
  lock.unlock();
  ASSERT_TRUE(writer->Finish(true).ok());
  EXPECT_TRUE(GetText(*bucket, "k") == Pattern(5500, 1));
}

TEST(UploadWriterTest, WithoutAThreadWritesFailInWords) {
  if (!ThreadShortage::kIsPossible) GTEST_SKIP() << "clang's sanitizer";
  const auto bucket = std::make_shared<MemoryBucket>(PartsOf(1000, false));
  BucketStore store(bucket, "");
  ThreadShortage shortage(0);
  for (const uint64_t byte_count : {1, 5500}) {
    auto writer = *store.Create("k");
    Status status = WriteText(*writer, 0, Pattern(byte_count, 1));
    if (status.ok()) status = writer->Finish(true);
    EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
    EXPECT_EQ(status.message(), "uploads: the system gives no thread");
  }
  const Status queued = store.Write("k", "x", {.sync = false, .atomic = false});
  EXPECT_EQ(queued.code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(store.Flush().ok());  // the caller has had the error
  EXPECT_EQ(bucket->Head("k").status().code(), StatusCode::kNotFound);
}

TEST(UploadWriterTest, OffsetsThatNoStoreTakesAreRefused) {
  const auto bucket = std::make_shared<MemoryBucket>(PartsOf(1000, false));
  BucketStore store(bucket, "");
  auto writer = *store.Create("k");
  EXPECT_EQ(WriteText(*writer, uint64_t{1} << 62, "x").code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(writer->Finish(true).code(), StatusCode::kFailedPrecondition);
}

TEST(UploadWriterTest, WritingTwiceIsRefused) {
  const auto bucket = std::make_shared<MemoryBucket>(PartsOf(1000, true));
  BucketStore store(bucket, "");
  auto writer = *store.Create("k");
  ASSERT_TRUE(WriteText(*writer, 0, Pattern(50'000, 1)).ok());
  Status status;
  while (status.ok()) status = WriteText(*writer, 0, Pattern(999, 2));
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
}

// Exceeds the bound as far as allowed, by writing the parts of an ordered
// bucket backwards.
TEST(UploadWriterTest, WritesFarOutOfOrderFailRatherThanEatMemory) {
  const auto bucket = std::make_shared<MemoryBucket>(PartsOf(1000, true));
  BucketStore store(bucket, "", {.buffered_bytes_max = 4000});
  auto writer = *store.Create("k");
  Status status;
  uint64_t part = 100;
  for (; part > 0 && status.ok(); --part) {
    status = WriteText(*writer, part * 1000, Pattern(1000, 1));
  }
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_LE(store.peak_buffered_bytes(), 8u * 4000);
  EXPECT_FALSE(writer->Finish(true).ok());
}

struct Shape {
  bool in_order;
  bool fails;
};

class UploadPropertyTest : public testing::TestWithParam<Shape> {};

using PieceRanges = std::vector<std::pair<uint64_t, uint64_t>>;

// Splits an object into pieces (offset, count) of random sizes, shuffled within
// a random window.
PieceRanges RandomPieces(uint64_t byte_count, uint64_t part_bytes,
                         std::mt19937& random) {
  PieceRanges pieces;
  for (uint64_t offset = 0; offset < byte_count;) {
    const uint64_t count =
        std::min<uint64_t>(1 + random() % (1 + part_bytes / (1 + random() % 8)),
                           byte_count - offset);
    pieces.push_back({offset, count});
    offset += count;
  }
  const size_t window = 1 + random() % 8;
  for (size_t i = 0; i + window < pieces.size(); i += window) {
    std::shuffle(pieces.begin() + i, pieces.begin() + i + window, random);
  }
  return pieces;
}

// Writes from three threads, then returns the result of Finish and Flush.
Status WriteInThreads(BucketStore& store, const std::string& content,
                      const PieceRanges& pieces, bool sync) {
  auto writer = *store.Create("k");
  std::atomic<size_t> next{0};
  std::atomic<bool> failed{false};
  const auto work = [&] {
    for (size_t i = next++; i < pieces.size() && !failed; i = next++) {
      const auto [offset, count] = pieces[i];
      const std::string_view piece =
          std::string_view(content).substr(offset, count);
      if (!WriteText(*writer, offset, piece).ok()) failed = true;
    }
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  const Status status = writer->Finish(sync);
  EXPECT_FALSE(failed && status.ok());
  writer.reset();
  return status.ok() ? store.Flush() : status;
}

// Writes objects of random sizes from several threads, in random pieces and
// order, to a bucket that fails some requests. Either the object is exactly
// what was written, or the writer fails and no object exists.
TEST_P(UploadPropertyTest, TheObjectIsWhatWasWrittenOrTheWriterFails) {
  const Shape shape = GetParam();
  std::mt19937 random(shape.in_order ? 17 : 23);
  int failed_count = 0;
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE(round);
    const uint64_t part_bytes = 500 + random() % 3000;
    const auto memory =
        std::make_shared<MemoryBucket>(PartsOf(part_bytes, shape.in_order));
    BucketFaults faults;
    if (shape.fails) {
      faults.fail_at = 1 + random() % 12;
      faults.acts = random() % 2 == 0;
    }
    const auto bucket = std::make_shared<FaultBucket>(memory, faults);
    // The size is often a multiple of the part size, so that the last part is
    // sent before the end is known.
    const uint64_t byte_count = round % 3 == 0 ? random() % 8 * part_bytes
                                               : random() % (8 * part_bytes);
    const std::string content = Pattern(byte_count, random());
    BucketStore store(bucket, "r", {.buffered_bytes_max = 6 * part_bytes});
    const Status status = WriteInThreads(
        store, content, RandomPieces(byte_count, part_bytes, random),
        /*sync=*/random() % 2 == 0);
    const std::string there = GetText(*memory, "r/k");
    if (status.ok()) {
      ASSERT_TRUE(there == content);
    } else {
      ++failed_count;
      // The last request may have succeeded although its answer was lost.
      ASSERT_TRUE(there == "<NOT_FOUND>" || there == content) << there.size();
    }
    if (faults.fail_at == 0) {
      EXPECT_TRUE(memory->ListUploads("")->empty());
    }
  }
  EXPECT_EQ(failed_count > 50, shape.fails);
}

INSTANTIATE_TEST_SUITE_P(Shapes, UploadPropertyTest,
                         testing::Values(Shape{false, false},
                                         Shape{false, true}, Shape{true, false},
                                         Shape{true, true}));

// A process that dies during an upload leaves parts. They are found and
// aborted.
TEST(UploadWriterTest, WhatADeadProcessLeftIsFound) {
  const auto memory = std::make_shared<MemoryBucket>(PartsOf(1000, false));
  for (uint64_t k = 1; k <= 8; ++k) {
    const auto bucket = std::make_shared<FaultBucket>(memory);
    bucket->SetFaults({.fail_at = k, .dies = true});
    BucketStore store(bucket, "ckpt");
    auto writer = *store.Create("d/x");
    Status status = WriteText(*writer, 0, Pattern(5500, 1));
    if (status.ok()) status = writer->Finish(true);
    writer.reset();
    EXPECT_EQ(status.ok(), k > 8) << k;
    EXPECT_EQ(GetText(*memory, "ckpt/d/x"), "<NOT_FOUND>");
    const auto left = memory->ListUploads("ckpt/");
    EXPECT_EQ(left->size(), k == 1 ? 0u : 1u) << k;
    for (const UnfinishedUpload& upload : *left) {
      EXPECT_EQ(upload.key, "ckpt/d/x");
      EXPECT_TRUE(memory->AbortUpload(upload).ok());
    }
    EXPECT_TRUE(memory->ListUploads("")->empty());
  }
}

}  // namespace
}  // namespace holdfast
