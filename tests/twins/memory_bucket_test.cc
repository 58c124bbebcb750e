#include "twins/memory_bucket.h"

#include "conformance/bucket_conformance.h"
#include "twins/fault_bucket.h"

namespace holdfast {
namespace {

template <bool kIsS3>
struct MemoryBuckets {
  std::shared_ptr<Bucket> Make() {
    MemoryBucketOptions options =
        kIsS3 ? MemoryBucketOptions::S3Like() : MemoryBucketOptions::GcsLike();
    options.part_bytes = 100'000;
    return std::make_shared<MemoryBucket>(options);
  }
  std::string prefix() const { return "p/q/"; }
  bool keeps_conditions() const { return true; }
  bool loses_answers() const { return false; }
  int many_key_count() const { return 1100; }
};

INSTANTIATE_TYPED_TEST_SUITE_P(S3Like, BucketConformance, MemoryBuckets<true>);
INSTANTIATE_TYPED_TEST_SUITE_P(GcsLike, BucketConformance,
                               MemoryBuckets<false>);

TEST(MemoryBucketTest, VersionsFollowContentOrCount) {
  using conformance::PutText;
  MemoryBucket s3(MemoryBucketOptions::S3Like());
  MemoryBucket gcs(MemoryBucketOptions::GcsLike());
  EXPECT_EQ(*PutText(s3, "a", "x"), *PutText(s3, "b", "x"));
  EXPECT_NE(*PutText(s3, "a", "x"), *PutText(s3, "a", "y"));
  EXPECT_NE(*PutText(gcs, "a", "x"), *PutText(gcs, "a", "x"));
}

TEST(MemoryBucketTest, TheClockMovesWhenTold) {
  MemoryBucket bucket;
  bucket.SetTimeNs(5'000);
  ASSERT_TRUE(conformance::PutText(bucket, "a", "x").ok());
  EXPECT_EQ(bucket.Head("a")->modified_ns, 5'001);
  bucket.AdvanceTime(1'000);
  EXPECT_EQ(bucket.ServerTimeNs(), 6'001);
}

TEST(MemoryBucketTest, PartsMustFit) {
  MemoryBucketOptions options = MemoryBucketOptions::GcsLike();
  options.part_bytes = 4;
  MemoryBucket bucket(options);
  const std::string_view four = "four", three = "thr", five = "fiver";
  auto upload = *bucket.StartUpload("k");
  constexpr StatusCode kWant = StatusCode::kInvalidArgument;
  EXPECT_EQ(upload->Finish({}).status().code(), kWant);
  EXPECT_EQ(upload->Part(0, {&three, 1}, false).code(), kWant);
  EXPECT_EQ(upload->Part(0, {&five, 1}, true).code(), kWant);
  EXPECT_EQ(upload->Part(1, {&four, 1}, false).code(), kWant);
  EXPECT_TRUE(upload->Part(0, {&four, 1}, false).ok());
  EXPECT_EQ(upload->Part(0, {&four, 1}, false).code(), kWant);
  EXPECT_TRUE(upload->Part(1, {&three, 1}, true).ok());
  EXPECT_TRUE(upload->Finish({}).ok());
  EXPECT_EQ(conformance::GetText(bucket, "k"), "fourthr");
}

TEST(MemoryBucketTest, DamageChangesTheVersion) {
  MemoryBucket bucket;
  const std::string version = *conformance::PutText(bucket, "k", "abc");
  bucket.Damage("k", 1);
  EXPECT_NE(bucket.Head("k")->version, version);
  EXPECT_EQ(conformance::GetText(bucket, "k"), "acc");
}

}  // namespace
}  // namespace holdfast
