#include <algorithm>
#include <map>
#include <unordered_map>

#include "foreign/megatron/error.h"
#include "foreign/megatron/python_text.h"
#include "ground/base/status_macros.h"
#include "ground/tensor/box.h"
#include "holdfast/megatron/megatron.h"

namespace holdfast::megatron {
namespace {

// The maximum number of boxes and keys that a message lists.
constexpr size_t kListedMax = 8;

template <typename T>
struct Held {
  size_t rank;
  const T* part;
};
using HeldTensor = Held<ShardedTensor>;
using HeldObject = Held<ShardedObject>;

// The shards of a cell of the fragmentation grid, with the ranks that hold
// them.
struct Cell {
  std::vector<HeldTensor> main;
  std::vector<HeldTensor> all;
};

std::string RanksText(const std::vector<HeldTensor>& held) {
  std::string text;
  for (size_t i = 0; i < held.size() && i < kListedMax; ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(held[i].rank);
  }
  return held.size() > kListedMax ? text + ", ..." : text;
}

Status Inconsistent(std::string_view got, std::string_view want,
                    const HeldTensor& first, size_t rank) {
  const std::string text = "(" + std::string(got) + ", " + std::string(want) +
                           ", " + first.part->ToString() + "): rank " +
                           std::to_string(rank) + " and rank " +
                           std::to_string(first.rank) + " disagree about key " +
                           PythonRepr(first.part->key);
  return MakeError(StatusCode::kInvalidArgument, "INCONSISTENT_SHARDS",
                   "AssertionError", text);
}

Status CheckAgree(const std::vector<HeldTensor>& held) {
  const HeldTensor& first = held[0];
  const ShardedTensor& want = *first.part;
  const auto truth = [](bool value) { return value ? "True" : "False"; };
  for (const HeldTensor& other : held) {
    const ShardedTensor& got = *other.part;
    if (got.dtype != want.dtype) {
      return Inconsistent(TorchName(got.dtype), TorchName(want.dtype), first,
                          other.rank);
    }
    if (got.global_shape != want.global_shape) {
      return Inconsistent(ShapeToString(got.global_shape),
                          ShapeToString(want.global_shape), first, other.rank);
    }
    if (got.local_shape != want.local_shape ||
        got.prepend_axis_num != want.prepend_axis_num) {
      return Inconsistent(ShapeToString(got.local_shape),
                          ShapeToString(want.local_shape), first, other.rank);
    }
    if (got.flattened_range.has_value() != want.flattened_range.has_value()) {
      return Inconsistent(truth(got.flattened_range.has_value()),
                          truth(want.flattened_range.has_value()), first,
                          other.rank);
    }
  }
  return Status();
}

// Counts the shards of one key in its grid of fragments.
class KeyGrid {
 public:
  explicit KeyGrid(const std::vector<HeldTensor>& held)
      : held_(held),
        first_(*held[0].part),
        grid_(first_.axis_fragmentations
                  ? *first_.axis_fragmentations
                  : Shape(first_.global_shape.size(), 1)) {}

  Status Count() {
    for (const HeldTensor& held : held_) {
      HF_ASSIGN_OR_RETURN(const Shape at,
                          held.part->LocalChunkOffsetInGlobal());
      HF_ASSIGN_OR_RETURN(const int64_t index, IndexOf(at, held));
      Cell& cell = cells_[index];
      cell.all.push_back(held);
      if (IsMainReplica(held.part->replica_id)) cell.main.push_back(held);
    }
    return Status();
  }

  // Checks that every cell is covered once; with flattened ranges, at least
  // once.
  Status CheckCovered() const {
    const bool is_flat = first_.flattened_range.has_value();
    const auto bad_count = [&](size_t count) {
      return is_flat ? count == 0 : count != 1;
    };
    std::string boxes;
    size_t listed = 0;
    bool is_bad = static_cast<int64_t>(cells_.size()) != ElementCount(grid_);
    for (const auto& [index, cell] : cells_) {
      if (!bad_count(cell.main.size())) continue;
      is_bad = true;
      if (++listed > kListedMax) continue;
      boxes += (boxes.empty() ? "" : "; ") + BoxText(index);
      boxes += cell.main.empty()
                   ? std::string(" by no main replica")
                   : " " + std::to_string(cell.main.size()) + " times (ranks " +
                         RanksText(cell.main) + ")";
    }
    if (!is_bad) return Status();
    AppendAbsent(boxes);
    const auto count_of = [&](int64_t index) -> int64_t {
      const auto cell = cells_.find(index);
      const int64_t count =
          cell == cells_.end() ? 0
                               : static_cast<int64_t>(cell->second.main.size());
      return is_flat ? std::min<int64_t>(count, 1) : count;
    };
    return CheckpointingError(
        StatusCode::kInvalidArgument, "INVALID_ACCESS_PATTERN",
        "Invalid access pattern for " + first_.ToString() + ": " +
            CountTensorText(grid_, !is_flat, count_of) + ". Key " +
            PythonRepr(first_.key) + " is held: " + boxes);
  }

  Status CheckFlattened() const {
    for (const auto& [index, cell] : cells_) {
      HF_RETURN_IF_ERROR(CheckRanges(cell, index));
    }
    return Status();
  }

 private:
  Result<int64_t> IndexOf(const Shape& at, const HeldTensor& held) const {
    int64_t index = 0;
    for (size_t i = 0; i < at.size(); ++i) {
      if (at[i] >= grid_[i]) {
        return MakeError(StatusCode::kInvalidArgument, "INVALID_ACCESS_PATTERN",
                         "IndexError",
                         "Invalid access pattern: shard " + ShapeToString(at) +
                             " of rank " + std::to_string(held.rank) +
                             " is outside of the " + ShapeToString(grid_) +
                             " fragments of " + first_.ToString());
      }
      index = index * grid_[i] + at[i];
    }
    return index;
  }

  // Returns the cell's box in the global tensor.
  std::string BoxText(int64_t index) const {
    const Shape shape = first_.BoxShape();
    Box box = {Shape(grid_.size(), 0), shape};
    for (size_t i = grid_.size(); i-- > 0;) {
      box.origin[i] = index % grid_[i] * shape[i];
      index /= grid_[i];
    }
    return BoxToString(box);
  }

  // Appends the cells that no rank has.
  void AppendAbsent(std::string& boxes) const {
    const int64_t cell_count = ElementCount(grid_);
    size_t listed = 0;
    int64_t absent = cell_count - static_cast<int64_t>(cells_.size());
    for (int64_t i = 0; i < cell_count && listed < kListedMax && absent > 0;
         ++i) {
      if (cells_.contains(i)) continue;
      boxes += (boxes.empty() ? "" : "; ") + BoxText(i) + " by no rank";
      ++listed;
      --absent;
    }
    if (absent > 0) {
      boxes += "; and " + std::to_string(absent) + " more by no rank";
    }
  }

  Status CheckRanges(const Cell& cell, int64_t index) const {
    std::vector<FlatRange> ranges;
    for (const HeldTensor& held : cell.main) {
      ranges.push_back(*held.part->flattened_range);
    }
    std::sort(ranges.begin(), ranges.end());
    const int64_t element_count = ElementCount(first_.local_shape);
    std::string wrong;
    int64_t at = 0;
    for (const FlatRange& range : ranges) {
      if (range.start != at) {
        const auto [low, high] = std::minmax(at, range.start);
        wrong += (wrong.empty() ? "" : "; ") + std::string("elements [") +
                 std::to_string(low) + ", " + std::to_string(high) +
                 (range.start > at ? ") by no rank" : ") more than once");
      }
      at = range.stop;
    }
    if (at != element_count) {
      wrong += (wrong.empty() ? "" : "; ") + std::string("elements [") +
               std::to_string(at) + ", " + std::to_string(element_count) +
               ") by no rank";
    }
    if (wrong.empty()) return Status();
    return CheckpointingError(
        StatusCode::kInvalidArgument, "FLATTENED_NOT_COVERED",
        "Flattened ranges dont cover the whole shard " +
            cell.all[0].part->ToString() + " of size " +
            std::to_string(element_count) + ". Ranges: " + RangesText(ranges) +
            ". Key " + PythonRepr(first_.key) + ", box " + BoxText(index) +
            ", is held: " + wrong);
  }

  // Returns the ranges as numpy prints two arrays, with numbers padded to one
  // width.
  static std::string RangesText(const std::vector<FlatRange>& ranges) {
    std::vector<int64_t> starts;
    std::vector<int64_t> stops;
    for (const FlatRange& range : ranges) {
      starts.push_back(range.start);
      stops.push_back(range.stop);
    }
    return "(" + NumpyArrayText(starts) + ", " + NumpyArrayText(stops) + ")";
  }

  const std::vector<HeldTensor>& held_;
  const ShardedTensor& first_;
  const Shape grid_;
  std::map<int64_t, Cell> cells_;
};

Status ValidateTensor(const std::vector<HeldTensor>& held) {
  HF_RETURN_IF_ERROR(CheckAgree(held));
  for (const HeldTensor& part : held) {
    const Status status = part.part->Check();
    if (!status.ok()) {
      return WithNote(status, " on rank " + std::to_string(part.rank));
    }
  }
  KeyGrid grid(held);
  HF_RETURN_IF_ERROR(grid.Count());
  if (held[0].part->flattened_range) HF_RETURN_IF_ERROR(grid.CheckFlattened());
  return grid.CheckCovered();
}

Status ValidateObject(const std::vector<HeldObject>& held) {
  std::map<std::string, std::vector<size_t>> names;
  int64_t main_count = 0;
  for (const HeldObject& object : held) {
    if (!IsMainReplica(object.part->replica_id)) continue;
    names[object.part->UniqueKey()].push_back(object.rank);
    ++main_count;
  }
  std::string doubled;
  for (const auto& [name, ranks] : names) {
    if (ranks.size() < 2) continue;
    doubled += (doubled.empty() ? "" : ", ") + PythonRepr(name);
  }
  if (!doubled.empty()) {
    return CheckpointingError(
        StatusCode::kInvalidArgument, "DUPLICATE_OBJECTS",
        "Duplicate ShardedObject keys: [" + doubled + "]");
  }
  const int64_t want = ElementCount(held[0].part->global_shape);
  if (main_count == want) return Status();
  return CheckpointingError(
      StatusCode::kInvalidArgument, "INVALID_ACCESS_PATTERN",
      "Invalid access pattern: " + std::to_string(want - main_count) +
          " ShardedObject are missing. Key " + PythonRepr(held[0].part->key) +
          " has " + std::to_string(main_count) + " of " + std::to_string(want));
}

template <typename T>
using ByKey = std::vector<std::pair<std::string_view, std::vector<Held<T>>>>;

// Groups the ranks' parts by key, in order of first appearance.
template <typename T>
ByKey<T> GroupByKey(std::span<const RankState* const> ranks,
                    std::vector<T> RankState::* parts) {
  ByKey<T> groups;
  std::unordered_map<std::string_view, size_t> places;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    for (const T& part : ranks[rank]->*parts) {
      const auto [place, is_new] = places.emplace(part.key, groups.size());
      if (is_new) groups.push_back({part.key, {}});
      groups[place->second].second.push_back({rank, &part});
    }
  }
  return groups;
}

}  // namespace

Status ValidateShardingIntegrity(std::span<const RankState* const> ranks) {
  Status first;
  std::string others;
  size_t bad_count = 0;
  const auto note = [&](std::string_view key, const Status& status) {
    if (status.ok()) return;
    ++bad_count;
    if (first.ok()) {
      first = status;
    } else if (bad_count <= kListedMax) {
      others += (others.empty() ? "" : ", ") + PythonRepr(key);
    } else if (bad_count == kListedMax + 1) {
      others += ", ...";
    }
  };
  for (const auto& [key, held] : GroupByKey(ranks, &RankState::tensors)) {
    note(key, ValidateTensor(held));
  }
  for (const auto& [key, held] : GroupByKey(ranks, &RankState::objects)) {
    note(key, ValidateObject(held));
  }
  if (bad_count <= 1) return first;
  return WithNote(first, "; " + std::to_string(bad_count - 1) +
                             " more keys are wrong: " + others);
}

Status ValidateShardingIntegrity(std::span<const RankState> ranks) {
  std::vector<const RankState*> states;
  for (const RankState& rank : ranks) states.push_back(&rank);
  return ValidateShardingIntegrity(std::span<const RankState* const>(states));
}

}  // namespace holdfast::megatron
