#include "stores/http/url.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <cstring>
#include <string>

namespace holdfast {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(UrlTest, TakesUrlsApart) {
  const auto url = ParseUrl("HTTPS://Host.example:8443/a/../b%20c?x=1&y#");
  EXPECT_FALSE(url.ok());  // a fragment is refused, even if empty
  const auto whole = ParseUrl("HTTPS://Host.example:8443/a/../b%20c?x=1&y?z");
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ(whole->scheme, "https");
  EXPECT_EQ(whole->host, "host.example");
  EXPECT_EQ(whole->port, 8443);
  EXPECT_EQ(whole->path, "/a/../b%20c");
  EXPECT_EQ(whole->query, "x=1&y?z");
  const auto bucket = ParseUrl("gs://My_bucket.x/key with space/");
  ASSERT_TRUE(bucket.ok());
  EXPECT_EQ(bucket->host, "My_bucket.x");
  EXPECT_EQ(bucket->port, 0);
  EXPECT_EQ(bucket->path, "/key with space/");
  const auto six = ParseUrl("http://[2001:db8::1]:9000?q");
  ASSERT_TRUE(six.ok());
  EXPECT_EQ(six->host, "[2001:db8::1]");
  EXPECT_EQ(six->port, 9000);
  EXPECT_EQ(six->path, "");
  EXPECT_EQ(six->query, "q");
  EXPECT_EQ(ParseUrl("http://h:/x")->port, 0);
}

TEST(UrlTest, RefusesOthers) {
  for (const char* text : {"",
                           "host/x",
                           "/a/b",
                           "http:/x",
                           "://x",
                           "1http://x",
                           "http://",
                           "http:///x",
                           "http://:80/x",
                           "http://a b/x",
                           "http://h/a b",
                           "http://h/\n",
                           "http://h:0",
                           "http://h:65536",
                           "http://h:8x",
                           "http://h:-1",
                           "http://[::1/x",
                           "http://[]/x",
                           "http://h\\x/",
                           "https://user@h/x",
                           "https://user:word@h/x",
                           "gs://b@c/x"}) {
    EXPECT_EQ(ParseUrl(text).status().code(), StatusCode::kInvalidArgument)
        << text;
  }
}

TEST(UrlTest, ErrorsAndRedactionsKeepSecrets) {
  for (const char* text :
       {"https://user:hidden@host/x", "https://hidden@host/x?hidden#hidden",
        "https://user:hid/hidden@host/x", "https://u:h?hidden@host",
        "https://host/x?sig=hidden", "https://host/x#hidden",
        "https://u:p@hidden@host/x/?hidden@", "user:hidden@host/x",
        "user:pw?hidden"}) {
    const std::string shown = RedactUrl(text);
    EXPECT_THAT(shown, Not(HasSubstr("hidden"))) << text;
    const auto url = ParseUrl(text);
    EXPECT_THAT(std::string(url.status().message()), Not(HasSubstr("hidden")));
  }
  EXPECT_EQ(RedactUrl("https://u:p@host:80/x/y?z"), "https://host:80/x/y");
  EXPECT_EQ(RedactUrl("gs://b/a@1/x"), "gs://b/a@1/x");
  EXPECT_EQ(RedactUrl("s3://b/a\n\x1b"), "s3://b/a..");
}

TEST(UrlTest, Escapes) {
  EXPECT_EQ(EscapePath("/a b/\xc3\xa9+~_-.=*'\""),
            "/a%20b/%C3%A9%2B~_-.%3D%2A%27%22");
  EXPECT_EQ(EscapeComponent("a/b c"), "a%2Fb%20c");
  for (int c = 0; c < 256; ++c) {
    const std::string one(1, static_cast<char>(c));
    const bool is_plain =
        c < 128 && (isalnum(c) || strchr("-._~", c)) && c != 0;
    EXPECT_EQ(EscapeComponent(one) == one, is_plain) << c;
    EXPECT_EQ(EscapePath(one) == one, is_plain || c == '/') << c;
  }
}

TEST(UrlTest, ResolvesReferences) {
  const std::string base = "https://host:1/a/b?q";
  EXPECT_EQ(*ResolveUrl(base, "http://other/x#f"), "http://other/x");
  EXPECT_EQ(*ResolveUrl(base, "//other/x"), "https://other/x");
  EXPECT_EQ(*ResolveUrl(base, "/x?y"), "https://host:1/x?y");
  EXPECT_EQ(*ResolveUrl(base, "x?y"), "https://host:1/a/x?y");
  EXPECT_EQ(*ResolveUrl("http://host", "x"), "http://host/x");
  EXPECT_EQ(*ResolveUrl(base, "x://y"), "x://y");
  EXPECT_EQ(*ResolveUrl(base, "/x?then=http://y"),
            "https://host:1/x?then=http://y");
  EXPECT_FALSE(ResolveUrl(base, "http://u:p@other/").ok());
}

TEST(UrlTest, OriginsAreEqualWhenTheServerIs) {
  EXPECT_EQ(OriginOf(*ParseUrl("https://H:443/x")), "https://h");
  EXPECT_EQ(OriginOf(*ParseUrl("http://h/x")), "http://h");
  EXPECT_EQ(OriginOf(*ParseUrl("http://h:443/x")), "http://h:443");
}

}  // namespace
}  // namespace holdfast
