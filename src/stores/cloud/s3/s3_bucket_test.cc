#include "stores/cloud/s3/s3_bucket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "stores/cloud/s3/s3_bucket_parts.h"
#include "stores/cloud/s3/s3_upload.h"
#include "twins/http_test_server.h"

namespace holdfast {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr int64_t kClockSeconds = 1'767'323'045;  // 2026-01-02 03:04:05
constexpr char kServerDate[] = "Fri, 02 Jan 2026 03:04:05 GMT";
constexpr char kSecret[] = "a-very-secret-secret";
constexpr char kToken[] = "a-very-secret-token";

std::string HeaderOf(const TestRequest& request, std::string_view name) {
  return std::string(FindHeader(request.headers, name).value_or(""));
}

TestAnswer ErrorAnswer(int status, const std::string& code,
                       HttpHeaders headers = {}) {
  return {.status = status,
          .headers = std::move(headers),
          .body = "<Error><Code>" + code +
                  "</Code><Message>its words</Message>"
                  "<RequestId>R-1</RequestId></Error>"};
}

// Tests of a bucket "bkt" on a scripted server.
class S3BucketTest : public testing::Test {
 protected:
  void Serve(HttpTestServer::Handler handler) {
    server_ = std::make_unique<HttpTestServer>(std::move(handler));
    S3Settings settings;
    settings.bucket = "bkt";
    settings.endpoint = server_->Url("");
    settings.region = "r1";
    settings.requester_pays = requester_pays_;
    HttpOptions options;
    options.backoff_first = std::chrono::milliseconds(1);
    options.attempt_count_max = 3;
    const auto source = [this]() -> Result<AwsCredentials> {
      const int fetch = ++fetches_;
      if (is_anonymous_) return AwsCredentials{{}, 0, "none (anonymous)"};
      return AwsCredentials{
          {"AKIATEST", kSecret, kToken + std::to_string(fetch)}, 0, "test"};
    };
    bucket_ = MakeS3Bucket(std::make_shared<S3Connection>(
        settings, source, std::make_shared<HttpClient>(options),
        [] { return kClockSeconds * 1'000'000'000; }));
  }
  // Sends these answers in turn, and repeats the last one.
  void ServeInTurn(std::vector<TestAnswer> answers) {
    Serve([answers](const TestRequest& request) {
      const size_t last = answers.size() - 1;
      return answers[std::min<size_t>(request.index, last)];
    });
  }
  std::vector<TestRequest> Requests() const { return server_->requests(); }
  Result<GetResult> Read(GetRequest request) {
    return std::move(bucket_->Get({&request, 1}).front());
  }
  Result<std::string> PutOf(std::string_view text,
                            const Condition& condition = {}) {
    return bucket_->Put("k", {&text, 1}, condition);
  }

  bool is_anonymous_ = false;
  bool requester_pays_ = false;
  std::atomic<int> fetches_{0};
  std::unique_ptr<HttpTestServer> server_;
  std::shared_ptr<Bucket> bucket_;
};

TEST_F(S3BucketTest, RequestsAreAddressedAndSigned) {
  requester_pays_ = true;
  ServeInTurn({{.headers = {{"ETag", "\"e1\""}, {"Date", kServerDate}}}});
  const std::string_view pieces[] = {"ab", "c"};
  const auto version =
      bucket_->Put("a b/+=é//../%", pieces, Condition::Version("old"));
  ASSERT_TRUE(version.ok()) << version.status().ToString();
  EXPECT_EQ(*version, "e1");
  const TestRequest request = Requests().at(0);
  EXPECT_EQ(request.method, "PUT");
  EXPECT_EQ(request.target, "/bkt/a%20b/%2B%3D%C3%A9//../%25");
  EXPECT_EQ(request.body, "abc");
  EXPECT_EQ(HeaderOf(request, "If-Match"), "old");
  EXPECT_EQ(HeaderOf(request, "x-amz-date"), "20260102T030405Z");
  EXPECT_EQ(HeaderOf(request, "x-amz-security-token"),
            std::string(kToken) + "1");
  EXPECT_EQ(HeaderOf(request, "x-amz-content-sha256"), Sha256Hex("abc"));
  EXPECT_EQ(HeaderOf(request, "x-amz-request-payer"), "requester");
  EXPECT_THAT(HeaderOf(request, "authorization"),
              AllOf(StartsWith("AWS4-HMAC-SHA256 Credential=AKIATEST/20260102/"
                               "r1/s3/aws4_request,"),
                    HasSubstr("x-amz-request-payer")));
  EXPECT_EQ(bucket_->ServerTimeNs(), kClockSeconds * 1'000'000'000);
}

TEST_F(S3BucketTest, AnonymousRequestsAreNotSigned) {
  is_anonymous_ = true;
  ServeInTurn({{.headers = {{"ETag", "e"}}, .body = "x"}});
  ASSERT_TRUE(Read({.key = "k"}).ok());
  for (const char* name : {"authorization", "x-amz-date",
                           "x-amz-content-sha256", "x-amz-security-token"}) {
    EXPECT_EQ(HeaderOf(Requests().at(0), name), "") << name;
  }
  EXPECT_EQ(bucket_->Access()->credentials, "none (anonymous)");
}

TEST_F(S3BucketTest, RangesAreWhatWasAskedFor) {
  ServeInTurn({{.status = 206,
                .headers = {{"ETag", "\"e1\""},
                            {"Content-Range", "bytes 2-4/10"},
                            {"Last-Modified", kServerDate}},
                .body = "cde"}});
  char target[3];
  const auto got = Read(
      {.key = "k", .range = {2, 3}, .version = "e1", .target = {target, 3}});
  ASSERT_TRUE(got.ok()) << got.status().ToString();
  EXPECT_EQ(std::string(target, 3), "cde");
  EXPECT_TRUE(got->bytes.empty());
  EXPECT_EQ(got->object.byte_count, 10u);
  EXPECT_EQ(got->object.version, "e1");
  EXPECT_EQ(got->object.modified_ns, kClockSeconds * 1'000'000'000);
  EXPECT_EQ(HeaderOf(Requests().at(0), "Range"), "bytes=2-4");
  EXPECT_EQ(HeaderOf(Requests().at(0), "If-Match"), "e1");
}

TEST_F(S3BucketTest, AnswersThatWereNotAskedForAreDataLoss) {
  TestAnswer answer;
  Serve([&](const TestRequest&) { return answer; });
  const auto read = [&](TestAnswer next, ByteRange range,
                        const std::string& version = "") {
    answer = std::move(next);
    char target[3];
    return Read({.key = "k",
                 .range = range,
                 .version = version,
                 .target = {target, 3}})
        .status();
  };
  const HttpHeaders right = {{"ETag", "e"}, {"Content-Range", "bytes 2-4/10"}};
  EXPECT_TRUE(read({206, right, "cde"}, {2, 3}).ok());
  const Status ignored = read({200, {}, "0123456789"}, {2, 3});
  EXPECT_EQ(ignored.code(), StatusCode::kDataLoss);
  EXPECT_THAT(ignored.ToString(), HasSubstr("the server ignores ranges"));
  // An answer with exactly the wanted bytes is accepted, whatever its status.
  EXPECT_TRUE(read({200, {}, "abc"}, {0, 3}).ok());
  EXPECT_TRUE(read({200, right, "cde"}, {2, 3}).ok());
  for (const char* range : {"bytes 3-5/10", "bytes 2-5/10", "bytes 2-4/*",
                            "bytes 4-2/10", "items 2-4/10"}) {
    EXPECT_EQ(read({206, {{"Content-Range", range}}, "cde"}, {2, 3}).code(),
              StatusCode::kDataLoss)
        << range;
  }
  EXPECT_EQ(read({206, {}, "cde"}, {2, 3}).code(), StatusCode::kDataLoss);
  const Status other = read({206, right, "cde"}, {2, 3}, "wanted");
  EXPECT_EQ(other.code(), StatusCode::kDataLoss);
  EXPECT_THAT(other.ToString(), AllOf(HasSubstr("changed while it was read"),
                                      HasSubstr("version e, want wanted")));
  // Here the object ends within the range.
  EXPECT_EQ(
      read({206, {{"Content-Range", "bytes 2-3/4"}}, "cd"}, {2, 3}).code(),
      StatusCode::kOutOfRange);
}

TEST_F(S3BucketTest, VersionsAreComparedWhereIfMatchIsNotUnderstood) {
  Serve([](const TestRequest& request) {
    if (!HeaderOf(request, "If-Match").empty()) {
      return ErrorAnswer(412, "PreconditionFailed");
    }
    return TestAnswer{.headers = {{"ETag", "\"e1\""}}, .body = "x"};
  });
  EXPECT_TRUE(Read({.key = "k", .version = "e1"}).ok());
  EXPECT_EQ(Read({.key = "k", .version = "e2"}).status().code(),
            StatusCode::kDataLoss);
}

TEST_F(S3BucketTest, TheEndOfAnObjectIsLookedUp) {
  Serve([](const TestRequest& request) {
    if (request.method == "GET") return ErrorAnswer(416, "InvalidRange");
    return TestAnswer{.headers = {{"ETag", "e"}}, .claimed_bytes = 10};
  });
  const auto end = Read({.key = "k", .range = {10, kToEnd}});
  ASSERT_TRUE(end.ok()) << end.status().ToString();
  EXPECT_TRUE(end->bytes.empty());
  EXPECT_EQ(end->object.byte_count, 10u);
  EXPECT_EQ(Read({.key = "k", .range = {11, kToEnd}}).status().code(),
            StatusCode::kOutOfRange);
  EXPECT_EQ(Read({.key = "k", .range = {10, 1}}).status().code(),
            StatusCode::kOutOfRange);
  EXPECT_EQ(Read({.key = "k", .range = {3, kToEnd}}).status().code(),
            StatusCode::kDataLoss);
  EXPECT_TRUE(Read({.key = "k", .range = {4, 0}}).ok());
  EXPECT_EQ(Read({.key = "k", .range = {4, 0}, .version = "x"}).status().code(),
            StatusCode::kDataLoss);
}

TEST_F(S3BucketTest, MuchAtOnceIsRefused) {
  ServeInTurn(
      {{.body = "x", .claimed_bytes = int64_t{100} << 20, .cut_after = 1}});
  EXPECT_EQ(Read({.key = "k", .range = {0, 65 << 20}}).status().code(),
            StatusCode::kResourceExhausted);
  EXPECT_EQ(Requests().size(), 0u);
}

TEST_F(S3BucketTest, TheRegionIsLearnt) {
  Serve([](const TestRequest& request) {
    if (HeaderOf(request, "authorization").find("/eu-west-1/") ==
        std::string::npos) {
      return TestAnswer{.status = 400,
                        .headers = {{"x-amz-bucket-region", "eu-west-1"}}};
    }
    return TestAnswer{.headers = {{"ETag", "e"}}};
  });
  EXPECT_TRUE(bucket_->Head("k").ok());
  EXPECT_EQ(Requests().size(), 2u);
  EXPECT_TRUE(bucket_->Head("k").ok());
  EXPECT_EQ(Requests().size(), 3u);
  EXPECT_EQ(bucket_->Access()->region, "eu-west-1");
}

TEST_F(S3BucketTest, TheRegionIsLearntFromTheErrorToo) {
  Serve([](const TestRequest& request) {
    if (HeaderOf(request, "authorization").find("/eu-west-1/") ==
        std::string::npos) {
      return TestAnswer{.status = 400,
                        .body =
                            "<Error><Code>AuthorizationHeaderMalformed"
                            "</Code><Region>eu-west-1</Region></Error>"};
    }
    return TestAnswer{.headers = {{"ETag", "e"}}, .body = "x"};
  });
  EXPECT_TRUE(Read({.key = "k"}).ok());
}

TEST_F(S3BucketTest, ARegionThatDoesNotHelpIsAnError) {
  ServeInTurn({ErrorAnswer(301, "PermanentRedirect",
                           {{"x-amz-bucket-region", "eu-west-1"}})});
  const auto got = Read({.key = "k"});
  EXPECT_EQ(got.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(got.status().ToString(), HasSubstr("set its region"));
  EXPECT_EQ(Requests().size(), 2u);
}

TEST_F(S3BucketTest, TheClockIsLearnt) {
  static constexpr char kLater[] = "Fri, 02 Jan 2026 05:04:05 GMT";
  Serve([](const TestRequest& request) {
    if (HeaderOf(request, "x-amz-date") != "20260102T050405Z") {
      return ErrorAnswer(403, "RequestTimeTooSkewed", {{"Date", kLater}});
    }
    return TestAnswer{.headers = {{"Date", kLater}, {"ETag", "e"}}};
  });
  EXPECT_TRUE(Read({.key = "k"}).ok());
  EXPECT_EQ(Requests().size(), 2u);
  EXPECT_TRUE(Read({.key = "k"}).ok());
  EXPECT_EQ(Requests().size(), 3u);
}

TEST_F(S3BucketTest, ExpiredTokensAreRenewedOnce) {
  Serve([](const TestRequest& request) {
    if (HeaderOf(request, "x-amz-security-token") !=
        std::string(kToken) + "2") {
      return ErrorAnswer(400, "ExpiredToken");
    }
    return TestAnswer{.headers = {{"ETag", "e"}}};
  });
  EXPECT_TRUE(Read({.key = "k"}).ok());
  EXPECT_EQ(fetches_, 2);
}

TEST_F(S3BucketTest, TokensThatStayExpiredAreAnErrorWithoutThem) {
  Serve([](const TestRequest& request) {
    // This server repeats what it was sent.
    return TestAnswer{.status = 400,
                      .body = "<Error><Code>ExpiredToken</Code><Message>" +
                              HeaderOf(request, "x-amz-security-token") + " " +
                              kSecret + "</Message></Error>"};
  });
  for (const Status& status :
       {Read({.key = "k"}).status(), PutOf("x").status(),
        bucket_->List({}).status(), bucket_->Head("k").status(),
        bucket_->Delete("k"), bucket_->StartUpload("k").status(),
        bucket_->Copy("a", "b").status(), bucket_->ListUploads("").status()}) {
    EXPECT_EQ(status.code(), StatusCode::kPermissionDenied);
    EXPECT_THAT(status.ToString(),
                AllOf(HasSubstr("has expired"), Not(HasSubstr(kToken)),
                      Not(HasSubstr(kSecret)), Not(HasSubstr("AKIATEST"))));
  }
}

TEST_F(S3BucketTest, HeadsThatAreRefusedAskWhy) {
  Serve([](const TestRequest& request) {
    if (request.method == "HEAD") return TestAnswer{.status = 403};
    return ErrorAnswer(403, "InvalidAccessKeyId");
  });
  const auto entry = bucket_->Head("k");
  EXPECT_EQ(entry.status().code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(entry.status().ToString(),
              AllOf(HasSubstr("InvalidAccessKeyId"), HasSubstr("R-1")));
}

TEST_F(S3BucketTest, ConditionsThatDoNotHold) {
  TestAnswer answer;
  Serve([&](const TestRequest&) { return answer; });
  const auto code_of = [&](TestAnswer next, const Condition& condition) {
    answer = std::move(next);
    return PutOf("x", condition).status().code();
  };
  constexpr StatusCode kRefused = StatusCode::kFailedPrecondition;
  const Condition absent = Condition::Absent();
  const Condition version = Condition::Version("v");
  const TestAnswer failed = ErrorAnswer(412, "PreconditionFailed");
  EXPECT_EQ(code_of(failed, absent), kRefused);
  EXPECT_EQ(code_of(failed, version), kRefused);
  EXPECT_EQ(code_of(ErrorAnswer(404, "NoSuchKey"), version), kRefused);
  EXPECT_EQ(code_of(ErrorAnswer(404, "NoSuchBucket"), version),
            StatusCode::kNotFound);
  EXPECT_EQ(code_of(ErrorAnswer(404, "NoSuchBucket"), absent),
            StatusCode::kNotFound);
  EXPECT_EQ(code_of(ErrorAnswer(409, "ConditionalRequestConflict"), absent),
            kRefused);
  EXPECT_EQ(code_of(ErrorAnswer(507, ""), absent),
            StatusCode::kResourceExhausted);
}

// A server that performs a write, but whose first answer is lost.
struct LosesAnAnswer {
  std::mutex mutex;
  std::string write_id;  // the existing object's

  TestAnswer operator()(const TestRequest& request) {
    const std::lock_guard lock(mutex);
    const HttpHeaders is_there = {{"ETag", "\"mine\""},
                                  {"x-amz-meta-holdfast-write", write_id}};
    if (request.method == "HEAD") {
      return write_id.empty() ? TestAnswer{.status = 404}
                              : TestAnswer{.headers = is_there};
    }
    if (!write_id.empty()) return ErrorAnswer(412, "PreconditionFailed");
    write_id = HeaderOf(request, "x-amz-meta-holdfast-write");
    return {.silent = true};
  }
};

TEST_F(S3BucketTest, AWriteWhoseAnswerWasLostIsFoundAgain) {
  LosesAnAnswer state;
  Serve([&](const TestRequest& request) { return state(request); });
  const auto version = PutOf("x", Condition::Absent());
  ASSERT_TRUE(version.ok()) << version.status().ToString();
  EXPECT_EQ(*version, "mine");
  // The same bytes from another client are not ours.
  EXPECT_EQ(PutOf("x", Condition::Absent()).status().code(),
            StatusCode::kFailedPrecondition);
}

TEST_F(S3BucketTest, ARivalWhoWonWhileAnAnswerWasLostIsARival) {
  LosesAnAnswer state;
  state.write_id = "rival";
  Serve([&](const TestRequest& request) {
    if (request.index == 0) return TestAnswer{.silent = true};
    return state(request);
  });
  EXPECT_EQ(PutOf("x", Condition::Absent()).status().code(),
            StatusCode::kFailedPrecondition);
}

TEST_F(S3BucketTest, DeletesInBatches) {
  Serve([](const TestRequest& request) {
    if (request.method == "DELETE") return TestAnswer{.status = 204};
    const bool is_second = request.body.find("k1000<") != std::string::npos;
    return TestAnswer{.body = "<DeleteResult>" +
                              std::string(is_second
                                              ? "<Error><Key>k1000</Key><Code>"
                                                "InternalError</Code></Error>"
                                              : "") +
                              "</DeleteResult>"};
  });
  std::vector<std::string> keys;
  for (int i = 0; i < 1500; ++i) keys.push_back("k" + std::to_string(i));
  keys.push_back("control\x01");
  EXPECT_TRUE(bucket_->DeleteAll(keys).ok());
  std::vector<std::string> singles;
  int batch_count = 0;
  for (const TestRequest& request : Requests()) {
    if (request.method == "DELETE") {
      singles.push_back(request.target);
      continue;
    }
    ++batch_count;
    EXPECT_EQ(request.target, "/bkt/?delete=");
    EXPECT_EQ(HeaderOf(request, "Content-MD5").size(), 24u);
  }
  EXPECT_EQ(batch_count, 2);
  EXPECT_THAT(singles,
              testing::UnorderedElementsAre("/bkt/k1000", "/bkt/control%01"));
}

TEST_F(S3BucketTest, DeletesSinglyWhereThereAreNoBatches) {
  Serve([](const TestRequest& request) {
    if (request.method == "POST") return ErrorAnswer(501, "NotImplemented");
    if (request.target == "/bkt/bad") return ErrorAnswer(403, "AccessDenied");
    return TestAnswer{.status = request.target == "/bkt/gone" ? 404 : 204};
  });
  const std::string keys[] = {"a", "gone"};
  EXPECT_TRUE(bucket_->DeleteAll(keys).ok());
  const std::string more[] = {"bad", "c"};
  const Status status = bucket_->DeleteAll(more);
  EXPECT_EQ(status.code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(status.ToString(), HasSubstr("s3://bkt/bad"));
  std::vector<std::string> targets;
  for (const TestRequest& request : Requests()) {
    targets.push_back(request.method + request.target);
  }
  EXPECT_THAT(targets,
              testing::UnorderedElementsAre("POST/bkt/?delete=", "DELETE/bkt/a",
                                            "DELETE/bkt/gone", "DELETE/bkt/bad",
                                            "DELETE/bkt/c"));
}

TEST_F(S3BucketTest, ListsAsAsked) {
  ServeInTurn({{.body = "<ListBucketResult><IsTruncated>true</IsTruncated>"
                        "<NextContinuationToken>t/1</NextContinuationToken>"
                        "</ListBucketResult>"}});
  const auto page = bucket_->List({.prefix = "p/",
                                   .delimiter = "/",
                                   .start_after = "p/x",
                                   .entry_count_max = 7});
  ASSERT_TRUE(page.ok()) << page.status().ToString();
  EXPECT_EQ(page->next_page_token, "t/1");
  EXPECT_EQ(Requests().at(0).target,
            "/bkt/?list-type=2&encoding-type=url&prefix=p%2F&delimiter=%2F&"
            "max-keys=7&start-after=p%2Fx");
  // Without this error, repeating the same page would never end.
  EXPECT_EQ(bucket_->List({.page_token = "t/1"}).status().code(),
            StatusCode::kDataLoss);
  EXPECT_THAT(Requests().at(1).target, EndsWith("continuation-token=t%2F1"));
}

// Tests a server that checks the source's version, and one that does not.
TEST_F(S3BucketTest, CopiesAreOfTheWantedVersion) {
  for (const bool looks : {true, false}) {
    for (const bool is_changed : {false, true}) {
      Serve([=](const TestRequest& request) {
        if (request.method == "HEAD") {
          return TestAnswer{
              .headers = {{"ETag", is_changed ? "\"v2\"" : "\"v1\""}}};
        }
        EXPECT_EQ(HeaderOf(request, "x-amz-copy-source-if-match"), "v1");
        if (looks && is_changed) return ErrorAnswer(412, "PreconditionFailed");
        return TestAnswer{.body =
                              "<CopyObjectResult><ETag>\"new\"</ETag>"
                              "</CopyObjectResult>"};
      });
      const auto version = bucket_->Copy("a", "b", {}, "v1");
      EXPECT_EQ(version.status().code(),
                is_changed ? StatusCode::kDataLoss : StatusCode::kOk)
          << version.status().ToString();
    }
  }
}

TEST_F(S3BucketTest, ErrorsWithStatus200AreErrors) {
  ServeInTurn({ErrorAnswer(200, "AccessDenied")});
  EXPECT_EQ(bucket_->Copy("a", "b").status().code(),
            StatusCode::kPermissionDenied);
  EXPECT_EQ(bucket_->List({}).status().code(), StatusCode::kPermissionDenied);
  const std::string keys[] = {"a"};
  EXPECT_EQ(bucket_->DeleteAll(keys).code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(bucket_->StartUpload("k").status().code(),
            StatusCode::kPermissionDenied);
}

// Tests of uploads to a server that records its requests.
class S3UploadTest : public S3BucketTest {
 protected:
  // `complete` answers the last request of an upload.
  void ServeUploads(HttpTestServer::Handler complete) {
    Serve([complete](const TestRequest& request) {
      const std::string& target = request.target;
      if (target.ends_with("?uploads=")) {
        return TestAnswer{.body =
                              "<InitiateMultipartUploadResult>"
                              "<UploadId>u/1</UploadId>"
                              "</InitiateMultipartUploadResult>"};
      }
      const size_t part = target.find("?partNumber=");
      if (part != std::string::npos) {
        const std::string number =
            target.substr(part + 12, target.find('&') - part - 12);
        const std::string etag = "\"e" + number + "\"";
        if (HeaderOf(request, "x-amz-copy-source").empty()) {
          return TestAnswer{.headers = {{"ETag", etag}}};
        }
        return TestAnswer{.body = "<CopyPartResult><ETag>" + etag +
                                  "</ETag></CopyPartResult>"};
      }
      if (request.method == "DELETE") return TestAnswer{.status = 204};
      return complete(request);
    });
  }
  std::unique_ptr<Upload> StartWithParts(uint64_t part_count) {
    auto upload = bucket_->StartUpload("k");
    EXPECT_TRUE(upload.ok()) << upload.status().ToString();
    const std::string_view text = "part";
    for (uint64_t i = part_count; i-- > 0;) {  // in any order
      EXPECT_TRUE((*upload)->Part(i, {&text, 1}, i + 1 == part_count).ok());
    }
    return std::move(*upload);
  }
  static TestAnswer Completed() {
    return {.body =
                "<CompleteMultipartUploadResult><ETag>\"done-3\"</ETag>"
                "</CompleteMultipartUploadResult>"};
  }
};

TEST_F(S3UploadTest, EveryPartIsListedInOrder) {
  ServeUploads([](const TestRequest&) { return Completed(); });
  auto upload = StartWithParts(3);
  const auto version = upload->Finish({});
  ASSERT_TRUE(version.ok()) << version.status().ToString();
  EXPECT_EQ(*version, "done-3");
  const TestRequest last = Requests().back();
  EXPECT_EQ(last.target, "/bkt/k?uploadId=u%2F1");
  size_t at = 0;
  for (const char* part : {"<PartNumber>1</PartNumber><ETag>&quot;e1&quot;",
                           "<PartNumber>2</PartNumber><ETag>&quot;e2&quot;",
                           "<PartNumber>3</PartNumber><ETag>&quot;e3&quot;"}) {
    at = last.body.find(part, at);
    EXPECT_NE(at, std::string::npos) << part;
  }
  const size_t request_count = Requests().size();
  upload.reset();  // finished, so there is nothing to abort
  EXPECT_EQ(Requests().size(), request_count);
}

TEST_F(S3UploadTest, AMissingPartIsNotPassedOver) {
  ServeUploads([](const TestRequest&) { return Completed(); });
  auto upload = bucket_->StartUpload("k");
  const std::string_view text = "part";
  ASSERT_TRUE((*upload)->Part(1, {&text, 1}, true).ok());
  EXPECT_EQ((*upload)->Finish({}).status().code(),
            StatusCode::kFailedPrecondition);
  upload->reset();
  EXPECT_EQ(Requests().back().method, "DELETE");
}

TEST_F(S3UploadTest, PassingErrorsWithStatus200AreTriedAgain) {
  std::atomic<int> tries{0};
  ServeUploads([&](const TestRequest&) {
    return ++tries < 3 ? ErrorAnswer(200, "InternalError") : Completed();
  });
  EXPECT_TRUE(StartWithParts(1)->Finish({}).ok());
  EXPECT_EQ(tries, 3);
}

TEST_F(S3UploadTest, OtherErrorsWithStatus200AreNot) {
  ServeUploads(
      [](const TestRequest&) { return ErrorAnswer(200, "InvalidPart"); });
  const auto version = StartWithParts(1)->Finish({});
  EXPECT_FALSE(version.ok());
  EXPECT_THAT(version.status().ToString(), HasSubstr("InvalidPart"));
}

TEST_F(S3UploadTest, ALostAnswerToTheEndIsFoundAgain) {
  std::atomic<int> tries{0};
  std::string write_id;
  ServeUploads([&](const TestRequest& request) {
    if (request.method == "HEAD") {
      return TestAnswer{.headers = {{"ETag", "\"done-1\""},
                                    {"x-amz-meta-holdfast-write", write_id}}};
    }
    if (++tries == 1) return TestAnswer{.silent = true};
    return ErrorAnswer(404, "NoSuchUpload");
  });
  auto upload = StartWithParts(1);
  write_id = HeaderOf(Requests().at(0), "x-amz-meta-holdfast-write");
  EXPECT_EQ(write_id.size(), 32u);
  const auto version = upload->Finish({});
  ASSERT_TRUE(version.ok()) << version.status().ToString();
  EXPECT_EQ(*version, "done-1");
}

TEST_F(S3UploadTest, AnAbortedUploadIsNoSuccess) {
  ServeUploads([&](const TestRequest& request) {
    if (request.method == "HEAD") {
      return TestAnswer{.headers = {{"ETag", "\"other\""}}};
    }
    return ErrorAnswer(404, "NoSuchUpload");
  });
  const auto version = StartWithParts(1)->Finish({});
  EXPECT_EQ(version.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(version.status().ToString(), HasSubstr("aborted"));
}

TEST_F(S3UploadTest, ConditionsAreLookedAtAndSent) {
  std::atomic<bool> is_there{false};
  std::atomic<bool> is_too_late{false};
  ServeUploads([&](const TestRequest& request) {
    if (request.method == "HEAD") {
      return is_there ? TestAnswer{.headers = {{"ETag", "e"}}}
                      : TestAnswer{.status = 404};
    }
    EXPECT_EQ(HeaderOf(request, "If-None-Match"), "*");
    return is_too_late ? ErrorAnswer(412, "PreconditionFailed") : Completed();
  });
  EXPECT_FALSE(bucket_->traits().upload_conditions);
  EXPECT_TRUE(StartWithParts(1)->Finish(Condition::Absent()).ok());
  is_too_late = true;
  EXPECT_EQ(StartWithParts(1)->Finish(Condition::Absent()).status().code(),
            StatusCode::kFailedPrecondition);
  is_there = true;
  EXPECT_EQ(StartWithParts(1)->Finish(Condition::Absent()).status().code(),
            StatusCode::kFailedPrecondition);
}

TEST_F(S3UploadTest, WhatIsTooLargeToCopyIsCopiedInParts) {
  static constexpr uint64_t kObjectBytes = (uint64_t{6} << 30) + 5;
  ServeUploads([](const TestRequest& request) {
    if (request.method == "HEAD") {
      return TestAnswer{.headers = {{"ETag", "\"src\""}},
                        .claimed_bytes = kObjectBytes};
    }
    if (request.method == "PUT") return ErrorAnswer(400, "InvalidRequest");
    return Completed();
  });
  const auto version = bucket_->Copy("a b", "k");
  ASSERT_TRUE(version.ok()) << version.status().ToString();
  std::vector<std::string> ranges;
  for (const TestRequest& request : Requests()) {
    const std::string range = HeaderOf(request, "x-amz-copy-source-range");
    if (range.empty()) continue;
    ranges.push_back(range);
    EXPECT_EQ(HeaderOf(request, "x-amz-copy-source"), "/bkt/a%20b");
    EXPECT_EQ(HeaderOf(request, "x-amz-copy-source-if-match"), "src");
  }
  ASSERT_EQ(ranges.size(), 7u);
  std::sort(ranges.begin(), ranges.end());
  EXPECT_EQ(ranges[0], "bytes=0-1073741823");
  EXPECT_EQ(ranges[6], "bytes=6442450944-6442450948");
}

TEST(S3PartBytesTest, TenThousandPartsHoldFiveTebibytes) {
  uint64_t sum_bytes = 0, previous_bytes = 0;
  for (uint64_t i = 0; i < kS3PartCountMax; ++i) {
    const uint64_t part_bytes = S3PartBytes(i);
    EXPECT_GE(part_bytes, uint64_t{5} << 20);
    EXPECT_LE(part_bytes, uint64_t{5} << 30);
    EXPECT_GE(part_bytes, previous_bytes);
    sum_bytes += part_bytes;
    previous_bytes = part_bytes;
  }
  // The largest object that S3 takes.
  EXPECT_GE(sum_bytes, uint64_t{5} << 40);
  EXPECT_EQ(S3PartBytes(0), S3PartBytes(999));
}

TEST(OpenS3BucketTest, NothingIsAskedBeforeTheFirstRequest) {
  RemoteOptions options;
  options.anonymous = true;
  options.endpoint = "http://127.0.0.1:1";
  const auto bucket = OpenS3Bucket("bkt", options);
  ASSERT_TRUE(bucket.ok()) << bucket.status().ToString();
  EXPECT_EQ((*bucket)->UrlOf("a/b"), "s3://bkt/a/b");
  EXPECT_EQ((*bucket)->ServerTimeNs(), 0);
  EXPECT_EQ(OpenS3Bucket("b", options).status().code(),
            StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace holdfast
