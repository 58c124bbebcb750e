// Nested sharded state dicts, as Megatron's users pass them: dicts and lists
// whose leaves are shards, factories of shards, objects that stay local, and
// plain values (the common state). A tuple is a plain value.
//
// Thread-safety: values; factories run on the calling thread.
// Ownership: as megatron.h.
// Errors: InvalidArgument, with Megatron's message where it has one.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "holdfast/export.h"
#include "holdfast/megatron/megatron.h"
#include "holdfast/tree.h"

namespace holdfast HOLDFAST_EXPORT {
namespace megatron {

struct ShardedState;

// A value that is never stored. A load returns the caller's own value.
struct LocalNonpersistentObject {
  Tree value;
};

// A tensor whose stored shards differ from the tensor in memory.
struct ShardedTensorFactory {
  std::string key;
  ConstArrayView data;
  ReplicaId replica_id;
  std::optional<FlatRange> flattened_range;
  // Returns the shards that replace this factory.
  std::function<Result<ShardedState>(const ShardedTensorFactory&)> build;
  // Rebuilds the tensor from the loaded shards.
  std::function<Result<Array>(const ShardedState&)> merge;
};

using StateKey = std::variant<std::string, int64_t>;
struct StateEntry;
using StateDict = std::vector<StateEntry>;
using StateList = std::vector<ShardedState>;

// An Array is a loaded tensor, a Tree a plain value.
struct ShardedState {
  std::variant<StateDict, StateList, ShardedTensor, ShardedObject,
               ShardedTensorFactory, LocalNonpersistentObject, Array, Tree>
      node;

  bool is_dict() const { return node.index() == 0; }
  bool is_list() const { return node.index() == 1; }
  // Returns null if the node has another type.
  template <typename T>
  const T* As() const {
    return std::get_if<T>(&node);
  }
  template <typename T>
  T* As() {
    return std::get_if<T>(&node);
  }
};

struct StateEntry {
  StateKey first;
  ShardedState second;
};

// Keys and list indices; StatePathToString joins them: "a.b.0".
using StatePath = std::vector<StateKey>;
std::string StatePathToString(const StatePath& path);

struct StateLeaf {
  StatePath path;
  const ShardedState* leaf;  // neither a dict nor a list
};
// Returns the leaves depth first, in order.
std::vector<StateLeaf> FlattenState(const ShardedState& state);

// The result of SplitState.
struct StateSplit {
  ShardedState matching;
  ShardedState rest;
};
// Splits the leaves into those that are `wanted`, and the rest. Each side has
// the containers that its leaves are in; empty containers go to the rest. In
// `matching`, lists become dicts by index, because there may be gaps, as in
// Megatron.
StateSplit SplitState(const ShardedState& state,
                      const std::function<bool(const ShardedState&)>& wanted);
// True for shards, factories and nonpersistent objects.
bool IsSharded(const ShardedState& leaf);

// Merges `b` into `a`: dicts by key, lists by index, and a dict by index into a
// list. Fails with `Cannot merge two lists with different lengths (…)` or
// `Duplicate non-dict and non-list values encountered: …`.
Result<ShardedState> MergeStates(ShardedState a, const ShardedState& b);

// Returns the state with each factory replaced by the state that it builds.
Result<ShardedState> ApplyFactories(const ShardedState& state);
// Returns `loaded` with the parts of each factory in `state` merged by that
// factory.
Result<ShardedState> ApplyFactoryMerges(const ShardedState& state,
                                        ShardedState loaded);

// Returns the shards that a rank saves or requests: the shards after
// ApplyFactories, except those with an empty flattened_range.
Result<RankState> RankStateOf(const ShardedState& state);

// Makes a factory for a tensor that has `part_count` equal parts along local
// axis `axis`, such as SwiGLU's fc1. Each part is cut over `fragment_count`
// ranks: part p of rank r is stored as fragment p * fragment_count + r of
// part_count * fragment_count. `offsets` are for the other axes. The factory's
// `merge` concatenates the parts.
Result<ShardedTensorFactory> MakeSplitFactory(
    std::string key, const ConstArrayView& data, int axis, int part_count,
    int64_t rank, int64_t fragment_count, std::vector<RankOffset> offsets,
    const ShardArgs& args = {});

// Joins the arrays along `axis`. InvalidArgument unless their other axes agree.
Result<Array> Concatenate(std::span<const Array> parts, int axis);

}  // namespace megatron
}  // namespace holdfast
