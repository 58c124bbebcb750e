#include "stores/cloud/http_bucket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <map>

#include "stores/cloud/bucket_store.h"
#include "stores/cloud/content_range.h"
#include "twins/http_test_server.h"

namespace holdfast {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr std::string_view kDate = "Sun, 06 Nov 1994 08:49:37 GMT";

// A web server with a few files, which can have the faults of real servers.
struct Site {
  std::map<std::string, std::string> files;  // by target, as sent
  std::string etag = "\"e1\"";               // "": none
  bool has_dates = true;
  bool knows_ranges = true;
  bool knows_head = true;
  bool knows_conditions = true;
  bool gives_wrong_range = false;
  int refusal = 0;  // if not 0, the status of every answer

  TestAnswer Answer(const TestRequest& request) const {
    TestAnswer answer;
    answer.headers = {{"Date", std::string(kDate)}};
    if (refusal != 0) return Refuse(answer, refusal);
    const auto file = files.find(request.target);
    if (file == files.end()) return Refuse(answer, 404);
    if (!etag.empty()) answer.headers.emplace_back("ETag", etag);
    if (has_dates) {
      answer.headers.emplace_back("Last-Modified", std::string(kDate));
    }
    const std::string& content = file->second;
    if (request.method == "HEAD") {
      if (!knows_head) return Refuse(answer, 403);
      answer.claimed_bytes = static_cast<int64_t>(content.size());
      return answer;
    }
    const auto match = FindHeader(request.headers, "if-match");
    const auto since = FindHeader(request.headers, "if-unmodified-since");
    if (knows_conditions &&
        ((match && *match != etag) || (since && *since != kDate))) {
      return Refuse(answer, 412);
    }
    return Ranged(request, content, answer);
  }

  static TestAnswer Refuse(TestAnswer answer, int status) {
    answer.status = status;
    answer.body = "<html>no</html>";
    return answer;
  }

  TestAnswer Ranged(const TestRequest& request, const std::string& content,
                    TestAnswer answer) const {
    answer.body = content;
    const auto range = FindHeader(request.headers, "range");
    if (!range || !knows_ranges) return answer;
    unsigned long long first = 0, last = 0;
    std::sscanf(std::string(*range).c_str(), "bytes=%llu-%llu", &first, &last);
    const std::string total = "/" + std::to_string(content.size());
    if (first >= content.size()) {
      answer.status = 416;
      answer.body.clear();
      answer.headers.emplace_back("Content-Range", "bytes *" + total);
      return answer;
    }
    if (gives_wrong_range) first = first == 0 ? 1 : first - 1;
    answer.status = 206;
    answer.body = content.substr(first, last - first + 1);
    answer.headers.emplace_back(
        "Content-Range", "bytes " + std::to_string(first) + "-" +
                             std::to_string(first + answer.body.size() - 1) +
                             total);
    return answer;
  }
};

struct HttpBucketTest : testing::Test {
  Site site;
  HttpTestServer server{
      [this](const TestRequest& request) { return site.Answer(request); }};
  std::shared_ptr<Bucket> bucket = OpenAt("/data");

  std::shared_ptr<Bucket> OpenAt(const std::string& path) {
    RemoteOptions options;
    options.http.attempt_count_max = 1;
    return *OpenHttpBucket(server.Url(path), options);
  }
  Result<GetResult> Get(GetRequest request) {
    return bucket->Get({&request, 1}).front();
  }
  std::string Text(const std::string& key, ByteRange range = {}) {
    const Result<GetResult> got = Get({.key = key, .range = range});
    if (got.ok()) return got->bytes.ToString();
    return "<" + std::string(StatusCodeName(got.status().code())) + ">";
  }

  void SetUp() override {
    site.files = {{"/data/k", "0123456789"},
                  {"/data/empty", ""},
                  {"/data/a%20b/%25", "odd"}};
  }
};

TEST_F(HttpBucketTest, RangesAreExactOrRefused) {
  EXPECT_EQ(Text("k"), "0123456789");
  EXPECT_EQ(Text("k", {2, 3}), "234");
  EXPECT_EQ(Text("k", {7, kToEnd}), "789");
  EXPECT_EQ(Text("k", {10, kToEnd}), "");
  EXPECT_EQ(Text("k", {0, 0}), "");
  EXPECT_EQ(Text("k", {11, kToEnd}), "<OUT_OF_RANGE>");
  EXPECT_EQ(Text("k", {8, 3}), "<OUT_OF_RANGE>");
  EXPECT_EQ(Text("k", {10, 1}), "<OUT_OF_RANGE>");
  EXPECT_EQ(Text("k", {kToEnd - 1, 1}), "<OUT_OF_RANGE>");
  EXPECT_EQ(Text("empty"), "");
  EXPECT_EQ(Text("empty", {0, 1}), "<OUT_OF_RANGE>");
  EXPECT_EQ(Text("no"), "<NOT_FOUND>");
  EXPECT_EQ(Text("a b/%"), "odd");
  std::string target(4, '?');
  ASSERT_TRUE(Get({.key = "k", .range = {3, 4}, .target = target}).ok());
  EXPECT_EQ(target, "3456");
}

TEST_F(HttpBucketTest, HeadTellsSizeVersionAndTime) {
  for (const bool knows_head : {true, false}) {
    site.knows_head = knows_head;
    const Result<ObjectEntry> entry = bucket->Head("k");
    ASSERT_TRUE(entry.ok()) << entry.status().ToString();
    EXPECT_EQ(entry->byte_count, 10u);
    EXPECT_EQ(entry->version, "e1");
    EXPECT_EQ(entry->modified_ns, 784111777'000'000'000);
    EXPECT_EQ(bucket->Head("empty")->byte_count, 0u);
    EXPECT_EQ(bucket->Head("no").status().code(), StatusCode::kNotFound);
  }
  EXPECT_EQ(bucket->ServerTimeNs(), 784111777'000'000'000);
}

// Tests every kind of version, with servers that honor conditions and with
// servers that do not.
TEST_F(HttpBucketTest, AnotherVersionIsDataLoss) {
  for (const bool knows_conditions : {true, false}) {
    site.knows_conditions = knows_conditions;
    site.etag = "\"e1\"";
    const std::string strong = bucket->Head("k")->version;
    EXPECT_TRUE(Get({.key = "k", .version = strong}).ok());
    site.etag = "\"e2\"";
    EXPECT_EQ(Get({.key = "k", .version = strong}).status().code(),
              StatusCode::kDataLoss);
    site.etag = "W/\"weak\"";
    const std::string dated = bucket->Head("k")->version;
    EXPECT_THAT(dated, HasSubstr(kDate));
    EXPECT_TRUE(Get({.key = "k", .version = dated}).ok());
    site.files["/data/k"] = "other bytes";
    EXPECT_EQ(Get({.key = "k", .version = dated}).status().code(),
              StatusCode::kDataLoss);
    site.has_dates = false;
    const std::string sized = bucket->Head("k")->version;
    EXPECT_TRUE(Get({.key = "k", .range = {1, 2}, .version = sized}).ok());
    site.files["/data/k"] = "0123456789";
    EXPECT_EQ(
        Get({.key = "k", .range = {1, 2}, .version = sized}).status().code(),
        StatusCode::kDataLoss);
    site.has_dates = true;
  }
}

TEST_F(HttpBucketTest, ServersWithoutRangesAreRefusedUnlessAllIsWanted) {
  site.knows_ranges = false;
  EXPECT_EQ(Text("k"), "0123456789");
  EXPECT_EQ(Text("k", {0, 10}), "0123456789");
  std::string target(10, '?');
  ASSERT_TRUE(Get({.key = "k", .range = {0, 10}, .target = target}).ok());
  EXPECT_EQ(target, "0123456789");
  for (const ByteRange range : {ByteRange{0, 9}, {3, 4}, {3, kToEnd}}) {
    const Status status = Get({.key = "k", .range = range}).status();
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()), HasSubstr("ignores ranges"));
  }
  EXPECT_EQ(Text("k", {0, 11}), "<OUT_OF_RANGE>");
}

TEST_F(HttpBucketTest, WrongRangesAreDataLoss) {
  site.gives_wrong_range = true;
  EXPECT_EQ(Text("k", {3, 4}), "<DATA_LOSS>");
  EXPECT_EQ(Text("k"), "<DATA_LOSS>");
  std::string target(4, '?');
  EXPECT_EQ(
      Get({.key = "k", .range = {3, 4}, .target = target}).status().code(),
      StatusCode::kDataLoss);
}

TEST_F(HttpBucketTest, StatusesHaveTheirMeaning) {
  const std::pair<int, StatusCode> kinds[] = {
      {401, StatusCode::kPermissionDenied},
      {403, StatusCode::kPermissionDenied},
      {404, StatusCode::kNotFound},
      {410, StatusCode::kNotFound},
      {503, StatusCode::kUnavailable},
      {418, StatusCode::kFailedPrecondition},
      {204, StatusCode::kFailedPrecondition}};
  for (const auto& [status, code] : kinds) {
    site.refusal = status;
    EXPECT_EQ(Get({.key = "k"}).status().code(), code) << status;
    EXPECT_EQ(bucket->Head("k").status().code(), code) << status;
  }
}

TEST_F(HttpBucketTest, TheQueryGoesWithEveryRequestAndIsNeverShown) {
  bucket = OpenAt("/signed%20dir/?sig=S3CR%2FET&x=1");
  site.files = {{"/signed%20dir/k?sig=S3CR%2FET&x=1", "content"}};
  EXPECT_EQ(Text("k"), "content");
  EXPECT_EQ(bucket->Head("k")->byte_count, 7u);
  EXPECT_EQ(bucket->UrlOf("k"), server.Url("/signed%20dir/k"));
  const auto access = bucket->Access();
  EXPECT_THAT(access->endpoint + access->credentials, Not(HasSubstr("S3CR")));
  for (const int refusal : {403, 404, 500}) {
    site.refusal = refusal;
    for (const Status& status :
         {Get({.key = "k"}).status(), bucket->Head("k").status()}) {
      EXPECT_THAT(status.ToString(), Not(HasSubstr("S3CR")));
      EXPECT_THAT(status.ToString(), HasSubstr("/signed%20dir/k"));
    }
  }
}

TEST_F(HttpBucketTest, NothingIsWrittenOrListed) {
  constexpr StatusCode kWant = StatusCode::kUnimplemented;
  const std::string keys[] = {"k"};
  EXPECT_FALSE(bucket->traits().can_write || bucket->traits().can_list);
  EXPECT_EQ(bucket->Put("k", {}).status().code(), kWant);
  EXPECT_EQ(bucket->StartUpload("k").status().code(), kWant);
  EXPECT_EQ(bucket->Delete("k").code(), kWant);
  EXPECT_EQ(bucket->DeleteAll(keys).code(), kWant);
  EXPECT_EQ(bucket->List({}).status().code(), kWant);
  EXPECT_EQ(bucket->Copy("k", "l").status().code(), kWant);
  EXPECT_TRUE(server.requests().empty());
}

TEST_F(HttpBucketTest, StoresReadFromIt) {
  BucketStore store(bucket, "");
  EXPECT_EQ(store.Stat("k")->byte_count, 10u);
  EXPECT_EQ(store.Read("k")->view(), "0123456789");
  std::string a(3, '?'), b(2, '?');
  const RangeRead reads[] = {{"k", 1, a}, {"a b/%", 1, b}};
  ASSERT_TRUE(store.ReadBatch(reads).ok());
  EXPECT_EQ(a + b, "123dd");
  site.etag = "\"e2\"";
  EXPECT_EQ(store.Read("k").status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(store.Read("empty").status().code(), StatusCode::kOk);
}

TEST(HttpBucketUrlTest, OnlyWebUrlsOpen) {
  for (const char* url : {"", "s3://b", "ftp://h/x", "http://u:p@h/x", "/x"}) {
    const auto bucket = OpenHttpBucket(url, {});
    EXPECT_EQ(bucket.status().code(), StatusCode::kInvalidArgument) << url;
    EXPECT_THAT(bucket.status().ToString(), Not(HasSubstr(":p@")));
  }
}

}  // namespace
}  // namespace holdfast
