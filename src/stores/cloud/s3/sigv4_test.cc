#include "stores/cloud/s3/sigv4.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace holdfast {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

constexpr int64_t kSuiteSeconds = 1440938160;    // 20150830T123600Z
constexpr int64_t kS3GuideSeconds = 1369353600;  // 20130524T000000Z

std::string HexOf(const std::string& bytes) {
  std::string hex;
  for (const unsigned char c : bytes) {
    constexpr char kDigits[] = "0123456789abcdef";
    hex += kDigits[c >> 4];
    hex += kDigits[c & 15];
  }
  return hex;
}

std::string Header(const HttpRequest& request, std::string_view name) {
  return std::string(FindHeader(request.headers, name).value_or("none"));
}

// Returns the signature of a case in Amazon's published test suite, whose
// service is "service".
std::string SuiteSignature(const std::string& method, const std::string& query,
                           HttpHeaders headers = {}) {
  HttpRequest request;
  request.method = method;
  request.url = "https://example.amazonaws.com/" + query;
  request.headers = std::move(headers);
  SigningKeyCache cache;
  const AwsKeys keys{"AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"};
  EXPECT_TRUE(SignV4(keys, {"us-east-1", "service", kSuiteSeconds},
                     Sha256Hex(""), cache, request)
                  .ok());
  return Header(request, "authorization");
}

TEST(SigV4Test, AmazonsSuite) {
  EXPECT_EQ(SuiteSignature("GET", ""),
            "AWS4-HMAC-SHA256 "
            "Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request,"
            "SignedHeaders=host;x-amz-date,Signature="
            "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31");
  EXPECT_THAT(
      SuiteSignature("POST", ""),
      EndsWith(
          "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"));
  EXPECT_THAT(
      SuiteSignature("GET", "?Param2=value2&Param1=value1"),
      EndsWith(
          "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"));
}

// Makes the request of an example in S3's own guide.
HttpRequest GuideRequest(const std::string& method, const std::string& target,
                         HttpHeaders headers, std::string_view body) {
  HttpRequest request;
  request.method = method;
  request.url = "https://examplebucket.s3.amazonaws.com" + target;
  request.headers = std::move(headers);
  SigningKeyCache cache;
  const AwsKeys keys{"AKIAIOSFODNN7EXAMPLE",
                     "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"};
  EXPECT_TRUE(SignV4(keys, {"us-east-1", "s3", kS3GuideSeconds},
                     Sha256Hex(body), cache, request)
                  .ok());
  return request;
}

TEST(SigV4Test, ExamplesOfTheGuide) {
  const HttpRequest get =
      GuideRequest("GET", "/test.txt", {{"Range", "bytes=0-9"}}, "");
  EXPECT_THAT(
      Header(get, "Authorization"),
      EndsWith(
          "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,Signature="
          "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"));
  EXPECT_EQ(Header(get, "X-Amz-Date"), "20130524T000000Z");
  EXPECT_EQ(Header(get, "X-Amz-Security-Token"), "none");
  const HttpRequest put =
      GuideRequest("PUT", "/test%24file.text",
                   {{"Date", "Fri, 24 May 2013 00:00:00 GMT"},
                    {"x-amz-storage-class", "REDUCED_REDUNDANCY"}},
                   "Welcome to Amazon S3.");
  EXPECT_THAT(
      Header(put, "Authorization"),
      EndsWith(
          "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"));
  EXPECT_THAT(
      Header(GuideRequest("GET", "/?lifecycle", {}, ""), "Authorization"),
      EndsWith(
          "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"));
  EXPECT_THAT(
      Header(GuideRequest("GET", "/?prefix=J&max-keys=2", {}, ""),
             "Authorization"),
      EndsWith(
          "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"));
}

TEST(SigV4Test, KeysAreDerivedAndRemembered) {
  SigningKeyCache cache;
  const AwsKeys keys{"AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"};
  const SigningScope scope{"us-east-1", "iam", 0};
  const std::string key = cache.Get(keys, "20150830", scope);
  EXPECT_EQ(HexOf(key),
            "c4afb1cc5771d871763a393e44b703571b55cc28424d1a5e86da6ed3c154a4b9");
  EXPECT_EQ(cache.Get(keys, "20150830", scope), key);
  // Changing any input of the key gives another key.
  EXPECT_NE(cache.Get(keys, "20150831", scope), key);
  EXPECT_NE(cache.Get(keys, "20150830", {"us-east-2", "iam", 0}), key);
  EXPECT_NE(cache.Get(keys, "20150830", {"us-east-1", "s3", 0}), key);
  EXPECT_NE(cache.Get({"AKIDEXAMPLE", "other"}, "20150830", scope), key);
  EXPECT_EQ(cache.Get(keys, "20150830", scope), key);
}

TEST(SigV4Test, SigningAgainReplacesWhatWasThere) {
  HttpRequest request;
  request.url = "http://h:9000/b/k";
  SigningKeyCache cache;
  const AwsKeys keys{"AKID", "secret", "token"};
  const SigningScope first{"r", "s3", 1000}, second{"r", "s3", 2000};
  ASSERT_TRUE(SignV4(keys, first, "hash", cache, request).ok());
  const std::string once = Header(request, "authorization");
  EXPECT_EQ(Header(request, "x-amz-security-token"), "token");
  EXPECT_THAT(once,
              HasSubstr("SignedHeaders=host;x-amz-content-sha256;x-amz-date;"
                        "x-amz-security-token,"));
  EXPECT_EQ(once.find("secret,"), std::string::npos);
  ASSERT_TRUE(SignV4(keys, second, "hash", cache, request).ok());
  EXPECT_NE(Header(request, "authorization"), once);
  EXPECT_EQ(request.headers.size(), 4u);
  ASSERT_TRUE(SignV4(keys, first, "hash", cache, request).ok());
  EXPECT_EQ(Header(request, "authorization"), once);
}

TEST(SigV4Test, CanonicalRequestsAreOneForEqualRequests) {
  HttpRequest request;
  request.url = "https://host";
  std::string names;
  request.headers = {{"B", " x  y "},
                     {"a", "1"},
                     {"b", "2"},
                     {"User-Agent", "u"},
                     {"Expect", "e"}};
  const auto text = CanonicalRequest(request, "HASH", &names);
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(*text, "GET\n/\n\na:1\nb:x y,2\nhost:host\n\na;b;host\nHASH");
  EXPECT_EQ(names, "a;b;host");
  request.url = "https://host/a//../%20?b&a=2&a=1&&";
  EXPECT_THAT(*CanonicalRequest(request, "HASH", &names),
              HasSubstr("\n/a//../%20\na=1&a=2&b=\n"));
  request.url = "host/x";
  EXPECT_EQ(CanonicalRequest(request, "HASH", &names).status().code(),
            StatusCode::kInvalidArgument);
}

TEST(SigV4Test, HashesOfPiecesAreThoseOfTheWhole) {
  const std::string_view pieces[] = {"ab", "", "c"};
  EXPECT_EQ(Sha256Hex(pieces), Sha256Hex("abc"));
  EXPECT_EQ(Sha256Hex("abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(AmzDate(kSuiteSeconds), "20150830T123600Z");
}

}  // namespace
}  // namespace holdfast
