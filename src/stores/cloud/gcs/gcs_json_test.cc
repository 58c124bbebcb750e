#include "stores/cloud/gcs/gcs_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stores/cloud/gcs/gcs_batch.h"
#include "stores/cloud/gcs/gcs_error.h"
#include "stores/cloud/gcs/gcs_settings.h"
#include "stores/cloud/gcs/rs256.h"
#include "stores/cloud/gcs/token_source.h"

namespace holdfast {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(GcsJsonTest, ObjectsAndPages) {
  const auto page = ParseGcsListPage(R"({"kind":"storage#objects","items":[
      {"name":"a","size":"5","generation":"17","updated":
       "2024-05-06T07:08:09.123Z"},{"name":"b/é","size":6,"generation":18}],
      "prefixes":["z/","y/"],"nextPageToken":"t+"})");
  ASSERT_TRUE(page.ok()) << page.status().ToString();
  ASSERT_EQ(page->objects.size(), 2u);
  EXPECT_EQ(page->objects[0].key, "a");
  EXPECT_EQ(page->objects[0].byte_count, 5u);
  EXPECT_EQ(page->objects[0].version, "17");
  EXPECT_EQ(page->objects[0].modified_ns, 1'714'979'289'123'000'000);
  EXPECT_EQ(page->objects[1].byte_count, 6u);
  EXPECT_EQ(page->prefixes, (std::vector<std::string>{"y/", "z/"}));
  EXPECT_EQ(page->next_page_token, "t+");
  EXPECT_TRUE(ParseGcsListPage("{}")->objects.empty());
}

TEST(GcsJsonTest, WhatIsNoAnswerIsDataLoss) {
  for (const char* text :
       {"", "null", "[]", "{", R"({"items":{}})", R"({"items":[1]})",
        R"({"items":[{"name":"a","size":"-1","generation":"1"}]})",
        R"({"items":[{"name":"a","size":"1e3","generation":"1"}]})",
        R"({"items":[{"name":"","size":"1","generation":"1"}]})",
        R"({"items":[{"name":"a","size":"99999999999999999999",
            "generation":"1"}]})",
        R"({"prefixes":[1]})", R"({"prefixes":"a"})",
        R"({"items":[{"name":"b","size":"1","generation":"1"},
                     {"name":"a","size":"1","generation":"1"}]})"}) {
    EXPECT_EQ(ParseGcsListPage(text).status().code(), StatusCode::kDataLoss)
        << text;
  }
  EXPECT_FALSE(ParseGcsRewrite(R"({"done":false})").ok());
  EXPECT_FALSE(ParseGcsRewrite(R"({"done":true})").ok());
  EXPECT_EQ(ParseGcsRewrite(R"({"rewriteToken":"t"})")->token, "t");
}

TEST(GcsJsonTest, RefusalsInEveryForm) {
  GcsRefusal refusal = ParseGcsRefusal(
      R"({"error":{"code":404,"message":"No such object: b/o",
          "errors":[{"reason":"notFound"}]}})");
  EXPECT_EQ(refusal.reason, "notFound");
  EXPECT_EQ(refusal.message, "No such object: b/o");
  refusal = ParseGcsRefusal(
      R"({"error":"invalid_grant","error_description":"Bad\nRequest"})");
  EXPECT_EQ(refusal.reason, "invalid_grant");
  EXPECT_EQ(refusal.message, "Bad Request");
  EXPECT_EQ(ParseGcsRefusal("No such object: b/o").message,
            "No such object: b/o");
  EXPECT_EQ(ParseGcsRefusal(std::string(10'000, 'a')).message.size(), 400u);
  EXPECT_EQ(ParseGcsRefusal(R"({"error":{"errors":[1],"status":"X"}})").reason,
            "X");
}

TEST(GcsJsonTest, TokensAreTakenOutOfWhatServersSay) {
  const std::string clean = CleanServerText(
      "a ya29.abc-DEF_1 b Bearer xyz.1 c\x01 1//0abc upload_id=ABP-q,", 400);
  EXPECT_EQ(clean, "a (hidden) b (hidden) c  (hidden) (hidden),");
}

TEST(GcsErrorTest, SaysWhatToDo) {
  const GcsCallName call = {"write", "gs://b/k", "storage.objects.create",
                            "user from here"};
  const auto text = [&](int status, std::string_view reason) {
    return GcsError(call, status,
                    R"({"error":{"message":"m","errors":[{"reason":")" +
                        std::string(reason) + R"("}]}})");
  };
  EXPECT_EQ(text(403, "forbidden").ToString(),
            "PERMISSION_DENIED: write gs://b/k: the server says 403 "
            "forbidden: m; grant storage.objects.create (used: user from "
            "here)");
  EXPECT_EQ(text(403, "rateLimitExceeded").code(), StatusCode::kUnavailable);
  EXPECT_EQ(text(412, "conditionNotMet").code(),
            StatusCode::kFailedPrecondition);
  EXPECT_EQ(text(400, "UserProjectMissing").code(),
            StatusCode::kPermissionDenied);
  EXPECT_EQ(text(429, "").code(), StatusCode::kUnavailable);
  EXPECT_EQ(text(502, "").code(), StatusCode::kUnavailable);
  EXPECT_EQ(text(302, "").code(), StatusCode::kDataLoss);
}

TEST(GcsBatchTest, AnswersInAnyOrder) {
  const std::string body =
      "--x\r\nContent-Type: application/http\r\nContent-ID: <response-1>\r\n"
      "\r\nHTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}\r\n"
      "--x\r\ncontent-id: response-0\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n\r\n"
      "--x--\r\n";
  const auto answers =
      ParseGcsBatch("Multipart/Mixed; charset=a; boundary=\"x\"", body, 2);
  ASSERT_TRUE(answers.ok()) << answers.status().ToString();
  EXPECT_EQ((*answers)[0].status, 204);
  EXPECT_EQ((*answers)[1].status, 404);
  EXPECT_EQ((*answers)[1].body, "{}\r\n");
  // There is one answer too few, one too many, and one twice.
  EXPECT_FALSE(ParseGcsBatch("multipart/mixed; boundary=x", body, 3).ok());
  EXPECT_FALSE(ParseGcsBatch("multipart/mixed; boundary=x", body, 1).ok());
  std::string twice = body;
  twice.replace(twice.find("response-0"), 10, "response-1");
  EXPECT_FALSE(ParseGcsBatch("multipart/mixed; boundary=x", twice, 2).ok());
  EXPECT_FALSE(ParseGcsBatch("multipart/mixed", body, 2).ok());
  EXPECT_FALSE(ParseGcsBatch("text/html; boundary=x", body, 2).ok());
  for (size_t size = 0; size + 4 < body.size(); ++size) {
    EXPECT_FALSE(ParseGcsBatch("multipart/mixed; boundary=x",
                               std::string_view(body).substr(0, size), 2)
                     .ok())
        << size;
  }
}

TEST(GcsSettingsTest, EndpointsInTheirOrder) {
  const auto endpoint = [](RemoteOptions options,
                           std::map<std::string, std::string> values) {
    return ReadGcsSettings(options,
                           [values](const std::string& name) {
                             const auto found = values.find(name);
                             return found == values.end() ? std::string()
                                                          : found->second;
                           })
        ->endpoint;
  };
  EXPECT_EQ(endpoint({}, {}), "https://storage.googleapis.com");
  std::map<std::string, std::string> values = {
      {"GOOGLE_CLOUD_UNIVERSE_DOMAIN", "other.example"}};
  EXPECT_EQ(endpoint({}, values), "https://storage.other.example");
  values["TENSORSTORE_GCS_HTTP_URL"] = "http://t:1/";
  EXPECT_EQ(endpoint({}, values), "http://t:1");
  values["STORAGE_EMULATOR_HOST"] = "localhost:9000";
  EXPECT_EQ(endpoint({}, values), "http://localhost:9000");
  EXPECT_EQ(endpoint({.endpoint = "https://e"}, values), "https://e");
  const Environment none = [](const std::string&) { return ""; };
  for (const char* bad : {"ftp://a", "http://", "http://a?b=c"}) {
    EXPECT_FALSE(ReadGcsSettings({.endpoint = bad}, none).ok()) << bad;
  }
}

TEST(GcsSettingsTest, NamesAndKeys) {
  EXPECT_TRUE(CheckGcsBucketName("a-b_c.d0").ok());
  for (const char* bad : {"", "ab", "A-bucket", "a/b", "a b c"}) {
    EXPECT_FALSE(CheckGcsBucketName(bad).ok()) << bad;
  }
  EXPECT_TRUE(CheckGcsKey("a/é漢😀 ?#%").ok());
  for (const char* bad : {"\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80",
                          "\xe0\x80\x80", "a\xff", "\xe2\x82", "\r"}) {
    EXPECT_FALSE(CheckGcsKey(bad).ok());
  }
  EXPECT_TRUE(IsSafeForSecrets("https://a"));
  EXPECT_TRUE(IsSafeForSecrets("http://127.0.0.1:80/x"));
  EXPECT_FALSE(IsSafeForSecrets("http://127.evil.example@a/"));
  EXPECT_FALSE(IsSafeForSecrets("http://a"));
}

TEST(TokenAnswerTest, OnlyWhatFitsAHeaderIsAToken) {
  EXPECT_EQ(
      ParseTokenAnswer(R"({"access_token":"t","expires_in":5})", 7)->expires_ns,
      5'000'000'007);
  for (const char* text :
       {"", "[]", "{}", R"({"access_token":""})", R"({"access_token":1})",
        R"({"access_token":"a\r\nb: c"})"}) {
    EXPECT_FALSE(ParseTokenAnswer(text, 0).ok()) << text;
  }
  // A token lasts at most a week, whatever the server says.
  EXPECT_EQ(ParseTokenAnswer(
                R"({"access_token":"t","expires_in":18446744073709551615})", 0)
                ->expires_ns,
            7 * 24 * 3600 * int64_t{1'000'000'000});
  EXPECT_EQ(*ParseSubjectToken("tok\n", ""), "tok");
  EXPECT_FALSE(ParseSubjectToken("a b", "").ok());
  EXPECT_FALSE(ParseSubjectToken("{}", "id").ok());
}

}  // namespace
}  // namespace holdfast
