#include "holdfast/detail/host_memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string_view>
#include <vector>

namespace holdfast {
namespace {

constexpr uint64_t kUnknown = std::numeric_limits<uint64_t>::max();

uint64_t PhysicalBytes() {
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  const long page_bytes = ::sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page_bytes <= 0) return kUnknown;
  return static_cast<uint64_t>(pages) * static_cast<uint64_t>(page_bytes);
}

// Returns the number in a file; kUnknown for another text ("max").
uint64_t NumberIn(const std::string& path) {
  uint64_t number = 0;
  return std::ifstream(path) >> number ? number : kUnknown;
}

// Returns the number after a word in a file, or kUnknown.
uint64_t NumberAfter(std::string_view word, const std::string& path) {
  std::ifstream file(path);
  uint64_t number = 0;
  for (std::string each; file >> each;) {
    if (each == word) return file >> number ? number : kUnknown;
  }
  return kUnknown;
}

// The names of a group's files, and of the row of memory.stat that counts the
// pages of files that were not used lately, in this group and those below it.
struct GroupFiles {
  const char* limit;
  const char* usage;
  const char* droppable;
};
constexpr GroupFiles kVersion1{"/memory.limit_in_bytes",
                               "/memory.usage_in_bytes", "total_inactive_file"};
constexpr GroupFiles kVersion2{"/memory.max", "/memory.current",
                               "inactive_file"};

struct MemoryGroup {
  std::string path;
  const GroupFiles* files;

  uint64_t limit() const { return NumberIn(path + files->limit); }
  uint64_t available() const {
    const uint64_t most = limit();
    const uint64_t usage = NumberIn(path + files->usage);
    if (most == kUnknown || usage == kUnknown) return kUnknown;
    const uint64_t droppable =
        NumberAfter(files->droppable, path + "/memory.stat");
    const bool is_known = droppable != kUnknown;
    const uint64_t kept = usage - std::min(usage, is_known ? droppable : 0);
    return most - std::min(most, kept);
  }
};

// Adds a group and those above it. In a container the group's path may be that
// of the host, where only the top is found.
void AddGroups(const std::string& mount, std::string group,
               const GroupFiles& files, std::vector<MemoryGroup>& groups) {
  for (;;) {
    groups.push_back({mount + group, &files});
    const size_t slash = group.rfind('/');
    if (slash == std::string::npos) return;
    group.resize(slash);
  }
}

// Returns the process's groups that may limit memory, and those above them.
std::vector<MemoryGroup> GroupsOf(const std::string& root) {
  std::vector<MemoryGroup> groups;
  const std::string mount = root + "/sys/fs/cgroup";
  std::ifstream lines(root + "/proc/self/cgroup");
  // A line is "0::/group" of version 2, or "4:cpu,memory:/group" of version
  // 1.
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string kind = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (kind.empty()) AddGroups(mount, group, kVersion2, groups);
    if (("," + kind + ",").find(",memory,") != std::string::npos) {
      AddGroups(mount + "/memory", group, kVersion1, groups);
    }
  }
  return groups;
}

}  // namespace

uint64_t HostMemoryBytes() {
  static const uint64_t byte_count = ReadHostMemoryBytes();
  return byte_count;
}

uint64_t ReadHostMemoryBytes(const std::string& root) {
  uint64_t least = PhysicalBytes();
  for (const MemoryGroup& group : GroupsOf(root)) {
    least = std::min(least, group.limit());
  }
  return least;
}

uint64_t AvailableHostMemoryBytes(const std::string& root) {
  uint64_t least = PhysicalBytes();
  const uint64_t available_kib =
      NumberAfter("MemAvailable:", root + "/proc/meminfo");
  if (available_kib != kUnknown) least = std::min(least, available_kib * 1024);
  for (const MemoryGroup& group : GroupsOf(root)) {
    least = std::min(least, group.available());
  }
  return least;
}

}  // namespace holdfast
