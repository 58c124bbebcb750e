// Megatron Core's sharded state: which part of which global tensor each rank
// holds, and the rules that make the parts of all ranks one checkpoint.
//
// Part of three headers: this one (parts and their rules), megatron_state.h
// (nested state dicts) and megatron_zarr.h (files). Names and behaviour are
// those of megatron.core.dist_checkpointing 0.8 to 0.15.3, the last releases
// with a zarr back end; what is better on purpose is said where it is.
//
// Thread-safety: values and pure functions.
// Ownership: tensors borrow their elements (`data`); everything else is owned.
// Units: shapes and offsets in elements, outermost axis first.
// Errors: a failure that Megatron knows carries its own text and class:
// `ErrorOf(status)` takes the message
//   CheckpointingException[ARRAY_NOT_FOUND]: Array /ckpt/w not found
// apart. `code` is ours and stable; `python_class` is what Megatron raises;
// `text` contains Megatron's text and may say more after it.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/export.h"
#include "holdfast/status.h"
#include "holdfast/tensor.h"

namespace holdfast HOLDFAST_EXPORT {
namespace megatron {

struct Error {
  std::string code;          // "ARRAY_NOT_FOUND"
  std::string python_class;  // "CheckpointingException", "ValueError", ...
  std::string text;
};
// Nullopt when ok or when Megatron has no such failure (disk full, say).
std::optional<Error> ErrorOf(const Status& status);
// ErrorOf(status)->code, or "".
std::string MegatronErrorCode(const Status& status);
// A status that ErrorOf takes apart again.
Status MakeError(StatusCode status_code, std::string_view code,
                 std::string_view python_class, std::string_view text);

// An int, or a tuple such as (PP, TP, DP).
struct ReplicaId {
  std::vector<int64_t> parts = {0};
  bool is_tuple = false;

  static ReplicaId Int(int64_t id) { return {{id}, false}; }
  static ReplicaId Tuple(std::vector<int64_t> ids) {
    return {std::move(ids), true};
  }
  bool operator==(const ReplicaId&) const = default;
};
// All zeros; () too. Only the main replica is written.
bool IsMainReplica(const ReplicaId& replica_id);

// [start, stop) of the C-order elements of a local shard.
struct FlatRange {
  int64_t start = 0;
  int64_t stop = 0;

  auto operator<=>(const FlatRange&) const = default;
};

// `axis` counts the prepended axes too.
struct RankOffset {
  int64_t axis = 0;
  int64_t rank = 0;
  int64_t fragment_count = 1;
};

// One entry of a global slice: an index (prepended axes) or [start, stop).
struct SliceItem {
  bool is_index = false;
  int64_t start = 0;  // or the index
  int64_t stop = 0;

  bool operator==(const SliceItem&) const = default;
};

// How the shard that FromRankOffsets makes differs from the simplest.
struct ShardArgs {
  ReplicaId replica_id;
  int prepend_axis_num = 0;
  bool allow_shape_mismatch = false;
};

// One rank's part of a global tensor.
struct ShardedTensor {
  std::string key;  // identifies the global tensor; its directory on disk
  DType dtype = DType::kFloat32;
  // The shape without the prepended axes, which the next three have.
  Shape local_shape;
  Shape global_shape;
  Shape global_offset;
  // Parts that each axis is cut into; absent: cut unevenly (never in zarr).
  std::optional<Shape> axis_fragmentations;
  ReplicaId replica_id;
  int prepend_axis_num = 0;
  // Stored and requested global shape may differ; see megatron_zarr.h.
  bool allow_shape_mismatch = false;
  // The rank has only these elements of its local shard, as a 1-D tensor.
  std::optional<FlatRange> flattened_range;
  // The elements; `data.data` null: none (a load request, or metadata). The
  // shape is local_shape, or 1-D with a flattened_range.
  ConstArrayView data;
  // True when there are elements: a shard of none has data without a pointer.
  bool has_data = false;

  // Fills in shapes and offsets for `data` cut as the offsets say; the axes
  // not named are whole. A repeated axis: the last one counts.
  // INVALID_OFFSETS.
  static Result<ShardedTensor> FromRankOffsets(
      std::string key, const ConstArrayView& data,
      std::span<const RankOffset> offsets, const ShardArgs& args = {});
  // `data` is 1-D: the elements `range` of a shard of shape
  // `non_flat_local_shape`. INVALID_FLAT, INVALID_OFFSETS.
  static Result<ShardedTensor> FromRankOffsetsFlat(
      std::string key, const ConstArrayView& data,
      const Shape& non_flat_local_shape, std::span<const RankOffset> offsets,
      const FlatRange& range, const ShardArgs& args = {});

  // The constructor's checks: INVALID_DIMS, INVALID_OFFSETS, INVALID_FLAT,
  // INVALID_DATA. Ours beside them: negative extents and offsets, sums past
  // 2^62, flattened ranges backwards or outside the shard.
  Status Check() const;

  std::vector<SliceItem> GlobalSlice() const;
  // The local part with all axes; prepended ones have extent 1.
  Shape BoxShape() const;
  // The fragment's index along each axis. EMPTY_AXIS for an empty shard.
  Result<Shape> LocalChunkOffsetInGlobal() const;
  // One vector an axis: the coordinates of each element of flattened_range.
  // InvalidArgument without one.
  Result<std::vector<std::vector<int64_t>>> LocalCoordinates() const;
  // As above in the global tensor; a prepended axis has its one index.
  Result<std::vector<std::vector<int64_t>>> GlobalCoordinates() const;
  // The largest chunk shape that keeps every shard in chunks of its own:
  // global_shape // axis_fragmentations. NOT_DIVISIBLE unless
  // allow_shape_mismatch.
  Result<Shape> MaxAllowedChunks() const;
  // Rows [start, start + length) of local axis `dim` as shards of a tensor
  // that was narrowed so on every rank. Flattened: none or one, and only
  // dim 0 (NARROW_UNSUPPORTED).
  Result<std::vector<ShardedTensor>> Narrow(int dim, int64_t start,
                                            int64_t length) const;
  ShardedTensor WithoutData() const;
  // As Python prints it, without data.
  std::string ToString() const;
};

// An object that is not a tensor, one of prod(global_shape) equal-ranking ones
// of the key. Cannot be resharded.
struct ShardedObject {
  std::string key;
  Shape global_shape;
  Shape global_offset;
  ReplicaId replica_id;
  // A complete torch.save file of the object; empty in a request.
  std::string data;

  // `<key>/shard_<offset joined by .>_<shape joined by .>`.
  std::string UniqueKey() const;
  // Without data. One more offset than extents: the last extent is -1, not
  // known. BAD_OBJECT_NAME.
  static Result<ShardedObject> EmptyFromUniqueKey(
      std::string_view unique_key, const ReplicaId& replica_id = {});
  std::string ToString() const;
};

// Everything that one rank saves or asks for, with factories built and
// flattened.
struct RankState {
  std::vector<ShardedTensor> tensors;
  std::vector<ShardedObject> objects;
};

// Every element of every key is held by exactly one main replica. Counts shards
// in the grid of axis_fragmentations, as Megatron does, without making it; no
// elements are looked at. All bad keys are found; the first gives the error
// (Megatron's text, then the key and the missing or doubled boxes and ranks),
// the others are named after it. INVALID_ACCESS_PATTERN, INCONSISTENT_SHARDS,
// FLATTENED_NOT_COVERED, DUPLICATE_OBJECTS, EMPTY_AXIS.
// An axis that its fragments do not divide (allow_shape_mismatch) has a rest
// that nobody holds; that passes, as there.
Status ValidateShardingIntegrity(std::span<const RankState> ranks);
// The same on states that lie elsewhere.
Status ValidateShardingIntegrity(std::span<const RankState* const> ranks);

// A shard's place in a fully parallel save or load.
struct ShardId {
  std::string key;
  Shape global_offset;
  std::optional<FlatRange> flattened_range;

  std::strong_ordering operator<=>(const ShardId&) const = default;
};
struct ShardHolders {
  ShardId id;
  std::vector<int> ranks;  // that hold it; not empty
  uint64_t byte_count = 0;
  bool is_cross_group = false;  // another group's ranks take it too
};
// For each shard the rank that writes (or reads) it. Greedy: shards of one
// group first, then those with the fewest holders, the most bytes, by id; each
// goes to the holder with the least bytes so far, the first listed on ties.
// InvalidArgument for a rank outside [0, rank_count).
Result<std::vector<int>> DistributeShardsToRanks(
    std::span<const ShardHolders> shards, int rank_count);

// How a load treats keys that only one side has.
enum class StrictHandling : uint8_t {
  kAssumeOkUnexpected,  // the default: nothing is compared
  kLogUnexpected,
  kLogAll,
  kRaiseUnexpected,
  kRaiseAll,
  kReturnUnexpected,
  kReturnAll,
  kIgnoreAll,
};
std::string_view StrictHandlingName(StrictHandling strict);
// INVALID_STRICT.
Result<StrictHandling> ParseStrictFlag(std::string_view name);
// True when the checkpoint's keys, and the keys that all ranks ask for, matter.
bool NeedsCheckpointKeys(StrictHandling strict);
bool NeedsAllRanksKeys(StrictHandling strict);
bool ReturnsMismatchKeys(StrictHandling strict);

using KeySet = std::set<std::string, std::less<>>;
struct StrictOutcome {
  KeySet missing;     // in the checkpoint, asked for by no rank
  KeySet unexpected;  // asked for by this rank, not in the checkpoint
  // Keys to leave out of the request: unexpected, where they are tolerated.
  KeySet dropped;
  std::vector<std::string> warnings;  // Megatron's texts
};
// KEYS_MISMATCH. `all_ranks` is only looked at if NeedsAllRanksKeys.
Result<StrictOutcome> ApplyStrictness(StrictHandling strict,
                                      const KeySet& checkpoint_keys,
                                      const KeySet& this_rank,
                                      const KeySet& all_ranks);

}  // namespace megatron
}  // namespace holdfast
