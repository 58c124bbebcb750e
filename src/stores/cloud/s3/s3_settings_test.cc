#include "stores/cloud/s3/s3_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "stores/cloud/s3/s3_error.h"

namespace holdfast {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class S3SettingsTest : public testing::Test {
 protected:
  Result<S3Settings> Make(const std::string& bucket) {
    AwsConfig config;
    config.profile = "default";
    config.environment = [this](const std::string& name) {
      const auto at = variables_.find(name);
      return at == variables_.end() ? std::string() : at->second;
    };
    config.config = config_;
    return MakeS3Settings(bucket, options_, config);
  }
  // Returns the URL of the bucket's objects.
  std::string UrlOf(const std::string& bucket) {
    const auto settings = Make(bucket);
    return settings.ok() ? BucketUrl(*settings, settings->region)
                         : settings.status().ToString();
  }

  std::map<std::string, std::string> variables_;
  RemoteOptions options_;
  IniFile config_;
};

TEST_F(S3SettingsTest, AmazonsHosts) {
  EXPECT_EQ(UrlOf("my-bucket"), "https://my-bucket.s3.us-east-1.amazonaws.com");
  options_.region = "eu-west-1";
  EXPECT_EQ(UrlOf("my-bucket"), "https://my-bucket.s3.eu-west-1.amazonaws.com");
  // A wildcard certificate does not cover a bucket name with a dot.
  EXPECT_EQ(UrlOf("my.bucket"), "https://s3.eu-west-1.amazonaws.com/my.bucket");
  EXPECT_EQ(UrlOf("My_Bucket"), "https://s3.eu-west-1.amazonaws.com/My_Bucket");
  options_.region = "cn-north-1";
  EXPECT_EQ(UrlOf("abc"), "https://abc.s3.cn-north-1.amazonaws.com.cn");
  options_.region = "us-gov-west-1";
  variables_["AWS_USE_FIPS_ENDPOINT"] = "true";
  variables_["AWS_USE_DUALSTACK_ENDPOINT"] = "true";
  EXPECT_EQ(UrlOf("abc"),
            "https://abc.s3-fips.dualstack.us-gov-west-1.amazonaws.com");
}

TEST_F(S3SettingsTest, OtherEndpointsAreAddressedByPath) {
  variables_["AWS_ENDPOINT_URL"] = "http://LocalHost:9000/";
  EXPECT_THAT(UrlOf("abc"), testing::EndsWith(":9000/abc"));
  variables_["AWS_ENDPOINT_URL_S3"] = "https://s3.example:443/prefix//";
  EXPECT_EQ(UrlOf("abc"), "https://s3.example/prefix/abc");
  EXPECT_EQ(Make("abc")->endpoint_source, "AWS_ENDPOINT_URL_S3");
  options_.endpoint = "http://h:80";
  EXPECT_EQ(UrlOf("abc"), "http://h/abc");
  options_.style = RemoteOptions::Style::kVirtualHost;
  EXPECT_EQ(UrlOf("abc"), "http://abc.h");
  EXPECT_THAT(UrlOf("ABC"), HasSubstr("fits no host"));
}

TEST_F(S3SettingsTest, StylesMayBeChosen) {
  options_.style = RemoteOptions::Style::kPath;
  EXPECT_EQ(UrlOf("abc"), "https://s3.us-east-1.amazonaws.com/abc");
  options_.style = RemoteOptions::Style::kAuto;
  config_["default"]["s3.addressing_style"] = "path";
  EXPECT_EQ(UrlOf("abc"), "https://s3.us-east-1.amazonaws.com/abc");
  options_.endpoint = "http://h:1";
  config_["default"]["s3.addressing_style"] = "virtual";
  EXPECT_EQ(UrlOf("abc"), "http://abc.h:1");
}

TEST_F(S3SettingsTest, WhatCannotBeIsRefused) {
  for (const char* bucket : {"", "ab", "a/b", "a b", "a..b", "a%62"}) {
    EXPECT_EQ(Make(bucket).status().code(), StatusCode::kInvalidArgument)
        << bucket;
  }
  EXPECT_EQ(Make("b--usw2-az1--x-s3").status().code(),
            StatusCode::kUnimplemented);
  EXPECT_EQ(Make("arn:aws:s3:::x").status().code(), StatusCode::kUnimplemented);
  options_.region = "eu west/1";
  EXPECT_EQ(Make("abc").status().code(), StatusCode::kInvalidArgument);
  options_.region = "";
  for (const char* endpoint : {"localhost:9000", "ftp://h", "http://",
                               "http://u:hush@h", "http://h?q"}) {
    options_.endpoint = endpoint;
    const Status status = Make("abc").status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << endpoint;
    EXPECT_THAT(status.ToString(),
                AllOf(HasSubstr("option endpoint"), Not(HasSubstr("hush"))));
  }
}

AwsCredentials SomeCredentials() {
  return {{"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI", "FwoGZXIvYXdzEBYa"},
          0,
          "environment (AWS_ACCESS_KEY_ID)"};
}

Status FailureOf(int status, const S3Error& error) {
  const AwsCredentials credentials = SomeCredentials();
  return S3Failure({"reading", "s3://b/k", &credentials, "https://e", "r1"},
                   status, error);
}

TEST(S3ErrorTest, CodesSayWhatToDo) {
  const struct {
    int status;
    const char* code;
    StatusCode want;
    const char* words;
  } cases[] = {
      {404, "NoSuchKey", StatusCode::kNotFound, "no such object"},
      {404, "NoSuchBucket", StatusCode::kNotFound, "endpoint https://e"},
      {403, "AccessDenied", StatusCode::kPermissionDenied, "key …MPLE"},
      {400, "ExpiredToken", StatusCode::kPermissionDenied, "get new"},
      {403, "InvalidAccessKeyId", StatusCode::kPermissionDenied,
       "does not know"},
      {403, "SignatureDoesNotMatch", StatusCode::kPermissionDenied,
       "secret key"},
      {403, "RequestTimeTooSkewed", StatusCode::kPermissionDenied, "clock"},
      {503, "SlowDown", StatusCode::kUnavailable, "fewer requests"},
      {412, "PreconditionFailed", StatusCode::kFailedPrecondition, "412"},
      {409, "ConditionalRequestConflict", StatusCode::kFailedPrecondition,
       "intervened"},
      {403, "InvalidObjectState", StatusCode::kFailedPrecondition, "archived"},
      {416, "InvalidRange", StatusCode::kOutOfRange, "end"},
      {403, "KMS.DisabledException", StatusCode::kPermissionDenied, "encrypts"},
      {200, "InternalError", StatusCode::kUnavailable, "status 200"},
      {200, "Unheard", StatusCode::kUnavailable, "Unheard"},
      {403, "", StatusCode::kPermissionDenied, "refuses"},
      {404, "", StatusCode::kNotFound, "no such"},
      {400, "Unheard", StatusCode::kInvalidArgument, "Unheard"},
      {500, "", StatusCode::kUnavailable, "later"},
      {507, "", StatusCode::kResourceExhausted, "full"},
      {301, "PermanentRedirect", StatusCode::kFailedPrecondition, "AWS_REGION"},
      {299, "", StatusCode::kDataLoss, "299"},
  };
  for (const auto& one : cases) {
    const Status got = FailureOf(one.status, {.code = one.code});
    EXPECT_EQ(got.code(), one.want) << got.ToString();
    EXPECT_THAT(got.ToString(), HasSubstr(one.words));
    EXPECT_THAT(got.ToString(), HasSubstr("s3://b/k: reading: "));
  }
}

TEST(S3ErrorTest, WordsOfTheServerAreCleanedAndCut) {
  const Status got = FailureOf(400, {.code = "X\nY",
                                     .message = std::string(2000, 'm') + "end",
                                     .request_id = "id-1"});
  EXPECT_THAT(got.ToString(), AllOf(HasSubstr("X Y"), HasSubstr("id-1"),
                                    Not(HasSubstr("end"))));
}

TEST(S3ErrorTest, NoSecretComesBack) {
  const AwsCredentials credentials = SomeCredentials();
  for (const std::string& secret :
       {credentials.keys.access_key_id, credentials.keys.secret_access_key,
        credentials.keys.session_token}) {
    const std::string text = "you sent " + secret + "!";
    const Status got = FailureOf(
        403,
        {.code = text, .message = text, .request_id = text, .region = text});
    EXPECT_EQ(got.ToString().find(secret), std::string::npos) << got.ToString();
  }
}

}  // namespace
}  // namespace holdfast
