#include "stores/place/swap_file.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "twins/mem_bucket.h"

namespace holdfast {
namespace {

constexpr char kLease[] = "mem://test/d/lease";

TEST(SwapFile, ReplacesOnlyWhatIsExpected) {
  MemBucketForTest mem;
  EXPECT_EQ(SwapFile(Place(kLease), "old", "new").code(),
            StatusCode::kFailedPrecondition);
  EXPECT_TRUE(SwapFile(Place(kLease), std::nullopt, "one").ok());
  EXPECT_EQ(SwapFile(Place(kLease), std::nullopt, "two").code(),
            StatusCode::kFailedPrecondition);
  EXPECT_EQ(SwapFile(Place(kLease), "two", "three").code(),
            StatusCode::kFailedPrecondition);
  EXPECT_TRUE(SwapFile(Place(kLease), "one", "two").ok());
  EXPECT_EQ(mem.Content("d/lease"), "two");
  EXPECT_EQ(SwapFile(Place("/tmp/x"), std::nullopt, "x").code(),
            StatusCode::kUnimplemented);
}

TEST(SwapFile, AWriterInBetweenWins) {
  MemBucketForTest mem;
  mem.Put("d/lease", "one");
  mem.bucket->SetHook([&](BucketRequest kind, std::string_view) {
    if (kind == BucketRequest::kPut) mem.Put("d/lease", "rival");
    return Status();
  });
  EXPECT_EQ(SwapFile(Place(kLease), "one", "two").code(),
            StatusCode::kFailedPrecondition);
  EXPECT_EQ(mem.Content("d/lease"), "rival");
}

TEST(SwapFile, ALostAnswerIsNoLostSwap) {
  for (const bool is_there : {false, true}) {
    MemBucketForTest mem;
    if (is_there) mem.Put("d/lease", "one");
    mem.bucket->SetFaults({.fail_at = is_there ? 2u : 1u, .acts = true});
    EXPECT_TRUE(SwapFile(Place(kLease),
                         is_there ? std::optional<std::string_view>("one")
                                  : std::nullopt,
                         "two")
                    .ok());
    EXPECT_EQ(mem.Content("d/lease"), "two");
  }
}

TEST(SwapFile, OneOfManyWins) {
  MemBucketForTest mem;
  mem.Put("d/lease", "start");
  std::atomic<int> winner_count = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      if (SwapFile(Place(kLease), "start", "of " + std::to_string(i)).ok()) {
        ++winner_count;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(winner_count, 1);
}

TEST(SwapFile, DeletesOnlyWhatIsExpected) {
  MemBucketForTest mem;
  EXPECT_TRUE(DeleteFileIf(Place(kLease), "one").ok());
  mem.Put("d/lease", "two");
  EXPECT_EQ(DeleteFileIf(Place(kLease), "one").code(),
            StatusCode::kFailedPrecondition);
  EXPECT_TRUE(mem.Has("d/lease"));
  EXPECT_TRUE(DeleteFileIf(Place(kLease), "two").ok());
  EXPECT_FALSE(mem.Has("d/lease"));
}

TEST(ReadFileState, HasContentAndTimes) {
  MemBucketForTest mem;
  mem.Put("d/lease", "one");
  mem.memory->AdvanceTime(5'000'000'000);
  const FileState state = ReadFileState(Place(kLease)).value();
  EXPECT_EQ(state.content, "one");
  EXPECT_GE(state.server_ns - state.modified_ns, 5'000'000'000);
  EXPECT_EQ(ReadFileState(Place("mem://test/none")).status().code(),
            StatusCode::kNotFound);
  mem.Put("d/large", std::string((1 << 20) + 1, 'x'));
  EXPECT_EQ(ReadFileState(Place("mem://test/d/large")).status().code(),
            StatusCode::kDataLoss);
}

}  // namespace
}  // namespace holdfast
