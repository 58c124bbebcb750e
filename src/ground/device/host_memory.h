// How much memory this process may use.
//
// Thread-safety: any thread. Units: bytes. Errors: none; a limit that cannot be
// read does not count.
// Formats: cgroups of version 1 and 2, as the kernel's documentation has them
// (admin-guide/cgroup-v1/memory.rst, admin-guide/cgroup-v2.rst).
#pragma once

#include <cstdint>
#include <string>

namespace holdfast {

// Returns the machine's memory, or the least limit of the process's cgroups if
// it is smaller. `root` is where the file systems are, for tests.
uint64_t HostMemoryBytes(const std::string& root = "");

}  // namespace holdfast
