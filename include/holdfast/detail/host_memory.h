// How much of the machine's memory this process may use.
//
// Thread-safety: any thread. Units: bytes. Errors: none; a limit that cannot be
// read does not count.
// Formats: cgroups of version 1 and 2, as the kernel's documentation has them
// (admin-guide/cgroup-v1/memory.rst, admin-guide/cgroup-v2.rst); /proc/meminfo.
#pragma once

#include <cstdint>
#include <string>

#include "holdfast/export.h"

namespace holdfast HOLDFAST_EXPORT {

// Returns the machine's memory, or the least limit of the process's cgroups and
// those above them if it is smaller. It is read once for each process.
uint64_t HostMemoryBytes();
// Reads it now. `root` is where the file systems are, for tests.
uint64_t ReadHostMemoryBytes(const std::string& root = "");

// Returns how much the process can take now: what the machine has available, or
// what is left of the least limit. Pages of files that were not used lately
// count as available, because the system drops them when memory is short.
uint64_t AvailableHostMemoryBytes(const std::string& root = "");

}  // namespace holdfast
