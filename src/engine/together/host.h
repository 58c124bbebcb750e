// Which ranks share a host: a kernel, a namespace of processes and a user, so
// that one can map the memory of another.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace holdfast {

// Equal for processes of one host, different otherwise; where the system does
// not say, like no other.
std::string HostKey();

// For each rank, the ranks that share its host, ascending and itself included.
// `shares` says which ranks can share at all; if one rank of a host cannot,
// none of them does.
std::vector<std::vector<int64_t>> RanksByHost(
    const std::vector<std::string>& keys, const std::vector<bool>& shares);

}  // namespace holdfast
