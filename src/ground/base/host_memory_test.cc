#include "holdfast/detail/host_memory.h"

#include <string>

#include "gtest/gtest.h"
#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

class HostMemory : public ::testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) {
    WriteTestFile(scratch_ / path, text);
  }
  uint64_t Bytes() const { return ReadHostMemoryBytes(scratch_.path()); }
  uint64_t Available() const {
    return AvailableHostMemoryBytes(scratch_.path());
  }

  const ScratchDirectory scratch_;
};

TEST_F(HostMemory, IsTheMachinesWithoutAGroup) {
  const uint64_t machine = Bytes();
  EXPECT_GT(machine, uint64_t{1} << 26);
  Write("proc/self/cgroup", "0::/\nnonsense\n");
  Write("sys/fs/cgroup/memory.max", "max\n");
  Write("sys/fs/cgroup/memory.current", "5000\n");
  EXPECT_EQ(Bytes(), machine);
  EXPECT_EQ(Available(), machine);
}

TEST_F(HostMemory, OfThisProcessIsAvailableInPart) {
  EXPECT_GT(AvailableHostMemoryBytes(), 0u);
  EXPECT_LT(AvailableHostMemoryBytes(), HostMemoryBytes());
}

TEST_F(HostMemory, IsTheLeastLimitOfTheGroupsAbove) {
  Write("proc/self/cgroup", "0::/job/step\n");
  Write("sys/fs/cgroup/job/step/memory.max", "9000000\n");
  EXPECT_EQ(Bytes(), 9000000u);
  Write("sys/fs/cgroup/job/memory.max", "8000000\n");
  EXPECT_EQ(Bytes(), 8000000u);
  Write("sys/fs/cgroup/memory.max", "7000000\n");  // a container's top
  EXPECT_EQ(Bytes(), 7000000u);
}

TEST_F(HostMemory, GroupsOfVersionOneCountToo) {
  Write("proc/self/cgroup", "5:cpu,cpuacct:/\n4:memory:/docker/abc\n0::/\n");
  Write("sys/fs/cgroup/memory/memory.limit_in_bytes", "6000000\n");
  EXPECT_EQ(Bytes(), 6000000u);
  Write("sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "5000000\n");
  EXPECT_EQ(Bytes(), 5000000u);
  Write("sys/fs/cgroup/memory/docker/abc/memory.usage_in_bytes", "3000000\n");
  EXPECT_EQ(Available(), 2000000u);
  Write("sys/fs/cgroup/memory/docker/abc/memory.stat",
        "inactive_file 7\ntotal_inactive_file 1000000\n");
  EXPECT_EQ(Available(), 3000000u);
}

TEST_F(HostMemory, IsAvailableAsFarAsTheMachineAndEachGroupHaveIt) {
  Write("proc/meminfo", "MemTotal:  900 kB\nMemAvailable:   700 kB\n");
  EXPECT_EQ(Available(), 700u * 1024);
  Write("proc/self/cgroup", "0::/job/step\n");
  Write("sys/fs/cgroup/job/memory.max", "600000\n");
  Write("sys/fs/cgroup/job/memory.current", "500000\n");
  EXPECT_EQ(Available(), 100000u);
  // Pages of files can be dropped.
  Write("sys/fs/cgroup/job/memory.stat", "file 99\ninactive_file 300000\n");
  EXPECT_EQ(Available(), 400000u);
  Write("sys/fs/cgroup/job/step/memory.max", "1000\n");
  Write("sys/fs/cgroup/job/step/memory.current", "900\n");
  EXPECT_EQ(Available(), 100u);
  Write("sys/fs/cgroup/job/step/memory.current", "1100\n");
  EXPECT_EQ(Available(), 0u);
}

}  // namespace
}  // namespace holdfast
