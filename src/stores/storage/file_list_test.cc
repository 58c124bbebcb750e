#include "stores/storage/file_list.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <vector>

#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct Listed {
  Status status;
  std::vector<std::string> keys;
};

Listed List(const std::string& root, std::string_view prefix,
            const FileCalls& calls = FileCalls()) {
  UniqueFd fd(::open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  Listed listed;
  listed.status = ListFiles(calls, fd.get(), root, prefix,
                            [&](std::string_view key, const ObjectInfo&) {
                              listed.keys.emplace_back(key);
                              return Status();
                            });
  return listed;
}

TEST(ListFiles, ADirectorySortsWithItsSlash) {
  ScratchDirectory scratch;
  for (const char* key : {"a/x", "a.b", "a0", "a-", "a!/y"}) {
    WriteTestFile(scratch / key, "x");
  }
  EXPECT_THAT(List(scratch.path(), "").keys,
              ElementsAre("a!/y", "a-", "a.b", "a/x", "a0"));
}

TEST(ListFiles, EmptyDirectoriesAndDanglingLinksAreNothing) {
  ScratchDirectory scratch;
  std::filesystem::create_directories(scratch / "a/b/c");
  std::filesystem::create_symlink("no", scratch / "a/dangling");
  const Listed listed = List(scratch.path(), "");
  EXPECT_EQ(listed.status.code(), StatusCode::kOk);
  EXPECT_THAT(listed.keys, IsEmpty());
}

TEST(ListFiles, AnUnreadableDirectoryIsAnErrorNotAGap) {
  ScratchDirectory scratch;
  for (const char* key : {"a/x", "b/x", "c/x"}) {
    WriteTestFile(scratch / key, "x");
  }
  const FileCalls calls([](std::string_view call, std::string_view path) {
    return call == "open" && path == "b" ? EACCES : 0;
  });
  const Listed listed = List(scratch.path(), "", calls);
  EXPECT_EQ(listed.status.code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(listed.status.message()), HasSubstr(scratch / "b"));
  EXPECT_THAT(listed.keys, ElementsAre("a/x"));
}

TEST(ListFiles, ADirectoryThatVanishesIsEmpty) {
  ScratchDirectory scratch;
  WriteTestFile(scratch / "a/x", "x");
  WriteTestFile(scratch / "b/x", "x");
  const FileCalls calls([&](std::string_view call, std::string_view path) {
    if (call == "open" && path == "b") {
      std::filesystem::remove_all(scratch / "b");
    }
    return 0;
  });
  const Listed listed = List(scratch.path(), "", calls);
  EXPECT_EQ(listed.status.code(), StatusCode::kOk);
  EXPECT_THAT(listed.keys, ElementsAre("a/x"));
}

TEST(ListFiles, APrefixNeverStartsOutside) {
  ScratchDirectory scratch;
  WriteTestFile(scratch / "root/k", "x");
  WriteTestFile(scratch / "k", "x");
  for (const char* prefix : {"../", "../k", "/", "./", "root/../../"}) {
    const Listed listed = List(scratch / "root", prefix);
    EXPECT_EQ(listed.status.code(), StatusCode::kOk);
    EXPECT_THAT(listed.keys, IsEmpty()) << prefix;
  }
}

}  // namespace
}  // namespace holdfast
