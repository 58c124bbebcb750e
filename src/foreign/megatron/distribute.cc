#include <algorithm>
#include <numeric>
#include <tuple>

#include "holdfast/megatron/megatron.h"

namespace holdfast::megatron {

Result<std::vector<int>> DistributeShardsToRanks(
    std::span<const ShardHolders> shards, int rank_count) {
  for (const ShardHolders& shard : shards) {
    const bool fits =
        !shard.ranks.empty() &&
        std::all_of(shard.ranks.begin(), shard.ranks.end(),
                    [&](int rank) { return rank >= 0 && rank < rank_count; });
    if (!fits) {
      return InvalidArgumentError(
          "shard of '" + shard.id.key +
          "' is held by no rank, or by one outside [0, " +
          std::to_string(rank_count) + ")");
    }
  }
  std::vector<size_t> order(shards.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto rank_of = [&](size_t i) {
    const ShardHolders& shard = shards[i];
    return std::make_tuple(shard.is_cross_group, shard.ranks.size(),
                           ~shard.byte_count);
  };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (rank_of(a) != rank_of(b)) return rank_of(a) < rank_of(b);
    return shards[a].id < shards[b].id;
  });
  std::vector<uint64_t> bytes(static_cast<size_t>(rank_count), 0);
  std::vector<int> owners(shards.size(), 0);
  for (const size_t i : order) {
    const ShardHolders& shard = shards[i];
    const int owner = *std::min_element(
        shard.ranks.begin(), shard.ranks.end(), [&](int a, int b) {
          return std::make_pair(bytes[static_cast<size_t>(a)], a) <
                 std::make_pair(bytes[static_cast<size_t>(b)], b);
        });
    owners[i] = owner;
    bytes[static_cast<size_t>(owner)] += shard.byte_count;
  }
  return owners;
}

}  // namespace holdfast::megatron
