#include "stores/cloud/bucket_store.h"

#include <sys/wait.h>
#include <unistd.h>

#include <condition_variable>

#include "conformance/bucket_calls.h"
#include "conformance/store_conformance.h"
#include "twins/fault_bucket.h"
#include "twins/memory_bucket.h"

namespace holdfast {
namespace {

using conformance::Contents;
using conformance::Listing;
using conformance::PutText;
using testing::ElementsAre;
using testing::HasSubstr;

enum class Kind { kS3, kGcs, kFailsBefore, kActsAndFails };

MemoryBucketOptions SmallParts(bool is_s3) {
  MemoryBucketOptions options =
      is_s3 ? MemoryBucketOptions::S3Like() : MemoryBucketOptions::GcsLike();
  options.part_bytes = 60'000;
  options.traits.put_bytes_max = 50'000;
  options.traits.get_bytes_max = 30'000;
  options.answer_bytes_max = 100'000;
  return options;
}

template <Kind kKind>
struct BucketStores {
  std::unique_ptr<Store> Make() {
    std::shared_ptr<Bucket> bucket =
        std::make_shared<MemoryBucket>(SmallParts(kKind != Kind::kGcs));
    if (kKind == Kind::kFailsBefore || kKind == Kind::kActsAndFails) {
      BucketFaults faults{.fail_every = 3, .resends = true};
      faults.acts = kKind == Kind::kActsAndFails;
      bucket = std::make_shared<FaultBucket>(bucket, faults);
    }
    // Neighboring keys, which no call may see.
    (void)PutText(*bucket, "roo", "x");
    (void)PutText(*bucket, "root-", "x");
    (void)PutText(*bucket, "root/", "");
    (void)PutText(*bucket, "root0/k", "x");
    return std::make_unique<BucketStore>(bucket, "root");
  }
};

INSTANTIATE_TYPED_TEST_SUITE_P(OnS3, StoreConformance, BucketStores<Kind::kS3>);
INSTANTIATE_TYPED_TEST_SUITE_P(OnGcs, StoreConformance,
                               BucketStores<Kind::kGcs>);
INSTANTIATE_TYPED_TEST_SUITE_P(OnWhatFailsOften, StoreConformance,
                               BucketStores<Kind::kFailsBefore>);
INSTANTIATE_TYPED_TEST_SUITE_P(OnWhatLosesAnswers, StoreConformance,
                               BucketStores<Kind::kActsAndFails>);

struct BucketStoreTest : testing::Test {
  std::shared_ptr<MemoryBucket> memory =
      std::make_shared<MemoryBucket>(SmallParts(true));
  std::shared_ptr<FaultBucket> bucket = std::make_shared<FaultBucket>(memory);
  BucketStore store{bucket, "a/b"};

  std::vector<std::string> Requests(const std::function<void()>& fn) {
    bucket->SetFaults({});
    fn();
    return bucket->requests();
  }
};

TEST_F(BucketStoreTest, KeysLieBelowTheRoot) {
  EXPECT_EQ(store.Describe("x/y"), "mem://memory/a/b/x/y");
  ASSERT_TRUE(store.Write("x/y", "1").ok());
  EXPECT_EQ(memory->Head("a/b/x/y")->byte_count, 1u);
  BucketStore whole(bucket, "");
  EXPECT_THAT(Listing(whole, ""), ElementsAre("a/b/x/y:1"));
}

TEST_F(BucketStoreTest, ListingsLeaveOutWhatIsNoKey) {
  for (const char* key : {"a/b/", "a/b/d/", "a/b/d/k", "a/b//x", "a/b/../x"}) {
    ASSERT_TRUE(PutText(*memory, key, "").ok());
  }
  EXPECT_THAT(Listing(store, ""), ElementsAre("d/k:0"));
}

// Checks how many requests each read costs; zero if the answer is known.
TEST_F(BucketStoreTest, ReadsCostWhatTheyMust) {
  ASSERT_TRUE(PutText(*memory, "a/b/k", std::string(70'000, 'x')).ok());
  ASSERT_TRUE(PutText(*memory, "a/b/s", "small").ok());
  std::string target(65'000, '?');
  EXPECT_THAT(Requests([&] { (void)store.Read("s"); }),
              ElementsAre("get a/b/s 0+"));
  EXPECT_THAT(Requests([&] { (void)store.Read("s"); }),
              ElementsAre("get a/b/s 0+5"));
  EXPECT_THAT(Requests([&] {
                EXPECT_EQ(Contents(store, "s", {2, 9}), "<OUT_OF_RANGE>");
              }),
              ElementsAre());
  bucket->ResetCounters();
  EXPECT_THAT(
      Requests([&] { EXPECT_TRUE(store.ReadInto("k", 5'000, target).ok()); }),
      ElementsAre("get a/b/k 5000+30000", "get a/b/k 35000+30000",
                  "get a/b/k 65000+5000"));
  EXPECT_EQ(bucket->counters().round_trips, 1u);
  EXPECT_TRUE(target == std::string(65'000, 'x'));
  BucketStore fresh(bucket, "a/b");
  fresh.Remember(*memory->Head("a/b/k"));
  bucket->ResetCounters();
  EXPECT_EQ(fresh.Read("k")->size(), 70'000u);
  EXPECT_EQ(bucket->counters().round_trips, 1u);
  EXPECT_EQ(bucket->counters().request_count(), 3u);
}

TEST_F(BucketStoreTest, AnswersTooLargeForOneAreAskedForInParts) {
  const std::string content = conformance::Pattern(150'000, 3);
  ASSERT_TRUE(PutText(*memory, "a/b/k", content).ok());
  EXPECT_TRUE(store.Read("k")->view() == content);
  BucketStore other(bucket, "a/b");
  EXPECT_TRUE(other.Read("k", {1000, 149'000})->view() == content.substr(1000));
}

TEST_F(BucketStoreTest, BatchesAreOneRoundTrip) {
  std::vector<RangeRead> reads;
  std::string target(20 * 100, '?');
  std::vector<std::string> keys;
  for (int i = 0; i < 20; ++i) keys.push_back("k" + std::to_string(i));
  for (size_t i = 0; i < keys.size(); ++i) {
    ASSERT_TRUE(PutText(*memory, "a/b/" + keys[i], std::string(200, 'x')).ok());
    reads.push_back({keys[i], 50, {target.data() + 100 * i, 100}});
  }
  bucket->ResetCounters();
  ASSERT_TRUE(store.ReadBatch(reads).ok());
  EXPECT_EQ(bucket->counters().round_trips, 1u);
  EXPECT_TRUE(target == std::string(2000, 'x'));
}

// No later call reads the second version, whichever call saw the first one.
TEST_F(BucketStoreTest, ObjectsThatChangeAreDataLoss) {
  const auto first_looks = std::vector<std::function<Status(Store&)>>{
      [](Store& s) { return s.Stat("k").status(); },
      [](Store& s) { return s.Read("k").status(); },
      [](Store& s) { return s.Read("k", {1, 2}).status(); },
      [](Store& s) {
        return s.List(
            "", [](std::string_view, const ObjectInfo&) { return Status(); });
      }};
  for (const auto& look : first_looks) {
    ASSERT_TRUE(PutText(*memory, "a/b/k", std::string(80'000, 'o')).ok());
    BucketStore reader(bucket, "a/b");
    ASSERT_TRUE(look(reader).ok());
    ASSERT_TRUE(PutText(*memory, "a/b/k", std::string(80'000, 'n')).ok());
    std::string small(10, '?'), large(70'000, '?');
    for (const Status& status :
         {reader.Read("k").status(), reader.Read("k", {3, 4}).status(),
          reader.ReadInto("k", 5, small), reader.ReadInto("k", 5, large),
          reader.Stat("k").status()}) {
      EXPECT_EQ(status.code(), StatusCode::kDataLoss);
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr("changed while being read"));
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr("mem://memory/a/b/k"));
    }
  }
}

// The requests of the very first read name no version, so their answers are
// compared.
TEST_F(BucketStoreTest, PartsOfOneReadAreOfOneVersion) {
  ASSERT_TRUE(PutText(*memory, "a/b/k", std::string(80'000, 'o')).ok());
  int get_count = 0;
  bucket->SetHook([&](BucketRequest kind, std::string_view) {
    if (kind == BucketRequest::kGet && ++get_count == 2) {
      (void)PutText(*memory, "a/b/k", std::string(80'000, 'n'));
    }
    return Status();
  });
  std::string target(80'000, '?');
  EXPECT_EQ(store.ReadInto("k", 0, target).code(), StatusCode::kDataLoss);
}

TEST_F(BucketStoreTest, OwnWritesAreRememberedAnew) {
  for (const bool is_queued : {false, true}) {
    ASSERT_TRUE(store.Write("k", "first", {.may_queue = is_queued}).ok());
    EXPECT_EQ(Contents(store, "k"), "first");
    ASSERT_TRUE(store.Write("k", "2nd", {.may_queue = is_queued}).ok());
    EXPECT_EQ(Contents(store, "k"), "2nd");
    ASSERT_TRUE(store.Delete("k").ok());
    EXPECT_EQ(Contents(store, "k"), "<NOT_FOUND>");
  }
  ASSERT_TRUE(store.Write("k", "mine").ok());
  ASSERT_TRUE(PutText(*memory, "a/b/k", "theirs").ok());
  EXPECT_EQ(Contents(store, "k"), "<DATA_LOSS>");
}

// Holds requests of one kind until the given number has arrived.
class Gate {
 public:
  explicit Gate(int count) : count_(count) {}

  Status Pass() {
    std::unique_lock lock(mutex_);
    if (++waiting_ >= count_) open_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
    return {};
  }

 private:
  const int count_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int waiting_ = 0;
  bool open_ = false;
};

// The test would hang if queued writes were not sent concurrently.
TEST_F(BucketStoreTest, QueuedWritesAreSentAtOnce) {
  Gate gate(16);
  bucket->SetHook([&](BucketRequest kind, std::string_view) {
    return kind == BucketRequest::kPut ? gate.Pass() : Status();
  });
  for (int i = 0; i < 16; ++i) {
    ASSERT_TRUE(store
                    .Write("q/" + std::to_string(i), "x",
                           {.sync = false, .atomic = false})
                    .ok());
  }
  ASSERT_TRUE(store.Flush().ok());
  EXPECT_EQ(memory->object_count(), 16u);
  EXPECT_GE(bucket->counters().in_flight_max, 16);
}

TEST_F(BucketStoreTest, FlushTellsTheFirstFailureOnce) {
  bucket->SetHook([&](BucketRequest kind, std::string_view key) {
    return kind == BucketRequest::kPut && key == "a/b/bad"
               ? PermissionDeniedError("no right")
               : Status();
  });
  ASSERT_TRUE(store.Write("bad", "x", {.may_queue = true}).ok());
  EXPECT_EQ(Contents(store, "bad"), "<NOT_FOUND>");
  // A caller that continues to write gets the failure early.
  EXPECT_EQ(store.Write("good", "x", {.may_queue = true}).code(),
            StatusCode::kPermissionDenied);
  EXPECT_TRUE(store.Write("good", "x").ok());
  EXPECT_EQ(store.Flush().code(), StatusCode::kPermissionDenied);
  EXPECT_TRUE(store.Flush().ok());
  EXPECT_TRUE(store.Write("later", "x", {.may_queue = true}).ok());
  EXPECT_TRUE(store.SyncNames().ok());
}

TEST_F(BucketStoreTest, QueuedCreationsFailAtTheFlush) {
  for (const uint64_t byte_count : {10, 55'000, 200'000}) {
    const std::string content(byte_count, 'x');
    const WriteOptions options{.must_create = true, .may_queue = true};
    const std::string key = "c" + std::to_string(byte_count);
    ASSERT_TRUE(store.Write(key, content, options).ok());
    ASSERT_TRUE(store.Flush().ok());
    ASSERT_TRUE(store.Write(key, "other" + content, options).ok());
    EXPECT_EQ(store.Flush().code(), StatusCode::kAlreadyExists);
    EXPECT_TRUE(store.Read(key)->view() == content);
    EXPECT_EQ(store.Write(key, "other" + content, {.must_create = true}).code(),
              StatusCode::kAlreadyExists);
    EXPECT_TRUE(store.Flush().ok());
  }
}

TEST_F(BucketStoreTest, QueuedWritesAreBounded) {
  BucketStore small(bucket, "s", {.buffered_bytes_max = 100'000});
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(small
                    .Write(std::to_string(i), std::string(20'000, 'x'),
                           {.may_queue = true})
                    .ok());
  }
  ASSERT_TRUE(small.Flush().ok());
  EXPECT_EQ(memory->object_count(), 200u);
  EXPECT_LE(small.peak_buffered_bytes(), 100'000u);
}

TEST_F(BucketStoreTest, TheDestructorWaitsForWhatIsQueued) {
  {
    BucketStore short_lived(bucket, "s");
    for (int i = 0; i < 50; ++i) {
      ASSERT_TRUE(
          short_lived.Write(std::to_string(i), "x", {.may_queue = true}).ok());
    }
    auto writer = short_lived.Create("large");
    const std::string content(300'000, 'y');
    const std::string_view piece = content;
    ASSERT_TRUE((*writer)->WriteAt(0, {&piece, 1}).ok());
    ASSERT_TRUE((*writer)->Finish(false).ok());
    writer->reset();
  }
  EXPECT_EQ(memory->object_count(), 51u);
  EXPECT_EQ(memory->Head("s/large")->byte_count, 300'000u);
}

// The child acts like a process that collects garbage after a fork.
// (ThreadSanitizer allows no threads in the child of such a fork.)
TEST_F(BucketStoreTest, AChildMayDropThatOfItsParent) {
  auto store = std::make_unique<BucketStore>(bucket, "s");
  for (int i = 0; i < 40; ++i) {
    ASSERT_TRUE(store->Write(std::to_string(i), "x", {.may_queue = true}).ok());
  }
  ASSERT_TRUE(store->Flush().ok());
  const ::pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    store.reset();
    ::_exit(7);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 7);
  store.reset();
  EXPECT_EQ(memory->object_count(), 40u);
}

}  // namespace
}  // namespace holdfast
