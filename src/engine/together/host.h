// Determines which ranks share a host: a kernel, a process namespace and a
// user, so that one rank can map the memory of another.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace holdfast {

// Returns a key that is equal for processes on one host and different for
// others. If the system does not report the host, the key differs from every
// other key.
std::string HostKey();

// Returns for each rank the ranks that share its host, ascending, including
// itself. `shares` says which ranks are able to share memory; if one rank of a
// host is not, no rank of that host shares.
std::vector<std::vector<int64_t>> RanksByHost(
    const std::vector<std::string>& keys, const std::vector<bool>& shares);

}  // namespace holdfast
