#include "engine/together/shared_segment.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

using testing::HasSubstr;
using Sharing = SharedSegment::Sharing;

Result<SharedSegment> Create(size_t byte_count) {
  Executor executor(1);
  Result<NewSegment> made = SharedSegment::Create(byte_count, executor);
  if (!made.ok()) return made.status();
  return std::move(made->segment);
}

TEST(SharedSegment, WritesAreSeenByAll) {
  const auto segment = Create(10000);
  ASSERT_TRUE(segment.ok()) << segment.status().ToString();
  const auto opened = SharedSegment::Open(segment->name(), 10000);
  ASSERT_TRUE(opened.ok()) << opened.status().ToString();
  const auto a = *segment->Map(Sharing::kShared);
  const auto b = *opened->Map(Sharing::kShared);
  EXPECT_EQ(b->data()[9999], 0);
  a->data()[9999] = 7;
  EXPECT_EQ(b->data()[9999], 7);
}

TEST(SharedSegment, WritesToOneOwnAreSeenByNobody) {
  const auto segment = Create(10000);
  ASSERT_TRUE(segment.ok());
  const auto shared = *segment->Map(Sharing::kShared);
  const auto own = *segment->Map(Sharing::kOwn);
  const auto other = *segment->Map(Sharing::kOwn);
  shared->data()[5000] = 1;
  EXPECT_EQ(own->data()[5000], 1) << "what was written before is there";
  own->data()[5000] = 2;
  EXPECT_EQ(other->data()[5000], 1);
  EXPECT_EQ(shared->data()[5000], 1);
}

TEST(SharedSegment, AnotherProcessMapsIt) {
  const auto segment = Create(1 << 20);
  ASSERT_TRUE(segment.ok());
  const SegmentName name = segment->name();
  const pid_t child = ::fork();
  if (child == 0) {
    const auto opened = SharedSegment::Open(name, 1 << 20);
    if (!opened.ok()) ::_exit(1);
    const auto mapping = opened->Map(Sharing::kShared);
    if (!mapping.ok()) ::_exit(2);
    std::memcpy((*mapping)->data() + 4096, "from the child", 15);
    ::_exit(0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  const auto mapping = *segment->Map(Sharing::kShared);
  EXPECT_STREQ(mapping->data() + 4096, "from the child");
}

// A mapping must never fail later because its file became shorter.
TEST(SharedSegment, SizeIsSealed) {
  const auto segment = Create(8192);
  ASSERT_TRUE(segment.ok());
  const int fd = static_cast<int>(segment->name().fd);
  EXPECT_NE(::ftruncate(fd, 4096), 0);
  EXPECT_NE(::ftruncate(fd, 16384), 0);
}

TEST(SharedSegment, TakesItsPagesAtOnce) {
  const auto segment = Create(1 << 20);
  ASSERT_TRUE(segment.ok());
  struct stat info{};
  ASSERT_EQ(::fstat(static_cast<int>(segment->name().fd), &info), 0);
  EXPECT_GE(info.st_blocks * 512, 1 << 20);
  const auto mapping = *segment->Map(Sharing::kShared);
  mapping->Discard(4096 + 5, (1 << 20) - 3 * 4096);
  ASSERT_EQ(::fstat(static_cast<int>(segment->name().fd), &info), 0);
  EXPECT_EQ(info.st_blocks * 512, 16384) << "whole pages alone are given back";
}

// A size that no machine has must cause an error, not a signal.
TEST(SharedSegment, TooLargeIsRefused) {
  const auto segment = Create(size_t{1} << 62);
  ASSERT_FALSE(segment.ok());
  EXPECT_EQ(segment.status().code(), StatusCode::kResourceExhausted)
      << segment.status().ToString();
}

TEST(SharedSegment, OnlyTheRightFileIsMapped) {
  const auto segment = Create(8192);
  ASSERT_TRUE(segment.ok());
  EXPECT_THAT(SharedSegment::Open(segment->name(), 4096).status().ToString(),
              HasSubstr("another size (got 8192 bytes, want 4096)"));
  SegmentName other = segment->name();
  other.inode ^= 1;
  EXPECT_THAT(SharedSegment::Open(other, 8192).status().ToString(),
              HasSubstr("not the segment"));
  other = segment->name();
  other.fd = 1 << 20;
  EXPECT_EQ(SharedSegment::Open(other, 8192).status().code(),
            StatusCode::kNotFound);
  other.process_id = -5;
  EXPECT_FALSE(SharedSegment::Open(other, 8192).ok());
  // Any process can truncate a file on disk.
  const ScratchDirectory scratch;
  WriteTestFile(scratch / "file", std::string(8192, 'x'));
  const UniqueFd fd(::open((scratch / "file").c_str(), O_RDWR));
  struct stat info{};
  ASSERT_EQ(::fstat(fd.get(), &info), 0);
  EXPECT_EQ(SharedSegment::Open(
                {::getpid(), fd.get(), info.st_dev, info.st_ino}, 8192)
                .status()
                .code(),
            StatusCode::kFailedPrecondition);
}

TEST(SegmentName, ComesBack) {
  const SegmentName name{123, 4, 5, 6};
  const auto decoded = SegmentName::Decode(name.Encode());
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded->Encode(), name.Encode());
  EXPECT_FALSE(SegmentName::Decode("short").ok());
  EXPECT_FALSE(SegmentName::Decode(name.Encode() + "x").ok());
}

}  // namespace
}  // namespace holdfast
