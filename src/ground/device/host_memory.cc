#include "ground/device/host_memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string_view>

namespace holdfast {
namespace {

constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();

uint64_t PhysicalBytes() {
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  const long page_bytes = ::sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page_bytes <= 0) return kUnlimited;
  return static_cast<uint64_t>(pages) * static_cast<uint64_t>(page_bytes);
}

// Returns the number in a file; kUnlimited for another text ("max").
uint64_t NumberIn(const std::string& path) {
  uint64_t number = 0;
  return std::ifstream(path) >> number ? number : kUnlimited;
}

// Returns the least limit of the group and those above it. In a container the
// group's path may be that of the host, where only the top is found.
uint64_t LimitOf(const std::string& mount, std::string group,
                 std::string_view file) {
  uint64_t least = kUnlimited;
  for (;;) {
    least = std::min(least, NumberIn(mount + group + "/" + std::string(file)));
    const size_t slash = group.rfind('/');
    if (slash == std::string::npos) return least;
    group.resize(slash);
  }
}

}  // namespace

uint64_t HostMemoryBytes(const std::string& root) {
  uint64_t least = PhysicalBytes();
  const std::string mount = root + "/sys/fs/cgroup";
  std::ifstream groups(root + "/proc/self/cgroup");
  // A line is "0::/group" of version 2, or "4:memory:/group" of version 1.
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string kind = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (kind.empty()) {
      least = std::min(least, LimitOf(mount, group, "memory.max"));
    } else if (kind == "memory") {
      least = std::min(
          least, LimitOf(mount + "/memory", group, "memory.limit_in_bytes"));
    }
  }
  return least;
}

}  // namespace holdfast
