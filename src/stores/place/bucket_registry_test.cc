#include "stores/place/bucket_registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "twins/memory_bucket.h"

namespace holdfast {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

BucketRegistry::Factory CountingFactory(int* count) {
  return [count](const std::string& root, const RemoteOptions& options) {
    ++*count;
    MemoryBucketOptions memory = MemoryBucketOptions::S3Like();
    memory.name = root + options.endpoint;
    return Result<std::shared_ptr<Bucket>>(
        std::make_shared<MemoryBucket>(memory));
  };
}

TEST(BucketRegistry, MakesOneBucketForEachRoot) {
  BucketRegistry registry;
  int count = 0;
  registry.Register("mem", CountingFactory(&count));
  const auto a = registry.Find("mem://one/a/b/");
  const auto b = registry.Find("MEM://one/c");
  const auto c = registry.Find("mem://two");
  ASSERT_TRUE(a.ok() && b.ok() && c.ok());
  EXPECT_EQ(a->bucket, b->bucket);
  EXPECT_NE(a->bucket, c->bucket);
  EXPECT_EQ(count, 2);
  EXPECT_EQ(a->key, "a/b");
  EXPECT_EQ(a->prefix(), "a/b/");
  EXPECT_EQ(c->key, "");
  EXPECT_EQ(c->prefix(), "");
}

// A revision may change, so it is looked up again for the next user once
// nothing reads from it.
TEST(BucketRegistry, ARevisionOfAHubIsKeptWhileSomebodyReads) {
  BucketRegistry registry;
  int count = 0;
  registry.Register("hf", CountingFactory(&count));
  {
    const auto a = registry.Find("hf://org/one/x");
    const auto b = registry.Find("hf://org/one/y");
    const auto other = registry.Find("hf://org/one@v2/x");
    const auto another = registry.Find("hf://org/two/x");
    ASSERT_TRUE(a.ok() && b.ok() && other.ok() && another.ok());
    EXPECT_EQ(a->bucket, b->bucket);
    EXPECT_NE(a->bucket, other->bucket);
    EXPECT_NE(a->bucket, another->bucket);
    EXPECT_EQ(other->key, "x");
    EXPECT_EQ(count, 3);
  }
  EXPECT_TRUE(registry.Find("hf://org/one").ok());
  EXPECT_EQ(count, 4);
}

TEST(BucketRegistry, NewOptionsMakeNewBuckets) {
  BucketRegistry registry;
  int count = 0;
  registry.Register("mem", CountingFactory(&count));
  const auto before = registry.Open("mem://one");
  registry.SetOptions({.endpoint = "-elsewhere"});
  const auto after = registry.Open("mem://one");
  ASSERT_TRUE(before.ok() && after.ok());
  EXPECT_NE(*before, *after);
  EXPECT_THAT((*after)->UrlOf(""), HasSubstr("-elsewhere"));
}

TEST(BucketRegistry, KeysOfBucketsStandAsTheyAre) {
  BucketRegistry registry;
  int count = 0;
  registry.Register("mem", CountingFactory(&count));
  EXPECT_EQ(registry.Find("mem://b/a%20b?c#d/e f")->key, "a%20b?c#d/e f");
}

TEST(BucketRegistry, PathsOfTheWebAreUnescaped) {
  BucketRegistry registry;
  int count = 0;
  registry.Register("https", CountingFactory(&count));
  EXPECT_EQ(registry.Find("https://h:80/a%20b/%c3%a9/50%")->key,
            "a b/\xc3\xa9/50%");
  EXPECT_EQ(registry.Find("https://h/a?sig=secret").status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_THAT(registry.Find("https://h/a?sig=secret").status().ToString(),
              Not(HasSubstr("secret")));
  EXPECT_EQ(registry.Find("https://h/a%00b").status().code(),
            StatusCode::kInvalidArgument);
}

TEST(BucketRegistry, SaysWhatIsWrongWithAUrl) {
  BucketRegistry registry;
  EXPECT_EQ(registry.Find("/tmp/x").status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(registry.Find("s3:///x").status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(registry.Find("ftp://x/y").status().code(),
            StatusCode::kUnimplemented);
  const Status with_password = registry.Find("s3://me:pass@b/x").status();
  EXPECT_EQ(with_password.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(with_password.ToString(), Not(HasSubstr("pass@")));
}

}  // namespace
}  // namespace holdfast
