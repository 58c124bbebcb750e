#include "stores/cloud/hub/hub_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "stores/cloud/hub/hub_settings.h"
#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

using Variables = std::map<std::string, std::string>;

Environment Of(Variables variables) {
  return [variables = std::move(variables)](const std::string& name) {
    const auto found = variables.find(name);
    return found == variables.end() ? "" : found->second;
  };
}

void WriteFile(const std::string& path, std::string_view text) {
  std::filesystem::create_directories(
      std::filesystem::path(path).parent_path());
  std::ofstream(path) << text;
}

std::string Found(const std::string& cache, const std::string& root) {
  return FindHubSnapshot(cache, ParseHubRoot(root).value());
}

TEST(HubCache, ASnapshotIsFoundByBranchTagPullRequestAndCommit) {
  const ScratchDirectory cache;
  const std::string commit(40, 'a'), other(40, 'b');
  const std::string folder = cache / "models--org--m";
  WriteFile(folder + "/refs/main", commit);
  WriteFile(folder + "/refs/refs/pr/1", other + "\n");
  WriteFile(folder + "/refs/gone", std::string(40, 'c'));
  WriteFile(folder + "/refs/wrong", "../../elsewhere");
  WriteFile(folder + "/refs/long", std::string(1000, 'a'));
  WriteFile(folder + "/snapshots/" + commit + "/x", "1");
  WriteFile(folder + "/snapshots/" + other + "/x", "2");
  const std::string snapshots = folder + "/snapshots/";
  EXPECT_EQ(Found(cache.path(), "hf://org/m"), snapshots + commit);
  EXPECT_EQ(Found(cache.path(), "hf://org/m@main"), snapshots + commit);
  EXPECT_EQ(Found(cache.path(), "hf://org/m@refs%2Fpr%2F1"), snapshots + other);
  EXPECT_EQ(Found(cache.path(), "hf://org/m@" + other), snapshots + other);
  for (const char* revision : {"gone", "wrong", "long", "absent", "refs"}) {
    EXPECT_EQ(Found(cache.path(), "hf://org/m@" + std::string(revision)), "");
  }
  EXPECT_EQ(Found(cache.path(), "hf://org/other"), "");
  EXPECT_EQ(Found(cache.path(), "hf://datasets/org/m"), "");
  EXPECT_EQ(Found("", "hf://org/m"), "");
}

TEST(HubSettings, TheCacheIsWhereTheHubsToolsHaveIt) {
  EXPECT_EQ(HubCacheDirectory(Of({{"HF_HUB_CACHE", "/c"}, {"HF_HOME", "/h"}})),
            "/c");
  EXPECT_EQ(HubCacheDirectory(Of({{"HF_HOME", "/h"}, {"HOME", "/u"}})),
            "/h/hub");
  EXPECT_EQ(HubCacheDirectory(Of({{"XDG_CACHE_HOME", "/x"}, {"HOME", "/u"}})),
            "/x/huggingface/hub");
  EXPECT_EQ(HubCacheDirectory(Of({{"HOME", "/u"}})),
            "/u/.cache/huggingface/hub");
  EXPECT_EQ(HubCacheDirectory(Of({{"HF_HOME", "~/hf"}, {"HOME", "/u"}})),
            "/u/hf/hub");
  EXPECT_EQ(HubCacheDirectory(Of({})), "");
}

TEST(HubSettings, TheTokenIsTheVariablesElseTheFiles) {
  const ScratchDirectory home;
  WriteFile(home / "token", " hf_file\n");
  WriteFile(home / "elsewhere", "hf_elsewhere");
  Variables variables = {{"HF_HOME", home.path()}};
  auto settings = ReadHubSettings({}, Of(variables)).value();
  EXPECT_EQ(settings.token, "hf_file");
  EXPECT_EQ(settings.token_source, home / "token");
  EXPECT_EQ(settings.endpoint, "https://huggingface.co");
  variables["HF_TOKEN_PATH"] = home / "elsewhere";
  EXPECT_EQ(ReadHubSettings({}, Of(variables))->token, "hf_elsewhere");
  variables["HF_TOKEN"] = "hf_variable";
  settings = ReadHubSettings({}, Of(variables)).value();
  EXPECT_EQ(settings.token, "hf_variable");
  EXPECT_EQ(settings.headers().front().second, "Bearer hf_variable");
  settings = ReadHubSettings({.anonymous = true}, Of(variables)).value();
  EXPECT_TRUE(settings.headers().empty());
  variables["HF_TOKEN"] = "hf_two\r\nX-Header: lines";
  const Status refused = ReadHubSettings({}, Of(variables)).status();
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(refused.ToString(), HasSubstr("HF_TOKEN"));
  EXPECT_THAT(refused.ToString(), Not(HasSubstr("hf_two")));
}

TEST(HubSettings, TheEndpointIsAnAddress) {
  EXPECT_EQ(ReadHubSettings({}, Of({{"HF_ENDPOINT", "http://h:1/"}}))->endpoint,
            "http://h:1");
  for (const char* endpoint : {"h:1", "ftp://h", "https://h?x=y"}) {
    EXPECT_EQ(
        ReadHubSettings({}, Of({{"HF_ENDPOINT", endpoint}})).status().code(),
        StatusCode::kInvalidArgument)
        << endpoint;
  }
}

TEST(HubSettings, OfflineIsSaidAsTheHubsToolsReadIt) {
  for (const char* yes : {"1", "ON", "yes", "True"}) {
    EXPECT_TRUE(IsHubOffline(Of({{"HF_HUB_OFFLINE", yes}}))) << yes;
  }
  for (const char* no : {"", "0", "false", "2"}) {
    EXPECT_FALSE(IsHubOffline(Of({{"HF_HUB_OFFLINE", no}}))) << no;
  }
  EXPECT_TRUE(IsHubOffline(Of({{"TRANSFORMERS_OFFLINE", "1"}})));
}

}  // namespace
}  // namespace holdfast
