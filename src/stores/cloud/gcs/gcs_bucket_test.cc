#include "stores/cloud/gcs/gcs_bucket.h"

#include <gmock/gmock.h>

#include "conformance/bucket_conformance.h"
#include "twins/gcs_fake_process.h"

namespace holdfast {
namespace {

using conformance::GetText;
using conformance::Pattern;
using conformance::PutText;
using testing::HasSubstr;

struct FakeGcsBuckets {
  std::shared_ptr<Bucket> Make() { return FakeBucket(GcsFake::Shared()); }
  std::string prefix() {
    static int serial = 0;
    if (prefix_.empty()) {
      prefix_ = "conformance/" + std::to_string(serial++) + "/";
    }
    return prefix_;
  }
  bool keeps_conditions() const { return true; }
  bool loses_answers() const { return false; }
  int many_key_count() const { return 1100; }

 private:
  std::string prefix_;
};

INSTANTIATE_TYPED_TEST_SUITE_P(GcsFake, BucketConformance, FakeGcsBuckets);

class GcsBucketTest : public testing::Test {
 protected:
  void SetUp() override {
    fake_.Tell("reset", "{}");
    bucket_ = FakeBucket(fake_);
    ASSERT_NE(bucket_, nullptr);
  }
  void TearDown() override { fake_.Tell("reset", "{}"); }

  Status Upload(std::string_view key, const std::string& text,
                const Condition& condition = {}) {
    auto upload = bucket_->StartUpload(key);
    if (!upload.ok()) return upload.status();
    const uint64_t part_bytes = bucket_->part_bytes(0);
    uint64_t index = 0;
    for (uint64_t at = 0;; at += part_bytes) {
      const bool is_last = at + part_bytes >= text.size();
      const std::string_view part =
          std::string_view(text).substr(at, part_bytes);
      const Status status = (*upload)->Part(index++, {&part, 1}, is_last);
      if (!status.ok()) return status;
      if (is_last) break;
    }
    return (*upload)->Finish(condition).status();
  }

  GcsFake& fake_ = GcsFake::Shared();
  std::shared_ptr<Bucket> bucket_;
};

TEST_F(GcsBucketTest, AConditionalPutWhoseAnswerIsLostKnowsItself) {
  fake_.Tell("lose", R"({"method":"insert"})");
  const auto version =
      PutText(*bucket_, "lost/marker", "same", Condition::Absent());
  ASSERT_TRUE(version.ok()) << version.status().ToString();
  EXPECT_EQ(bucket_->Head("lost/marker")->version, *version);
  EXPECT_EQ(fake_.Count("insert"), 2);
}

// A rival's write of the same bytes does not count as our success.
TEST_F(GcsBucketTest, ARivalWithTheSameBytesIsStillARival) {
  ASSERT_TRUE(
      PutText(*bucket_, "rival/marker", "same", Condition::Absent()).ok());
  fake_.Tell("throttle", R"({"method":"insert","status":503})");
  EXPECT_EQ(PutText(*bucket_, "rival/marker", "same", Condition::Absent())
                .status()
                .code(),
            StatusCode::kFailedPrecondition);
  EXPECT_EQ(fake_.Count("insert"), 3);
}

TEST_F(GcsBucketTest, AConditionalDeleteWhoseAnswerIsLostSucceeded) {
  const auto version = PutText(*bucket_, "lost/lease", "x");
  fake_.Tell("lose", R"({"method":"delete"})");
  const Status status =
      bucket_->Delete("lost/lease", Condition::Version(*version));
  EXPECT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(bucket_->Delete("lost/lease", Condition::Version(*version)).code(),
            StatusCode::kFailedPrecondition);
}

TEST_F(GcsBucketTest, ACopyUnderAConditionWhoseAnswerIsLostKnowsItself) {
  ASSERT_TRUE(PutText(*bucket_, "lost/from", "text").ok());
  fake_.Tell("lose", R"({"method":"rewrite"})");
  const auto version =
      bucket_->Copy("lost/from", "lost/to", Condition::Absent());
  ASSERT_TRUE(version.ok()) << version.status().ToString();
  EXPECT_EQ(GetText(*bucket_, "lost/to"), "text");
  EXPECT_EQ(bucket_->Copy("lost/from", "lost/to", Condition::Absent())
                .status()
                .code(),
            StatusCode::kFailedPrecondition);
}

TEST_F(GcsBucketTest, ALongCopyGoesOnWithItsToken) {
  ASSERT_TRUE(PutText(*bucket_, "copy/from", Pattern(1000, 3)).ok());
  fake_.Tell("quirk", R"({"rewrite_bytes":300})");
  ASSERT_TRUE(bucket_->Copy("copy/from", "copy/to").ok());
  EXPECT_EQ(fake_.Count("rewrite"), 4);
  EXPECT_EQ(GetText(*bucket_, "copy/to"), Pattern(1000, 3));
}

TEST_F(GcsBucketTest, APartKeptInPiecesIsSentOn) {
  const std::string text = Pattern(bucket_->part_bytes(0) + 3'000'000, 5);
  // From the first part, the server keeps a piece that is not a multiple of the
  // unit, then one that is, then nothing at all; from the last part, a piece.
  fake_.Tell("persist", R"({"bytes":[300000,1048576,0,16777216,1000000]})");
  const Status status = Upload("parts/pieces", text);
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(GetText(*bucket_, "parts/pieces"), text);
  EXPECT_GT(fake_.Count("chunk"), 4);
}

TEST_F(GcsBucketTest, APartWhoseAnswerIsLostIsNotWrittenTwice) {
  const std::string text = Pattern(2 * bucket_->part_bytes(0) + 77, 6);
  fake_.Tell("lose", R"({"method":"chunk","count":2})");
  fake_.Tell("throttle", R"({"method":"chunk","count":3,"skip":2})");
  fake_.Tell("lose", R"({"method":"chunk","skip":3})");
  const Status status = Upload("parts/lost", text);
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(GetText(*bucket_, "parts/lost"), text);
}

TEST_F(GcsBucketTest, APartThatTheServerNeverTakesEnds) {
  fake_.Tell("persist", R"({"bytes":[0,0,0,0,0,0,0,0,0,0,0,0]})");
  const Status status =
      Upload("parts/stuck", Pattern(bucket_->part_bytes(0) + 1, 6));
  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status.ToString();
  EXPECT_EQ(fake_.Count("cancel"), 1);
}

// The sizes are near the boundaries of parts, and the last part is empty or
// full.
TEST_F(GcsBucketTest, AnyNumberOfPartsMakesTheObject) {
  const uint64_t part = bucket_->part_bytes(0);
  for (const uint64_t size :
       {uint64_t{0}, uint64_t{1}, part, part + 1, 2 * part}) {
    const std::string text = Pattern(size, 7);
    ASSERT_TRUE(Upload("parts/edge", text).ok()) << size;
    EXPECT_TRUE(GetText(*bucket_, "parts/edge") == text) << size;
  }
  auto upload = *bucket_->StartUpload("parts/edge");
  const std::string text = Pattern(part, 8);
  const std::string_view whole = text, nothing;
  ASSERT_TRUE(upload->Part(0, {&whole, 1}, false).ok());
  ASSERT_TRUE(upload->Part(1, {&nothing, 1}, true).ok());
  ASSERT_TRUE(upload->Finish({}).ok());
  EXPECT_TRUE(GetText(*bucket_, "parts/edge") == text);
}

TEST_F(GcsBucketTest, AServerWithoutRangesIsRefused) {
  ASSERT_TRUE(PutText(*bucket_, "quirk/a", "0123456789").ok());
  fake_.Tell("quirk", R"({"ignore_range":true})");
  EXPECT_EQ(GetText(*bucket_, "quirk/a", {2, 3}), "<DATA_LOSS>");
  EXPECT_EQ(GetText(*bucket_, "quirk/a"), "<DATA_LOSS>");
}

TEST_F(GcsBucketTest, AWrongHashIsDataLoss) {
  ASSERT_TRUE(PutText(*bucket_, "quirk/b", "0123456789").ok());
  fake_.Tell("quirk", R"({"wrong_hash":true})");
  EXPECT_EQ(GetText(*bucket_, "quirk/b"), "<DATA_LOSS>");
  EXPECT_EQ(GetText(*bucket_, "quirk/b", {1, 2}), "12");  // no checksum
}

TEST_F(GcsBucketTest, ALongObjectIsReadInRangesOfOneVersion) {
  const std::string text =
      Pattern(2 * bucket_->traits().get_bytes_max + 1234, 9);
  ASSERT_TRUE(PutText(*bucket_, "long", text).ok());
  const int before = fake_.Count("get");
  EXPECT_TRUE(GetText(*bucket_, "long") == text);
  EXPECT_EQ(fake_.Count("get") - before, 3);
  EXPECT_TRUE(GetText(*bucket_, "long", {1000, kToEnd}) == text.substr(1000));
}

TEST_F(GcsBucketTest, DeletesGoInBatchesAndAloneWhereThereAreNone) {
  std::vector<std::string> keys;
  for (int i = 0; i < 250; ++i) {
    keys.push_back("batch/" + std::to_string(i));
    if (i % 2 == 1) continue;
    ASSERT_TRUE(PutText(*bucket_, keys.back(), "x").ok());
  }
  fake_.Tell("reset", "{}");
  // Three batches are sent; some calls in them are throttled and repeated.
  fake_.Tell("throttle",
             R"({"method":"delete","status":429,"count":3,"skip":5})");
  const Status status = bucket_->DeleteAll(keys);
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(fake_.Count("batch"), 3);
  EXPECT_EQ(fake_.Count("delete"), 250 + 3);
  EXPECT_TRUE(bucket_->List({.prefix = "batch/"})->objects.empty());

  fake_.Tell("quirk", R"({"no_batch":true})");
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(PutText(*bucket_, keys[i], "x").ok());
  }
  ASSERT_TRUE(bucket_->DeleteAll(std::span(keys).first(7)).ok());
  EXPECT_TRUE(bucket_->List({.prefix = "batch/"})->objects.empty());
}

TEST_F(GcsBucketTest, ARefusedDeleteIsToldAndTheOthersHappen) {
  ASSERT_TRUE(PutText(*bucket_, "denied/a", "x").ok());
  fake_.Tell("deny", R"({"permissions":["storage.objects.delete"]})");
  const std::vector<std::string> keys = {"denied/a", "denied/b"};
  const Status status = bucket_->DeleteAll(keys);
  EXPECT_EQ(status.code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("grant storage.objects.delete"));
}

TEST_F(GcsBucketTest, WhoMayReadButNotListIsTold) {
  ASSERT_TRUE(PutText(*bucket_, "only/read", "text").ok());
  fake_.Tell("deny", R"({"permissions":["storage.objects.list"]})");
  EXPECT_EQ(GetText(*bucket_, "only/read"), "text");
  const auto page = bucket_->List({.prefix = "only/"});
  EXPECT_EQ(page.status().code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(page.status().message()),
              HasSubstr("grant storage.objects.list"));
  // A missing object looks the same as a forbidden one.
  EXPECT_EQ(bucket_->Head("only/absent").status().code(),
            StatusCode::kPermissionDenied);
}

TEST_F(GcsBucketTest, AMissingBucketIsNamed) {
  auto bucket =
      OpenGcsBucketIn("missing-bucket", QuickOptions(),
                      EnvironmentOf({{"STORAGE_EMULATOR_HOST", fake_.url()}}));
  ASSERT_TRUE(bucket.ok());
  const std::string want = "bucket does not exist";
  EXPECT_THAT(std::string((*bucket)->Head("a").status().message()),
              HasSubstr(want));
  EXPECT_EQ((*bucket)->Delete("a").code(), StatusCode::kNotFound);
  EXPECT_EQ((*bucket)->List({}).status().code(), StatusCode::kNotFound);
}

TEST_F(GcsBucketTest, TheRequesterPaysWhereAProjectIsNamed) {
  fake_.Tell("/storage/v1/b",
             R"({"name":"payer","billing":{"requesterPays":true}})");
  const auto open = [&](RemoteOptions options,
                        std::map<std::string, std::string> values) {
    values.emplace("STORAGE_EMULATOR_HOST", fake_.url());
    return *OpenGcsBucketIn("payer", options, EnvironmentOf(values));
  };
  RemoteOptions options = QuickOptions();
  const auto refused = PutText(*open(options, {}), "a", "x");
  EXPECT_EQ(refused.status().code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("name the project to bill"));
  options.requester_pays = true;
  EXPECT_EQ(PutText(*open(options, {}), "a", "x").status().code(),
            StatusCode::kInvalidArgument);
  auto named = open(options, {{"GOOGLE_CLOUD_QUOTA_PROJECT", "p 1"}});
  ASSERT_TRUE(PutText(*named, "a", "x").ok());
  ASSERT_TRUE(PutText(*named, "b", "x").ok());
  EXPECT_EQ(GetText(*named, "a"), "x");
  const std::vector<std::string> keys = {"a", "b"};
  EXPECT_TRUE(named->DeleteAll(keys).ok());
  options = QuickOptions();
  options.user_project = "p2";
  EXPECT_TRUE(PutText(*open(options, {}), "a", "x").ok());
}

TEST_F(GcsBucketTest, ThrottlingIsSatOut) {
  ASSERT_TRUE(PutText(*bucket_, "storm/a", "text").ok());
  fake_.Tell("throttle", R"({"status":503,"count":6})");
  EXPECT_EQ(GetText(*bucket_, "storm/a"), "text");
  fake_.Tell("throttle", R"({"status":429,"count":6})");
  EXPECT_EQ(bucket_->List({.prefix = "storm/"})->objects.size(), 1u);
}

TEST_F(GcsBucketTest, NamesThatCannotBeAreRefusedBeforeAnythingIsSent) {
  const std::string latin = "caf\xe9", end = "a\nb", none;
  for (const std::string& key : {latin, end, none, std::string(1025, 'a')}) {
    EXPECT_EQ(PutText(*bucket_, key, "x").status().code(),
              StatusCode::kInvalidArgument);
    EXPECT_EQ(GetText(*bucket_, key), "<INVALID_ARGUMENT>");
  }
  EXPECT_EQ(fake_.Count("insert") + fake_.Count("get"), 0);
  EXPECT_FALSE(OpenGcsBucketIn("Not A Bucket", {}, EnvironmentOf({})).ok());
}

TEST_F(GcsBucketTest, ConditionsOfFinishAreLookedAt) {
  const std::string text = Pattern(bucket_->part_bytes(0) + 1, 2);
  ASSERT_TRUE(Upload("cond/a", text, Condition::Absent()).ok());
  EXPECT_EQ(Upload("cond/a", text, Condition::Absent()).code(),
            StatusCode::kFailedPrecondition);
  EXPECT_EQ(Upload("cond/a", "one part", Condition::Absent()).code(),
            StatusCode::kFailedPrecondition);
  const std::string version = bucket_->Head("cond/a")->version;
  EXPECT_TRUE(Upload("cond/a", text, Condition::Version(version)).ok());
  EXPECT_EQ(Upload("cond/a", text, Condition::Version(version)).code(),
            StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace holdfast
