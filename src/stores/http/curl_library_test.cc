#include "stores/http/curl_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "stores/http/ca_bundle.h"
#include "stores/http/http_client.h"
#include "stores/http/libcurl_file.h"

namespace holdfast {
namespace {

using ::testing::HasSubstr;

// Expects that `check` holds in a new process that has not loaded libcurl.
#define EXPECT_IN_NEW_PROCESS(check) \
  EXPECT_EXIT(_exit((check)() ? 0 : 1), ::testing::ExitedWithCode(0), "")

class CurlLibraryTest : public ::testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(CurlLibraryTest, WithoutItRequestsFailAndSayWhatToInstall) {
  EXPECT_IN_NEW_PROCESS([] {
    setenv("HOLDFAST_LIBCURL", "/nowhere/libcurl.so", 1);
    HttpClient client;
    HttpRequest request;
    request.url = "http://127.0.0.1:1/x";
    const auto answer = client.Send(request);
    const std::string text = answer.status().ToString();
    return answer.status().code() == StatusCode::kFailedPrecondition &&
           text.find("libcurl4") != std::string::npos &&
           text.find("/nowhere/libcurl.so") != std::string::npos;
  });
}

TEST_F(CurlLibraryTest, WhatIsThereLaterIsFound) {
  EXPECT_IN_NEW_PROCESS([] {
    setenv("HOLDFAST_LIBCURL", "/nowhere/libcurl.so", 1);
    if (LoadCurl().ok()) return false;
    unsetenv("HOLDFAST_LIBCURL");
    return LoadCurl().ok();
  });
}

TEST_F(CurlLibraryTest, AnotherLibraryIsRefused) {
  EXPECT_IN_NEW_PROCESS([] {
    setenv("HOLDFAST_LIBCURL", "libz.so.1", 1);
    const auto curl = LoadCurl();
    return !curl.ok() &&
           curl.status().ToString().find("7.68") != std::string::npos;
  });
}

TEST_F(CurlLibraryTest, AFileOfTheCallersIsTheLastChoice) {
  const auto text = DescribeLibcurl();
  ASSERT_TRUE(text.ok());
  EXPECT_THAT(*text, HasSubstr("libcurl"));
  const std::string file = text->substr(text->find(" at ") + 4);
  EXPECT_EQ(0, access(file.c_str(), R_OK)) << file;
  EXPECT_IN_NEW_PROCESS([] {
    SetLibcurlFile("/nowhere/libcurl.so");
    return DescribeLibcurl().ok();
  });
}

TEST(CaBundleTest, ANamedFileMustBeThere) {
  EXPECT_EQ(FindCaBundle("/nowhere/ca.pem").status().code(),
            StatusCode::kFailedPrecondition);
  const std::string file = ::testing::TempDir() + "/holdfast_ca_" +
                           std::to_string(getpid()) + ".pem";
  std::ofstream(file) << "-";
  setenv("HOLDFAST_CA_BUNDLE", file.c_str(), 1);
  EXPECT_EQ(*FindCaBundle(""), file);
  EXPECT_EQ(*FindCaBundle("/dev/null"), "/dev/null");
  unlink(file.c_str());
  EXPECT_THAT(std::string(FindCaBundle("").status().message()),
              HasSubstr("HOLDFAST_CA_BUNDLE"));
  unsetenv("HOLDFAST_CA_BUNDLE");
  EXPECT_TRUE(FindCaBundle("").ok());
}

}  // namespace
}  // namespace holdfast
