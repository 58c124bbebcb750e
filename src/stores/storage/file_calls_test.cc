#include "stores/storage/file_calls.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <vector>

#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

UniqueFd Open(const std::string& path, int flags) {
  return UniqueFd(::open(path.c_str(), flags | O_CLOEXEC));
}

TEST(FileCalls, WritesMorePiecesThanOneCallTakes) {
  ScratchDirectory scratch;
  const FileCalls calls;
  UniqueFd root = Open(scratch.path(), O_PATH), fd;
  ASSERT_EQ(calls.CreateFile(root.get(), "f", "f", fd), 0);
  EXPECT_EQ(calls.CreateFile(root.get(), "f", "f", fd), EEXIST);
  const std::vector<std::string_view> pieces(5000, "ab");
  ASSERT_EQ(calls.WriteFull(fd.get(), 3, pieces, "f"), 0);
  std::string target(20000, '?');
  size_t read_bytes = 0;
  ASSERT_EQ(calls.ReadFull(fd.get(), 0, target, "f", read_bytes), 0);
  EXPECT_EQ(read_bytes, 10003u);
  EXPECT_EQ(target.substr(0, 7), std::string("\0\0\0abab", 7));
  EXPECT_EQ(target.substr(9999, 6), "abab??");
}

TEST(FileCalls, AFullDeviceIsReported) {
  UniqueFd full = Open("/dev/full", O_WRONLY);
  if (!full.valid()) GTEST_SKIP() << "this system has no /dev/full";
  const std::string_view pieces[] = {"abc"};
  EXPECT_EQ(FileCalls().WriteFull(full.get(), 0, pieces, "full"), ENOSPC);
}

TEST(FileCalls, DirectoriesOfOddFileSystemsNeedNoSync) {
  UniqueFd proc = Open("/proc/self", O_RDONLY | O_DIRECTORY);
  if (!proc.valid()) GTEST_SKIP() << "this system has no /proc";
  EXPECT_EQ(FileCalls().SyncDirectory(proc.get(), "proc"), 0);
}

TEST(FileCalls, MustCreateRenameNeverReplaces) {
  ScratchDirectory scratch;
  WriteTestFile(scratch / "a", "a");
  WriteTestFile(scratch / "b", "b");
  const FileCalls calls;
  UniqueFd root = Open(scratch.path(), O_PATH);
  EXPECT_EQ(calls.Rename(root.get(), "a", "b", true, "b"), EEXIST);
  EXPECT_EQ(ReadTestFile(scratch / "b"), "b");
  EXPECT_EQ(calls.Rename(root.get(), "a", "c", true, "c"), 0);
  EXPECT_EQ(calls.Rename(root.get(), "c", "b", false, "b"), 0);
  EXPECT_EQ(ReadTestFile(scratch / "b"), "a");
}

TEST(FileCalls, OpenBeneathStaysBeneath) {
  ScratchDirectory scratch;
  WriteTestFile(scratch / "root/d/f", "x");
  WriteTestFile(scratch / "secret", "x");
  std::filesystem::create_symlink("d", scratch / "root/link");
  for (const bool use_openat2 : {true, false}) {
    const FileCalls calls(nullptr, use_openat2);
    UniqueFd root = Open(scratch / "root", O_PATH), fd;
    using Links = FileCalls::Links;
    const auto open = [&](const char* path, Links links) {
      return calls.OpenBeneath(root.get(), path, O_RDONLY, links, fd);
    };
    EXPECT_EQ(open("", Links::kInside), 0);
    EXPECT_EQ(open("d/f", Links::kInside), 0);
    EXPECT_EQ(open("d/no", Links::kInside), ENOENT);
    EXPECT_EQ(open("d/f/no", Links::kInside), ENOTDIR);
    EXPECT_EQ(open("../secret", Links::kInside), EXDEV);
    EXPECT_EQ(open("d/../../secret", Links::kInside), EXDEV);
    EXPECT_EQ(open("link/f", Links::kInside), use_openat2 ? 0 : ELOOP);
    EXPECT_EQ(open("link/f", Links::kNone), ELOOP);
    EXPECT_EQ(open("link", Links::kNone), ELOOP);
  }
}

TEST(FileCalls, TheHookSpeaksFirst) {
  std::string seen;
  const FileCalls calls([&](std::string_view call, std::string_view path) {
    seen = std::string(call) + " " + std::string(path);
    return EIO;
  });
  EXPECT_EQ(calls.SyncData(-1, "x/y"), EIO);
  EXPECT_EQ(seen, "fdatasync x/y");
}

}  // namespace
}  // namespace holdfast
