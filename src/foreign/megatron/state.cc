#include "holdfast/megatron/state.h"

#include <algorithm>

#include "foreign/megatron/python_text.h"
#include "ground/base/status_macros.h"
#include "ground/tensor/box.h"
#include "ground/tensor/copy.h"

namespace holdfast::megatron {
namespace {

std::string KeyText(const StateKey& key) {
  if (const auto* index = std::get_if<int64_t>(&key)) {
    return std::to_string(*index);
  }
  return std::get<std::string>(key);
}

std::string LevelText(const StatePath& path) {
  std::string text;
  for (const StateKey& key : path) {
    text += (text.empty() ? "" : ", ") + (std::holds_alternative<int64_t>(key)
                                              ? KeyText(key)
                                              : PythonRepr(KeyText(key)));
  }
  return "(" + text + (path.size() == 1 ? ",)" : ")");
}

std::string LeafText(const ShardedState& state) {
  if (const auto* tensor = state.As<ShardedTensor>()) return tensor->ToString();
  if (const auto* object = state.As<ShardedObject>()) return object->ToString();
  if (state.is_dict()) return "a dict";
  if (state.is_list()) return "a list";
  if (state.As<Array>() != nullptr) return "a tensor";
  return "a value";
}

void Flatten(const ShardedState& state, StatePath& path,
             std::vector<StateLeaf>& leaves) {
  if (const auto* dict = state.As<StateDict>()) {
    for (const auto& [key, child] : *dict) {
      path.push_back(key);
      Flatten(child, path, leaves);
      path.pop_back();
    }
    return;
  }
  if (const auto* list = state.As<StateList>()) {
    for (size_t i = 0; i < list->size(); ++i) {
      path.emplace_back(static_cast<int64_t>(i));
      Flatten((*list)[i], path, leaves);
      path.pop_back();
    }
    return;
  }
  leaves.push_back({path, &state});
}

bool IsContainer(const ShardedState& state) {
  return state.is_dict() || state.is_list();
}

bool IsEmptyContainer(const ShardedState& state) {
  const auto* dict = state.As<StateDict>();
  const auto* list = state.As<StateList>();
  return (dict != nullptr && dict->empty()) ||
         (list != nullptr && list->empty());
}

using Wanted = std::function<bool(const ShardedState&)>;

// Adds a child to `matching`, to `rest`, or its parts to both.
void SplitChild(const StateKey& key, const ShardedState& child,
                const Wanted& wanted, StateDict& matching, StateDict& rest) {
  if (!IsContainer(child)) {
    (wanted(child) ? matching : rest).push_back({key, child});
    return;
  }
  StateSplit split = SplitState(child, wanted);
  if (!IsEmptyContainer(split.matching)) {
    matching.push_back({key, std::move(split.matching)});
  }
  if (!IsEmptyContainer(split.rest) || IsEmptyContainer(child)) {
    rest.push_back({key, std::move(split.rest)});
  }
}

ShardedState* FindKey(StateDict& dict, const StateKey& key) {
  const auto found = std::find_if(
      dict.begin(), dict.end(), [&](const auto& e) { return e.first == key; });
  return found == dict.end() ? nullptr : &found->second;
}

class Merger {
 public:
  Result<ShardedState> Merge(ShardedState a, const ShardedState& b) {
    if (a.is_dict() && b.is_dict()) return MergeDicts(std::move(a), b);
    if (a.is_list() && b.is_list()) return MergeLists(std::move(a), b);
    if (a.is_list() && b.is_dict()) return MergeByIndex(std::move(a), b);
    return InvalidArgumentError(
        "Duplicate non-dict and non-list values encountered: `" + LeafText(a) +
        "` and `" + LeafText(b) + "` (at level " + LevelText(path_) + ")");
  }

 private:
  Status MergeInto(ShardedState& a, const StateKey& key,
                   const ShardedState& b) {
    path_.push_back(key);
    HF_ASSIGN_OR_RETURN(a, Merge(std::move(a), b));
    path_.pop_back();
    return Status();
  }

  Result<ShardedState> MergeDicts(ShardedState a, const ShardedState& b) {
    StateDict& dict = *a.As<StateDict>();
    for (const auto& [key, value] : *b.As<StateDict>()) {
      if (ShardedState* old = FindKey(dict, key)) {
        HF_RETURN_IF_ERROR(MergeInto(*old, key, value));
      } else {
        dict.push_back({key, value});
      }
    }
    return a;
  }

  Result<ShardedState> MergeLists(ShardedState a, const ShardedState& b) {
    StateList& list = *a.As<StateList>();
    const StateList& other = *b.As<StateList>();
    if (list.size() != other.size()) {
      return InvalidArgumentError(
          "Cannot merge two lists with different lengths (" +
          std::to_string(list.size()) + " and " + std::to_string(other.size()) +
          ", encountered at level " + LevelText(path_) + ")");
    }
    for (size_t i = 0; i < list.size(); ++i) {
      HF_RETURN_IF_ERROR(MergeInto(list[i], static_cast<int64_t>(i), other[i]));
    }
    return a;
  }

  // Merges a list with the elements that were removed from it, inserting each
  // at its index.
  Result<ShardedState> MergeByIndex(ShardedState a, const ShardedState& b) {
    StateList& list = *a.As<StateList>();
    for (const auto& [key, value] : *b.As<StateDict>()) {
      const auto* index = std::get_if<int64_t>(&key);
      if (index == nullptr || *index < 0 ||
          static_cast<size_t>(*index) > list.size()) {
        return InvalidArgumentError(
            "Cannot merge " + KeyText(key) + " into a list of " +
            std::to_string(list.size()) + " at level " + LevelText(path_));
      }
      list.insert(list.begin() + static_cast<std::ptrdiff_t>(*index), value);
    }
    return a;
  }

  StatePath path_;
};

template <typename Fn>
Result<ShardedState> MapLeaves(const ShardedState& state, const Fn& fn) {
  if (const auto* dict = state.As<StateDict>()) {
    StateDict mapped;
    for (const auto& [key, child] : *dict) {
      HF_ASSIGN_OR_RETURN(ShardedState value, MapLeaves(child, fn));
      mapped.push_back({key, std::move(value)});
    }
    return ShardedState{std::move(mapped)};
  }
  if (const auto* list = state.As<StateList>()) {
    StateList mapped;
    for (const ShardedState& child : *list) {
      HF_ASSIGN_OR_RETURN(ShardedState value, MapLeaves(child, fn));
      mapped.push_back(std::move(value));
    }
    return ShardedState{std::move(mapped)};
  }
  return fn(state);
}

Result<ShardedState> FoldBack(const ShardedState& state, ShardedState loaded) {
  if (const auto* factory = state.As<ShardedTensorFactory>()) {
    HF_ASSIGN_OR_RETURN(Array merged, factory->merge(loaded));
    return ShardedState{std::move(merged)};
  }
  const auto* dict = state.As<StateDict>();
  if (auto* target = loaded.As<StateDict>(); dict != nullptr && target) {
    for (const auto& [key, child] : *dict) {
      ShardedState* value = FindKey(*target, key);
      if (value == nullptr) continue;  // the load dropped it
      HF_ASSIGN_OR_RETURN(*value, FoldBack(child, std::move(*value)));
    }
  }
  const auto* list = state.As<StateList>();
  if (auto* target = loaded.As<StateList>(); list != nullptr && target) {
    for (size_t i = 0; i < std::min(list->size(), target->size()); ++i) {
      HF_ASSIGN_OR_RETURN((*target)[i],
                          FoldBack((*list)[i], std::move((*target)[i])));
    }
  }
  return loaded;
}

}  // namespace

std::string StatePathToString(const StatePath& path) {
  std::string text;
  for (const StateKey& key : path) {
    text += (text.empty() ? "" : ".") + KeyText(key);
  }
  return text;
}

std::vector<StateLeaf> FlattenState(const ShardedState& state) {
  std::vector<StateLeaf> leaves;
  StatePath path;
  Flatten(state, path, leaves);
  return leaves;
}

StateSplit SplitState(const ShardedState& state, const Wanted& wanted) {
  StateDict matching;
  StateDict rest;
  if (const auto* dict = state.As<StateDict>()) {
    for (const auto& [key, child] : *dict) {
      SplitChild(key, child, wanted, matching, rest);
    }
    return {{std::move(matching)}, {std::move(rest)}};
  }
  if (const auto* list = state.As<StateList>()) {
    for (size_t i = 0; i < list->size(); ++i) {
      SplitChild(static_cast<int64_t>(i), (*list)[i], wanted, matching, rest);
    }
    StateList rest_list;
    for (auto& [key, child] : rest) rest_list.push_back(std::move(child));
    return {{std::move(matching)}, {std::move(rest_list)}};
  }
  StateSplit split = {{StateDict()}, {StateDict()}};
  (wanted(state) ? split.matching : split.rest) = state;
  return split;
}

bool IsSharded(const ShardedState& leaf) {
  return leaf.As<ShardedTensor>() != nullptr ||
         leaf.As<ShardedObject>() != nullptr ||
         leaf.As<ShardedTensorFactory>() != nullptr ||
         leaf.As<LocalNonpersistentObject>() != nullptr;
}

Result<ShardedState> MergeStates(ShardedState a, const ShardedState& b) {
  return Merger().Merge(std::move(a), b);
}

Result<ShardedState> ApplyFactories(const ShardedState& state) {
  return MapLeaves(state, [](const ShardedState& leaf) -> Result<ShardedState> {
    const auto* factory = leaf.As<ShardedTensorFactory>();
    return factory == nullptr ? Result<ShardedState>(leaf)
                              : factory->build(*factory);
  });
}

Result<ShardedState> ApplyFactoryMerges(const ShardedState& state,
                                        ShardedState loaded) {
  return FoldBack(state, std::move(loaded));
}

Result<RankState> RankStateOf(const ShardedState& state) {
  HF_ASSIGN_OR_RETURN(const ShardedState built, ApplyFactories(state));
  RankState rank;
  for (const StateLeaf& leaf : FlattenState(built)) {
    if (const auto* tensor = leaf.leaf->As<ShardedTensor>()) {
      const auto& range = tensor->flattened_range;
      if (range && range->start == range->stop) continue;
      rank.tensors.push_back(*tensor);
    } else if (const auto* object = leaf.leaf->As<ShardedObject>()) {
      rank.objects.push_back(*object);
    }
  }
  return rank;
}

Result<Array> Concatenate(std::span<const Array> parts, int axis) {
  if (parts.empty()) return InvalidArgumentError("nothing to concatenate");
  Shape shape = parts[0].shape();
  if (axis < 0 || static_cast<size_t>(axis) >= shape.size()) {
    return InvalidArgumentError("cannot concatenate along axis " +
                                std::to_string(axis) + " of shape " +
                                ShapeToString(shape));
  }
  const auto along = static_cast<size_t>(axis);
  shape[along] = 0;
  for (const Array& part : parts) {
    Shape other = part.shape();
    if (other.size() == shape.size()) {
      other[along] = shape[along];
    }
    if (other != shape || part.dtype() != parts[0].dtype()) {
      return InvalidArgumentError("cannot concatenate " +
                                  ShapeToString(part.shape()) + " and " +
                                  ShapeToString(parts[0].shape()) +
                                  " along axis " + std::to_string(axis));
    }
    shape[along] += part.shape()[along];
  }
  HF_ASSIGN_OR_RETURN(Array whole, Array::Allocate(parts[0].dtype(), shape));
  Box box = {Shape(shape.size(), 0), shape};
  for (const Array& part : parts) {
    box.shape[along] = part.shape()[along];
    CopyStrided(part.view(), Subview(whole.mutable_view(), box));
    box.origin[along] += box.shape[along];
  }
  return whole;
}

Result<ShardedTensorFactory> MakeSplitFactory(
    std::string key, const ConstArrayView& data, int axis, int part_count,
    int64_t rank, int64_t fragment_count, std::vector<RankOffset> offsets,
    const ShardArgs& args) {
  if (axis < 0 || static_cast<size_t>(axis) >= data.shape.size() ||
      part_count < 1 ||
      data.shape[static_cast<size_t>(axis)] % part_count != 0) {
    return InvalidArgumentError("cannot split axis " + std::to_string(axis) +
                                " of shape " + ShapeToString(data.shape) +
                                " into " + std::to_string(part_count) +
                                " equal parts");
  }
  ShardedTensorFactory factory;
  factory.key = std::move(key);
  factory.data = data;
  factory.replica_id = args.replica_id;
  factory.build =
      [=](const ShardedTensorFactory& self) -> Result<ShardedState> {
    const auto along = static_cast<size_t>(axis);
    StateList parts;
    Box box = BoxOf(self.data.shape);
    box.shape[along] /= part_count;
    for (int part = 0; part < part_count; ++part) {
      std::vector<RankOffset> part_offsets = offsets;
      part_offsets.push_back({args.prepend_axis_num + axis,
                              part * fragment_count + rank,
                              part_count * fragment_count});
      ShardArgs part_args = args;
      part_args.replica_id = self.replica_id;
      HF_ASSIGN_OR_RETURN(
          ShardedTensor tensor,
          ShardedTensor::FromRankOffsets(self.key, Subview(self.data, box),
                                         part_offsets, part_args));
      parts.push_back({std::move(tensor)});
      box.origin[along] += box.shape[along];
    }
    return ShardedState{std::move(parts)};
  };
  factory.merge = [axis](const ShardedState& loaded) -> Result<Array> {
    std::vector<Array> parts;
    for (const StateLeaf& leaf : FlattenState(loaded)) {
      const auto* array = leaf.leaf->As<Array>();
      if (array == nullptr) {
        return InvalidArgumentError("part " + StatePathToString(leaf.path) +
                                    " of a tensor was not loaded");
      }
      parts.push_back(*array);
    }
    return Concatenate(parts, axis);
  };
  return factory;
}

}  // namespace holdfast::megatron
