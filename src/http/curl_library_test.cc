#include "http/curl_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "http/ca_bundle.h"
#include "http/http_client.h"
#include "http/libcurl_file.h"

namespace holdfast {
namespace {

using ::testing::HasSubstr;

// In a process that has not loaded it; exits with 0 when `check` holds.
template <typename Check>
int ExitStatusOf(Check check) {
  const pid_t child = fork();
  if (child == 0) _exit(check() ? 0 : 1);
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

TEST(CurlLibraryTest, WithoutItRequestsFailAndSayWhatToInstall) {
  EXPECT_EQ(0, ExitStatusOf([] {
              setenv("HOLDFAST_LIBCURL", "/nowhere/libcurl.so", 1);
              HttpClient client;
              HttpRequest request;
              request.url = "http://127.0.0.1:1/x";
              const auto answer = client.Send(request);
              const std::string text = answer.status().ToString();
              return answer.status().code() ==
                         StatusCode::kFailedPrecondition &&
                     text.find("libcurl4") != std::string::npos &&
                     text.find("/nowhere/libcurl.so") != std::string::npos;
            }));
  // One that is there now is found.
  EXPECT_EQ(0, ExitStatusOf([] {
              setenv("HOLDFAST_LIBCURL", "/nowhere/libcurl.so", 1);
              if (LoadCurl().ok()) return false;
              unsetenv("HOLDFAST_LIBCURL");
              return LoadCurl().ok();
            }));
  // A library, but another.
  EXPECT_EQ(0, ExitStatusOf([] {
              setenv("HOLDFAST_LIBCURL", "libz.so.1", 1);
              const auto curl = LoadCurl();
              return !curl.ok() &&
                     curl.status().ToString().find("7.68") != std::string::npos;
            }));
}

TEST(CurlLibraryTest, AFileOfTheCallersIsTheLastChoice) {
  const auto text = DescribeLibcurl();
  ASSERT_TRUE(text.ok());
  EXPECT_THAT(*text, HasSubstr("libcurl"));
  const std::string file = text->substr(text->find(" at ") + 4);
  EXPECT_EQ(0, access(file.c_str(), R_OK)) << file;
  EXPECT_EQ(0, ExitStatusOf([] {
              SetLibcurlFile("/nowhere/libcurl.so");
              return DescribeLibcurl().ok();
            }));
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
