#include "twins/fault_bucket.h"

#include "conformance/bucket_conformance.h"
#include "twins/memory_bucket.h"

namespace holdfast {
namespace {

using conformance::GetText;
using conformance::PutText;

// Buckets in which every n-th request fails and is sent again.
template <bool kActs>
struct ResendingBuckets {
  std::shared_ptr<Bucket> Make() {
    MemoryBucketOptions options;
    options.part_bytes = 100'000;
    BucketFaults faults;
    faults.fail_every = kActs ? 2 : 3;
    faults.acts = kActs;
    faults.resends = true;
    return std::make_shared<FaultBucket>(
        std::make_shared<MemoryBucket>(options), faults);
  }
  std::string prefix() const { return "p/"; }
  bool keeps_conditions() const { return true; }
  bool loses_answers() const { return kActs; }
  int many_key_count() const { return 1100; }
};

INSTANTIATE_TYPED_TEST_SUITE_P(ResendsWhatFailed, BucketConformance,
                               ResendingBuckets<false>);
INSTANTIATE_TYPED_TEST_SUITE_P(ResendsWhatActed, BucketConformance,
                               ResendingBuckets<true>);

struct FaultBucketTest : testing::Test {
  std::shared_ptr<MemoryBucket> memory = std::make_shared<MemoryBucket>();
  FaultBucket bucket{memory};
};

TEST_F(FaultBucketTest, CountsRequestsAndRoundTrips) {
  ASSERT_TRUE(PutText(bucket, "a", "12345").ok());
  std::string target(2, '?');
  const GetRequest gets[] = {{.key = "a"},
                             {.key = "a", .range = {1, 2}, .target = target}};
  ASSERT_EQ(bucket.Get(gets).size(), 2u);
  ASSERT_TRUE(bucket.List({.prefix = "x/", .delimiter = "/"}).ok());
  const BucketCounters counters = bucket.counters();
  EXPECT_EQ(counters.of(BucketRequest::kPut), 1u);
  EXPECT_EQ(counters.of(BucketRequest::kGet), 2u);
  EXPECT_EQ(counters.request_count(), 4u);
  EXPECT_EQ(counters.round_trips, 3u);
  EXPECT_EQ(counters.read_bytes, 7u);
  EXPECT_EQ(counters.written_bytes, 5u);
  EXPECT_THAT(bucket.requests(), testing::ElementsAre("put a", "get a 0+",
                                                      "get a 1+2", "list x/"));
}

TEST_F(FaultBucketTest, FailsBeforeOrAfterTheAct) {
  bucket.SetFaults({.fail_at = 2});
  ASSERT_TRUE(PutText(bucket, "a", "x").ok());
  const Status failed = PutText(bucket, "b", "x").status();
  EXPECT_EQ(failed.code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(failed.message()), testing::HasSubstr("injected"));
  EXPECT_EQ(GetText(bucket, "b"), "<NOT_FOUND>");
  bucket.SetFaults({.fail_at = 1, .acts = true});
  EXPECT_FALSE(PutText(bucket, "b", "x").ok());
  EXPECT_EQ(GetText(bucket, "b"), "x");
}

TEST_F(FaultBucketTest, TheDeadDoNothing) {
  auto upload = *bucket.StartUpload("u/k");
  bucket.SetFaults({.fail_at = 2, .dies = true});
  ASSERT_TRUE(PutText(bucket, "a", "x").ok());
  EXPECT_FALSE(PutText(bucket, "b", "x").ok());
  EXPECT_TRUE(bucket.died());
  EXPECT_FALSE(PutText(bucket, "c", "x").ok());
  EXPECT_FALSE(bucket.Head("a").ok());
  upload.reset();
  EXPECT_EQ(memory->object_count(), 1u);
  EXPECT_EQ(memory->ListUploads("")->size(), 1u);
  bucket.SetFaults({});
  EXPECT_EQ(GetText(bucket, "a"), "x");
  const auto left = bucket.ListUploads("u/");
  ASSERT_EQ(left->size(), 1u);
  ASSERT_TRUE(bucket.AbortUpload(left->front()).ok());
  EXPECT_TRUE(memory->ListUploads("")->empty());
}

// A client that sends a request again recognizes its own success.
TEST_F(FaultBucketTest, AConditionalPutSentTwiceIsNoConflict) {
  bucket.SetFaults({.fail_at = 1, .acts = true, .resends = true});
  const auto created = PutText(bucket, "k", "mine", Condition::Absent());
  ASSERT_TRUE(created.ok()) << created.status().ToString();
  EXPECT_EQ(*created, memory->Head("k")->version);
  bucket.SetFaults({.fail_at = 1, .acts = true, .resends = true});
  const auto swapped =
      PutText(bucket, "k", "mine too", Condition::Version(*created));
  ASSERT_TRUE(swapped.ok()) << swapped.status().ToString();
  EXPECT_EQ(GetText(bucket, "k"), "mine too");
}

TEST_F(FaultBucketTest, ARivalWhoWasFirstIsAConflict) {
  ASSERT_TRUE(PutText(*memory, "k", "theirs!").ok());
  bucket.SetFaults({.fail_at = 1, .acts = true, .resends = true});
  const auto lost = PutText(bucket, "k", "of mine", Condition::Absent());
  EXPECT_EQ(lost.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(GetText(bucket, "k"), "theirs!");
}

TEST_F(FaultBucketTest, ServersThatKnowNoConditions) {
  bucket.SetFaults({.ignores_conditions = true});
  ASSERT_TRUE(PutText(bucket, "k", "1", Condition::Absent()).ok());
  ASSERT_TRUE(PutText(bucket, "k", "2", Condition::Absent()).ok());
  EXPECT_EQ(GetText(bucket, "k"), "2");
}

TEST_F(FaultBucketTest, HooksSeeRequestsAndMayFailThem) {
  std::vector<std::string> seen;
  bucket.SetHook([&](BucketRequest kind, std::string_view key) {
    seen.push_back(std::string(BucketRequestName(kind)) + " " +
                   std::string(key));
    return key == "bad" ? DataLossError("hooked") : Status();
  });
  EXPECT_TRUE(PutText(bucket, "good", "x").ok());
  EXPECT_EQ(PutText(bucket, "bad", "x").status().code(), StatusCode::kDataLoss);
  EXPECT_THAT(seen, testing::ElementsAre("put good", "put bad"));
  EXPECT_EQ(memory->object_count(), 1u);
}

}  // namespace
}  // namespace holdfast
