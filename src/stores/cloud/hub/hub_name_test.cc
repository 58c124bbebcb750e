#include "stores/cloud/hub/hub_name.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stores/storage/url_path.h"

namespace holdfast {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Returns the kind, the id and the revision that a URL names, and the path of
// the file.
std::string PartsOf(const std::string& url) {
  const std::string root = UrlRoot(url);
  const Result<HubName> name = ParseHubRoot(root);
  if (!name.ok()) return name.status().ToString();
  return name->kind + " " + name->id + " " + name->revision + " " +
         url.substr(root.size());
}

TEST(HubName, IsARepositoryARevisionAndTheRest) {
  const std::pair<const char*, const char*> wanted[] = {
      {"hf://org/model", "models org/model main "},
      {"HF://org/model/a/b.npz", "models org/model main /a/b.npz"},
      {"hf://org/model@v1.0/a", "models org/model v1.0 /a"},
      {"hf://datasets/org/name@x/a@b", "datasets org/name x /a@b"},
      {"hf://spaces/org/name", "spaces org/name main "},
      {"hf://org/model@feature%2Fone/a", "models org/model feature/one /a"},
      {"hf://org/model@refs%2Fpr%2F1/a", "models org/model refs/pr/1 /a"},
      {"hf://org/model@refs/pr/1/a/b", "models org/model refs/pr/1 /a/b"},
      {"hf://org/datasets@refs/convert/x",
       "models org/datasets refs/convert/x "},
      {"hf://org/Mo.del_1-x", "models org/Mo.del_1-x main "},
  };
  for (const auto& [url, parts] : wanted) EXPECT_EQ(PartsOf(url), parts) << url;
}

TEST(HubName, WhatIsNoNameIsRefused) {
  for (const char* url : {"hf://",
                          "hf://x",
                          "hf://x/",
                          "hf:///x/y",
                          "hf://org//x",
                          "hf://../x",
                          "hf://org/..",
                          "hf://org/.x",
                          "hf://org/x-",
                          "hf://org/a--b",
                          "hf://o g/x",
                          "hf://org/x%2Fy",
                          "hf://datasets/x",
                          "hf://datasets/x@y",
                          "hf://org/model@",
                          "hf://org/model@..",
                          "hf://org/model@a%2F..%2Fb",
                          "hf://org/model@%2Fetc",
                          "hf://org/model@a%00b",
                          "hf://org/model@a%0Ab",
                          "hf://org/model@a b",
                          "hf://org@x/model"}) {
    const Result<HubName> name = ParseHubRoot(UrlRoot(url));
    EXPECT_EQ(name.status().code(), StatusCode::kInvalidArgument) << url;
    EXPECT_THAT(name.status().ToString(),
                HasSubstr("want hf://org/model[@revision][/path]"));
  }
  const Status secret = ParseHubRoot("hf://user:secret@org/model").status();
  EXPECT_THAT(secret.ToString(), Not(HasSubstr("secret")));
}

TEST(HubName, FoldersOfTheCacheAndPagesAreNamedAsTheHubDoes) {
  EXPECT_EQ(ParseHubRoot("hf://org/m")->cache_folder(), "models--org--m");
  EXPECT_EQ(ParseHubRoot("hf://datasets/org/m")->cache_folder(),
            "datasets--org--m");
  EXPECT_EQ(ParseHubRoot("hf://org/m")->page(), "org/m");
  EXPECT_EQ(ParseHubRoot("hf://datasets/org/m")->page(), "datasets/org/m");
}

TEST(HubName, PathsStayBelowTheRepository) {
  EXPECT_EQ(AbsolutePath("hf://org/model@v1/a/../../../b/./c/"),
            "hf://org/model@v1/b/c");
  EXPECT_EQ(AbsolutePath("hf://datasets/org/name/.."),
            "hf://datasets/org/name");
  EXPECT_EQ(ParentDirectory("hf://org/model@refs/pr/1/a"),
            "hf://org/model@refs/pr/1");
  EXPECT_EQ(ParentDirectory("hf://org/model"), "hf://org/model");
  EXPECT_EQ(FileNameOf("hf://org/model@v1"), "");
  EXPECT_EQ(FileNameOf("hf://org/model@v1/a.npz"), "a.npz");
  EXPECT_EQ(UrlRoot("gs://b/a/b"), "gs://b");
}

}  // namespace
}  // namespace holdfast
