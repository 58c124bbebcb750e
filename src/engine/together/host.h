// Determines which ranks share a host: a kernel, a process namespace and a
// user, so that one rank can map the memory of another.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace holdfast {

// Equal for processes on one host, different otherwise; where the system does
// not report it, different from every other key.
std::string HostKey();

// For each rank, the ranks that share its host, ascending and including itself.
// `shares` says which ranks are able to share; if one rank of a host is not, no
// rank of that host shares.
std::vector<std::vector<int64_t>> RanksByHost(
    const std::vector<std::string>& keys, const std::vector<bool>& shares);

}  // namespace holdfast
