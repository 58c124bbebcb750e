// Nested sharded state dicts, as Megatron's applications pass them: dicts and
// lists whose leaves are shards, factories of shards, objects that stay local,
// and plain values (the common state). A tuple is a plain value.
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

// Never stored; a load returns the caller's own value.
struct LocalNonpersistentObject {
  Tree value;
};

// A tensor that is stored as different shards than those held in memory.
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
  // Null if the node has another type.
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

// "a.b.0": keys and list indices.
using StatePath = std::vector<StateKey>;
std::string StatePathToString(const StatePath& path);

struct StateLeaf {
  StatePath path;
  const ShardedState* leaf;  // neither dict nor list
};
// Depth first, in order.
std::vector<StateLeaf> FlattenState(const ShardedState& state);

// Splits the leaves into those that are `wanted`, and the rest. Containers are
// kept where one of their leaves is; empty containers go to the rest. Lists
// become dicts by index on the wanted side (they may have gaps), as in
// Megatron.
struct StateSplit {
  ShardedState matching;
  ShardedState rest;
};
StateSplit SplitState(const ShardedState& state,
                      const std::function<bool(const ShardedState&)>& wanted);
// True for shards, factories and nonpersistent objects.
bool IsSharded(const ShardedState& leaf);

// Merges `b` into `a`: dicts by key, lists by index; a dict by index is merged
// into a list. `Cannot merge two lists with different lengths (…)`, `Duplicate
// non-dict and non-list values encountered: …`.
Result<ShardedState> MergeStates(ShardedState a, const ShardedState& b);

// Replaces each factory by the state that it builds.
Result<ShardedState> ApplyFactories(const ShardedState& state);
// Returns `loaded` after each factory in `state` has merged the parts that it
// built.
Result<ShardedState> ApplyFactoryMerges(const ShardedState& state,
                                        ShardedState loaded);

// The shards that a rank saves or requests: those after ApplyFactories, except
// those with an empty flattened_range.
Result<RankState> RankStateOf(const ShardedState& state);

// A tensor of `part_count` equal parts along local axis `axis`, where each part
// is cut over `fragment_count` ranks: part p of rank r is fragment p *
// fragment_count + r of part_count * fragment_count (swiglu's fc1). `offsets`
// are for the other axes. `merge` concatenates.
Result<ShardedTensorFactory> MakeSplitFactory(
    std::string key, const ConstArrayView& data, int axis, int part_count,
    int64_t rank, int64_t fragment_count, std::vector<RankOffset> offsets,
    const ShardArgs& args = {});

// Joins the arrays along `axis`. InvalidArgument unless their other axes agree.
Result<Array> Concatenate(std::span<const Array> parts, int axis);

}  // namespace megatron
}  // namespace holdfast
