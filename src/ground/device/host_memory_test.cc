#include "ground/device/host_memory.h"

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
  uint64_t Bytes() const { return HostMemoryBytes(scratch_.path()); }

  const ScratchDirectory scratch_;
};

TEST_F(HostMemory, IsTheMachinesWithoutAGroup) {
  const uint64_t machine = Bytes();
  EXPECT_GT(machine, uint64_t{1} << 26);
  Write("proc/self/cgroup", "0::/\nnonsense\n");
  Write("sys/fs/cgroup/memory.max", "max\n");
  EXPECT_EQ(Bytes(), machine);
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
}

}  // namespace
}  // namespace holdfast
