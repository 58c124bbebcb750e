#include "stores/cloud/s3/s3_xml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace holdfast {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kJan2NsOf2026 = 1767323045LL * 1'000'000'000;

TEST(S3XmlTest, ListPages) {
  const auto page = ParseListPage(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
      "<Name>b</Name><EncodingType>url</EncodingType>"
      "<IsTruncated>true</IsTruncated>"
      "<NextContinuationToken>1/t+==</NextContinuationToken>"
      "<Contents><Key>a%2Fz+%2B%C3%A9%</Key><Size>12</Size>"
      "<LastModified>2026-01-02T03:04:05.250Z</LastModified>"
      "<ETag>&quot;abc-2&quot;</ETag></Contents>"
      "<Contents><Key>a%2Fa</Key><Size>0</Size></Contents>"
      "<CommonPrefixes><Prefix>q%2F</Prefix></CommonPrefixes>"
      "<CommonPrefixes><Prefix>b%2F</Prefix></CommonPrefixes>"
      "</ListBucketResult>");
  ASSERT_TRUE(page.ok()) << page.status().ToString();
  ASSERT_EQ(page->objects.size(), 2u);
  EXPECT_EQ(page->objects[0].key, "a/a");
  EXPECT_EQ(page->objects[1].key, "a/z +é%");
  EXPECT_EQ(page->objects[1].byte_count, 12u);
  EXPECT_EQ(page->objects[1].version, "abc-2");
  EXPECT_EQ(page->objects[1].modified_ns, kJan2NsOf2026 + 250'000'000);
  EXPECT_THAT(page->prefixes, ElementsAre("b/", "q/"));
  EXPECT_EQ(page->next_page_token, "1/t+==");
}

TEST(S3XmlTest, KeysThatAreNotEscapedStayAsTheyAre) {
  const auto page = ParseListPage(
      "<ListBucketResult><Contents><Key> a%2F+&lt;&#233; </Key><Size>1</Size>"
      "</Contents><IsTruncated>false</IsTruncated></ListBucketResult>");
  ASSERT_TRUE(page.ok()) << page.status().ToString();
  EXPECT_EQ(page->objects[0].key, " a%2F+<é ");
  EXPECT_EQ(page->next_page_token, "");
  const auto space = ParseListPage(
      "<ListBucketResult><Contents><Key> </Key><Size>1</Size></Contents>"
      "</ListBucketResult>");
  ASSERT_TRUE(space.ok()) << space.status().ToString();
  EXPECT_EQ(space->objects[0].key, " ");
}

TEST(S3XmlTest, WhatIsNoListingIsDataLoss) {
  const char* const texts[] = {
      "",
      "no xml",
      "<ListBucketResult>",
      "<Other/>",
      "<ListBucketResult><Contents><Size>1</Size></Contents>"
      "</ListBucketResult>",
      "<ListBucketResult><Contents><Key>a</Key><Size>-1</Size></Contents>"
      "</ListBucketResult>",
      "<ListBucketResult><Contents><Key>a</Key><Size>1x</Size></Contents>"
      "</ListBucketResult>",
      "<ListBucketResult><Contents><Key>a</Key><Size>18446744073709551616"
      "</Size></Contents></ListBucketResult>",
      "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>"};
  for (const char* text : texts) {
    const auto page = ParseListPage(text);
    ASSERT_FALSE(page.ok()) << text;
    EXPECT_EQ(page.status().code(), StatusCode::kDataLoss) << text;
  }
}

TEST(S3XmlTest, HostileDocumentsEndInTime) {
  std::string deep = "<ListBucketResult>";
  for (int i = 0; i < 300'000; ++i) deep += "<a>";
  EXPECT_FALSE(ParseListPage(deep).ok());
  for (int i = 0; i < 300'000; ++i) deep += "</a>";
  deep += "</ListBucketResult>";
  EXPECT_TRUE(ParseListPage(deep).ok());
  // Entities are not expanded.
  std::string bomb = "<!DOCTYPE b [<!ENTITY a \"aaaaaaaaaa\">";
  for (char c = 'b'; c <= 'k'; ++c) {
    bomb += std::string("<!ENTITY ") + c + " \"";
    for (int i = 0; i < 10; ++i) bomb += std::string("&") + char(c - 1) + ";";
    bomb += "\">";
  }
  bomb +=
      "]><ListBucketResult><Contents><Key>&k;</Key><Size>1</Size></Contents>"
      "</ListBucketResult>";
  const auto page = ParseListPage(bomb);
  if (page.ok()) {
    EXPECT_EQ(page->objects[0].key, "&k;");
  }
  EXPECT_FALSE(ParseListPage(std::string(1 << 20, '<')).ok());
}

TEST(S3XmlTest, Errors) {
  const S3Error error = ParseS3Error(
      "<?xml version=\"1.0\"?><Error><Code>AuthorizationHeaderMalformed</Code>"
      "<Message>wrong &lt;region&gt;</Message><Region>eu-west-1</Region>"
      "<RequestId>R1</RequestId><Endpoint>e</Endpoint></Error>");
  EXPECT_EQ(error.code, "AuthorizationHeaderMalformed");
  EXPECT_EQ(error.message, "wrong <region>");
  EXPECT_EQ(error.region, "eu-west-1");
  EXPECT_EQ(error.request_id, "R1");
  EXPECT_EQ(error.endpoint, "e");
  const S3Error sts = ParseS3Error(
      "<ErrorResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">"
      "<Error><Type>Sender</Type><Code>AccessDenied</Code><Message>m</Message>"
      "</Error><RequestId>R2</RequestId></ErrorResponse>");
  EXPECT_EQ(sts.code, "AccessDenied");
  EXPECT_EQ(sts.request_id, "R2");
  for (const char* text :
       {"", "<html>x</html>", "<Error>", "{}", "<a><Error>"}) {
    EXPECT_EQ(ParseS3Error(text).code, "") << text;
  }
  EXPECT_TRUE(IsErrorDocument("\n\n<?xml version=\"1.0\"?>\n<Error><Code>"));
  EXPECT_TRUE(IsErrorDocument("<!-- c --><Error x=\"1\">"));
  EXPECT_FALSE(IsErrorDocument("<ErrorX>"));
  EXPECT_FALSE(IsErrorDocument("<CopyObjectResult><Error>"));
  EXPECT_FALSE(IsErrorDocument("<"));
}

TEST(S3XmlTest, UploadsAndParts) {
  EXPECT_EQ(*ParseUploadId("<InitiateMultipartUploadResult><Bucket>b</Bucket>"
                           "<UploadId>2~x/+</UploadId>"
                           "</InitiateMultipartUploadResult>"),
            "2~x/+");
  EXPECT_FALSE(ParseUploadId("<InitiateMultipartUploadResult/>").ok());
  EXPECT_EQ(*ParseResultETag("<CompleteMultipartUploadResult>"
                             "<ETag>\"e-3\"</ETag>"
                             "</CompleteMultipartUploadResult>"),
            "e-3");
  EXPECT_EQ(ParseResultETag("<CopyPartResult/>").status().code(),
            StatusCode::kNotFound);
  const auto page = ParseUploadsPage(
      "<ListMultipartUploadsResult><Upload><Key>k%20</Key>"
      "<UploadId>u</UploadId><Initiated>2026-01-02T03:04:05Z</Initiated>"
      "</Upload><IsTruncated>true</IsTruncated>"
      "<NextKeyMarker>k</NextKeyMarker>"
      "<NextUploadIdMarker>u</NextUploadIdMarker>"
      "</ListMultipartUploadsResult>");
  ASSERT_TRUE(page.ok()) << page.status().ToString();
  EXPECT_EQ(page->uploads[0].key, "k%20");
  EXPECT_EQ(page->uploads[0].begun_ns, kJan2NsOf2026);
  EXPECT_EQ(page->next_key, "k");
  const auto parts = ParsePartsPage(
      "<ListPartsResult><Part><PartNumber>7</PartNumber><ETag>\"p\"</ETag>"
      "</Part></ListPartsResult>");
  ASSERT_TRUE(parts.ok());
  EXPECT_THAT(parts->parts, ElementsAre(std::pair<int, std::string>(7, "p")));
  EXPECT_FALSE(ParsePartsPage("<ListPartsResult><Part><PartNumber>10001"
                              "</PartNumber></Part></ListPartsResult>")
                   .ok());
}

TEST(S3XmlTest, DeleteResults) {
  const auto failures = ParseDeleteResult(
      "<DeleteResult><Deleted><Key>a</Key></Deleted><Error><Key>b</Key>"
      "<Code>AccessDenied</Code><Message>no</Message></Error></DeleteResult>");
  ASSERT_TRUE(failures.ok());
  ASSERT_EQ(failures->size(), 1u);
  EXPECT_EQ((*failures)[0].key, "b");
  EXPECT_EQ((*failures)[0].code, "AccessDenied");
}

TEST(S3XmlTest, KeysOfSts) {
  const auto keys = ParseStsKeys(
      "<AssumeRoleResponse><AssumeRoleResult><Credentials>"
      "<AccessKeyId>ASIA</AccessKeyId><SecretAccessKey>s/+</SecretAccessKey>"
      "<SessionToken>t==</SessionToken>"
      "<Expiration>2026-01-02T03:04:05Z</Expiration></Credentials>"
      "</AssumeRoleResult></AssumeRoleResponse>");
  ASSERT_TRUE(keys.ok());
  EXPECT_EQ(keys->access_key_id, "ASIA");
  EXPECT_EQ(keys->secret_access_key, "s/+");
  EXPECT_EQ(keys->session_token, "t==");
  EXPECT_EQ(keys->expires_ns, kJan2NsOf2026);
  EXPECT_FALSE(ParseStsKeys("<a><b/></a>").ok());
}

TEST(S3XmlTest, WhatIsSent) {
  const std::string etags[] = {"e1", "e&2"};
  EXPECT_THAT(
      CompleteXml(etags),
      HasSubstr("<Part><PartNumber>2</PartNumber><ETag>&quot;e&amp;2&quot;"));
  const std::string keys[] = {"a<b>&c", "é"};
  EXPECT_THAT(DeleteXml(keys),
              HasSubstr("<Object><Key>a&lt;b&gt;&amp;c</Key></Object>"
                        "<Object><Key>é</Key></Object>"));
}

TEST(S3XmlTest, WhatXmlCannotSay) {
  for (const char* text : {"", "a", "é", "\xf0\x9f\x98\x80", "\xed\x9f\xbf"}) {
    EXPECT_TRUE(CanBeInXml(text)) << text;
  }
  for (const char* text : {"\x01", "a\nb", "\x7f", "\x80", "\xc3", "\xc0\x80",
                           "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xef\xbf\xbf",
                           "\xe2\x82", "\xf0\x80\x80\x80", "\xff"}) {
    EXPECT_FALSE(CanBeInXml(text)) << text;
  }
}

TEST(S3XmlTest, ETagsHaveNoQuotes) {
  EXPECT_EQ(UnquoteETag("\"a-1\""), "a-1");
  EXPECT_EQ(UnquoteETag("W/\"a\""), "a");
  EXPECT_EQ(UnquoteETag("a"), "a");
  // An ETag is sent in a header, and must not end the header.
  EXPECT_EQ(UnquoteETag("\"a\r\nX: y\""), "aX:y");
}

}  // namespace
}  // namespace holdfast
