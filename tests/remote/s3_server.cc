// Tests the contract of S3Bucket beyond the conformance suite, on a real server
// that the environment names as users would:
//
//   AWS_ENDPOINT_URL_S3=http://127.0.0.1:5000 AWS_ACCESS_KEY_ID=...
//   AWS_SECRET_ACCESS_KEY=... HOLDFAST_TEST_S3_BUCKET=name s3_server
//
// The bucket must exist. With HOLDFAST_TEST_S3_STYLE=virtual, requests have the
// bucket's name in the host's name. HOLDFAST_TEST_S3_SOURCE is the expected
// source of the credentials.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "conformance/bucket_conformance.h"
#include "ground/base/sha256.h"
#include "stores/cloud/s3/s3_bucket.h"
#include "stores/cloud/s3/s3_bucket_parts.h"
#include "stores/cloud/s3/s3_copy.h"
#include "stores/cloud/s3/s3_write.h"

namespace holdfast {

// Only the suite's helpers are used here; cloud_conformance runs it.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(BucketConformance);

namespace {

using testing::AnyOf;
using testing::HasSubstr;

std::string Variable(const char* name, const char* otherwise = "") {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? otherwise : value;
}

std::string BucketName() { return Variable("HOLDFAST_TEST_S3_BUCKET"); }

RemoteOptions Options() {
  RemoteOptions options;
  if (Variable("HOLDFAST_TEST_S3_STYLE") == "virtual") {
    options.style = RemoteOptions::Style::kVirtualHost;
  }
  return options;
}

// The parts of a bucket, to be combined with other clocks or keys.
struct BucketParts {
  AwsConfig config = *ReadAwsConfig("", ProcessEnvironment());
  S3Settings settings = *MakeS3Settings(BucketName(), Options(), config);
  std::shared_ptr<HttpClient> client = std::make_shared<HttpClient>();
  CredentialSource source = *FindCredentialSource(config, false, client);
};

class S3Server : public testing::Test {
 protected:
  void SetUp() override {
    const auto bucket = OpenS3Bucket(BucketName(), Options());
    ASSERT_TRUE(bucket.ok()) << bucket.status().ToString();
    bucket_ = *bucket;
  }
  std::string Key(const std::string& name) const { return prefix_ + name; }

  // A prefix that no earlier run has used.
  const std::string prefix_ = "t" + RandomHex32().substr(0, 12) + "/";
  std::shared_ptr<Bucket> bucket_;
};

// The keys contain characters that paths, queries and XML might alter.
TEST_F(S3Server, HardKeysAreKeptAsTheyAre) {
  std::vector<std::string> keys;
  for (const char* name :
       {"a b",        "a+b",        "a%20b",  "%",
        "é",          "a=b&c",      "x//y",   "x/./y",
        "x/../y",     "../up",      "tail/",  "q?r",
        "h#i",        "semi;colon", "@:$,",   "t\xf0\x9f\x98\x80",
        "<xml>&amp;", " lead",      "trail ", "quote\"'"}) {
    keys.push_back(Key(name));
  }
  for (const std::string& key : keys) {
    const std::string_view text = key;
    const auto version = bucket_->Put(key, {&text, 1}, Condition::Absent());
    ASSERT_TRUE(version.ok()) << version.status().ToString();
    EXPECT_EQ(conformance::GetText(*bucket_, key, {}, *version), key);
  }
  std::sort(keys.begin(), keys.end());
  EXPECT_EQ(conformance::ListAll(*bucket_, {.prefix = prefix_}).keys, keys);
  for (const std::string& key : keys) {
    const auto copied = bucket_->Copy(key, Key("copy"));
    ASSERT_TRUE(copied.ok()) << copied.status().ToString();
    EXPECT_EQ(conformance::GetText(*bucket_, Key("copy")), key);
  }
  keys.push_back(Key("copy"));
  ASSERT_TRUE(bucket_->DeleteAll(keys).ok());
  EXPECT_TRUE(conformance::ListAll(*bucket_, {.prefix = prefix_}).keys.empty());
}

TEST_F(S3Server, DeletesOnConditionOfAVersion) {
  const std::string key = Key("d");
  const auto first = conformance::PutText(*bucket_, key, "1");
  ASSERT_TRUE(first.ok()) << first.status().ToString();
  const auto second = conformance::PutText(*bucket_, key, "2");
  ASSERT_TRUE(second.ok()) << second.status().ToString();
  EXPECT_EQ(bucket_->Delete(key, Condition::Version(*first)).code(),
            StatusCode::kFailedPrecondition);
  EXPECT_EQ(conformance::GetText(*bucket_, key), "2");
  EXPECT_TRUE(bucket_->Delete(key, Condition::Version(*second)).ok());
  EXPECT_EQ(bucket_->Delete(key, Condition::Version(*second)).code(),
            StatusCode::kFailedPrecondition);
}

TEST_F(S3Server, UploadsLookBeforeTheyReplace) {
  const std::string key = Key("u");
  const std::string_view text = "uploaded";
  for (const bool is_there : {true, false}) {
    if (is_there) {
      ASSERT_TRUE(conformance::PutText(*bucket_, key, "x").ok());
    } else {
      ASSERT_TRUE(bucket_->Delete(key).ok());
    }
    auto upload = bucket_->StartUpload(key);
    ASSERT_TRUE(upload.ok()) << upload.status().ToString();
    ASSERT_TRUE((*upload)->Part(0, {&text, 1}, true).ok());
    const auto version = (*upload)->Finish(Condition::Absent());
    EXPECT_EQ(version.status().code(),
              is_there ? StatusCode::kFailedPrecondition : StatusCode::kOk);
    EXPECT_EQ(conformance::GetText(*bucket_, key), is_there ? "x" : text);
  }
}

TEST_F(S3Server, AbortsWhatOthersLeft) {
  const std::string key = Key("left/a b+c");
  auto upload = bucket_->StartUpload(key);
  ASSERT_TRUE(upload.ok()) << upload.status().ToString();
  const std::string_view text = "part";
  ASSERT_TRUE((*upload)->Part(0, {&text, 1}, true).ok());
  const auto found = bucket_->ListUploads(Key("left/"));
  ASSERT_TRUE(found.ok()) << found.status().ToString();
  ASSERT_EQ(found->size(), 1u);
  EXPECT_EQ((*found)[0].key, key);
  EXPECT_GT((*found)[0].begun_ns, 0);
  EXPECT_TRUE(bucket_->AbortUpload((*found)[0]).ok());
  EXPECT_TRUE(bucket_->AbortUpload((*found)[0]).ok());
  EXPECT_TRUE(bucket_->ListUploads(Key("left/"))->empty());
}

TEST_F(S3Server, CopiesInParts) {
  const std::string source = Key("big a+b"), target = Key("copied");
  const std::string content = conformance::Pattern(12 << 20, 5);
  const auto version = conformance::PutText(*bucket_, source, content);
  ASSERT_TRUE(version.ok()) << version.status().ToString();
  const BucketParts parts;
  const auto connection = std::make_shared<S3Connection>(
      parts.settings, parts.source, parts.client);
  const auto entry = bucket_->Head(source);
  ASSERT_TRUE(entry.ok()) << entry.status().ToString();
  const auto copied = CopyObjectInParts(connection, *entry, target,
                                        Condition::Absent(), 5 << 20);
  ASSERT_TRUE(copied.ok()) << copied.status().ToString();
  EXPECT_TRUE(conformance::GetText(*bucket_, target, {}, *copied) == content);
}

TEST_F(S3Server, SaysWhatIsWrongWithoutTellingSecrets) {
  const auto missing = OpenS3Bucket("no-such-bucket-of-ours", Options());
  ASSERT_TRUE(missing.ok());
  const Status no_bucket = (*missing)->List({}).status();
  EXPECT_EQ(no_bucket.code(), StatusCode::kNotFound);
  EXPECT_THAT(no_bucket.ToString(), HasSubstr("no such bucket"));

  const BucketParts parts;
  AwsCredentials wrong = *parts.source();
  const std::string wrong_secret = "wrong-secret-wrong-secret";
  wrong.keys.secret_access_key = wrong_secret;
  const auto bucket = MakeS3Bucket(std::make_shared<S3Connection>(
      parts.settings, [wrong]() -> Result<AwsCredentials> { return wrong; },
      parts.client));
  const std::string_view text = "x";
  for (const Status& status :
       {bucket->List({}).status(), bucket->Head(Key("x")).status(),
        bucket->Put(Key("x"), {&text, 1}).status()}) {
    EXPECT_EQ(status.code(), StatusCode::kPermissionDenied)
        << status.ToString();
    // Ceph returns AccessDenied.
    EXPECT_THAT(status.ToString(), AnyOf(HasSubstr("SignatureDoesNotMatch"),
                                         HasSubstr("AccessDenied")));
    EXPECT_EQ(status.ToString().find(wrong_secret), std::string::npos);
    EXPECT_EQ(status.ToString().find(wrong.keys.access_key_id),
              std::string::npos);
  }
}

TEST_F(S3Server, WrongClockIsMended) {
  const BucketParts parts;
  for (const int64_t offset_s : {-86400, 86400}) {
    const auto bucket = MakeS3Bucket(std::make_shared<S3Connection>(
        parts.settings, parts.source, parts.client, [offset_s] {
          const auto now = std::chrono::system_clock::now().time_since_epoch();
          return (std::chrono::duration_cast<std::chrono::seconds>(now)
                      .count() +
                  offset_s) *
                 1'000'000'000;
        }));
    const auto listed = bucket->List({.prefix = prefix_});
    EXPECT_TRUE(listed.ok()) << listed.status().ToString();
    EXPECT_EQ(bucket->Head(Key("none")).status().code(), StatusCode::kNotFound);
  }
}

TEST_F(S3Server, TellsHowItIsReached) {
  const auto access = bucket_->Access();
  ASSERT_TRUE(access.ok()) << access.status().ToString();
  const std::string usual = Variable("AWS_ENDPOINT_URL");
  EXPECT_EQ(access->endpoint, Variable("AWS_ENDPOINT_URL_S3", usual.c_str()));
  const std::string key_id = Variable("AWS_ACCESS_KEY_ID", "none");
  EXPECT_EQ(access->credentials.find(key_id), std::string::npos);
  EXPECT_THAT(access->credentials,
              HasSubstr(Variable("HOLDFAST_TEST_S3_SOURCE")));
}

}  // namespace
}  // namespace holdfast

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (holdfast::BucketName().empty()) {
    std::fprintf(stderr, "set HOLDFAST_TEST_S3_BUCKET\n");
    return 2;
  }
  return RUN_ALL_TESTS();
}
