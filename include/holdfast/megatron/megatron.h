// Megatron Core's sharded state: which part of which global tensor each rank
// holds, and the rules by which the parts of all ranks form one checkpoint.
//
// There are three headers: this one (parts and their rules), state.h (nested
// state dicts) and zarr.h (files). Names and behavior are those of
// megatron.core.dist_checkpointing 0.8 to 0.15.3; 0.15.3 is the last release
// with a zarr back end. Comments point out deliberate improvements.
//
// Thread-safety: values and pure functions.
// Ownership: tensors borrow their elements (`data`); everything else is owned.
// Units: shapes and offsets in elements, outermost axis first.
// Errors: a failure that Megatron has, too, carries Megatron's message and
// class. `ErrorOf(status)` parses a message such as
//   CheckpointingException[ARRAY_NOT_FOUND]: Array /ckpt/w not found
// `code` is holdfast's own and stable; `python_class` is the exception that
// Megatron raises; `text` starts with Megatron's text and may say more.
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
// Parses the status's message. Returns nullopt if the status is ok or Megatron
// has no such failure (e.g. disk full).
std::optional<Error> ErrorOf(const Status& status);
// Returns ErrorOf(status)->code, or "".
std::string MegatronErrorCode(const Status& status);
// Makes a status that ErrorOf can parse.
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
// Returns true if all parts are zero, also for (). Only the main replica is
// written.
bool IsMainReplica(const ReplicaId& replica_id);

// The C-order elements [start, stop) of a local shard.
struct FlatRange {
  int64_t start = 0;
  int64_t stop = 0;

  auto operator<=>(const FlatRange&) const = default;
};

// One rank's place along an axis that is cut into `fragment_count` parts.
// Prepended axes count in `axis`.
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

// Options of FromRankOffsets.
struct ShardArgs {
  ReplicaId replica_id;
  int prepend_axis_num = 0;
  bool allow_shape_mismatch = false;
};

// One rank's part of a global tensor.
struct ShardedTensor {
  std::string key;  // identifies the global tensor; its directory on disk
  DType dtype = DType::kFloat32;
  // The shape without the prepended axes; the next three include them.
  Shape local_shape;
  Shape global_shape;
  Shape global_offset;
  // The number of parts that each axis is cut into; absent if it is cut
  // unevenly (never in zarr).
  std::optional<Shape> axis_fragmentations;
  ReplicaId replica_id;
  int prepend_axis_num = 0;
  // The stored and the requested global shape may differ; see zarr.h.
  bool allow_shape_mismatch = false;
  // If set, the rank holds only these elements of its local shard, in a 1-D
  // tensor.
  std::optional<FlatRange> flattened_range;
  // The elements; `data.data` is null in a load request and in metadata. The
  // shape is local_shape, or 1-D with a flattened_range.
  ConstArrayView data;
  // True if the tensor has data. An empty shard may have data without a
  // pointer.
  bool has_data = false;

  // Makes a ShardedTensor whose shapes and offsets follow from `data` and from
  // `offsets`, which lists the axes that are cut. If an axis is repeated, its
  // last offset counts. INVALID_OFFSETS.
  static Result<ShardedTensor> FromRankOffsets(
      std::string key, const ConstArrayView& data,
      std::span<const RankOffset> offsets, const ShardArgs& args = {});
  // The same for 1-D `data`: the elements `range` of a shard with the shape
  // `non_flat_local_shape`. INVALID_FLAT, INVALID_OFFSETS.
  static Result<ShardedTensor> FromRankOffsetsFlat(
      std::string key, const ConstArrayView& data,
      const Shape& non_flat_local_shape, std::span<const RankOffset> offsets,
      const FlatRange& range, const ShardArgs& args = {});

  // Makes the checks of Megatron's constructor: INVALID_DIMS, INVALID_OFFSETS,
  // INVALID_FLAT, INVALID_DATA. In addition, refuses negative extents and
  // offsets, sums past 2^62, and flattened ranges that are reversed or outside
  // the shard.
  Status Check() const;

  std::vector<SliceItem> GlobalSlice() const;
  // Returns the shape of the local part with all axes; prepended axes have
  // extent 1.
  Shape BoxShape() const;
  // Returns the fragment's index along each axis. EMPTY_AXIS for an empty
  // shard.
  Result<Shape> LocalChunkOffsetInGlobal() const;
  // Returns the coordinates of each element of flattened_range: one vector per
  // axis. InvalidArgument without a flattened_range.
  Result<std::vector<std::vector<int64_t>>> LocalCoordinates() const;
  // The same in the global tensor; a prepended axis has its single index.
  Result<std::vector<std::vector<int64_t>>> GlobalCoordinates() const;
  // Returns the largest chunk shape with which no chunk belongs to two shards:
  // global_shape // axis_fragmentations. NOT_DIVISIBLE unless
  // allow_shape_mismatch.
  Result<Shape> MaxAllowedChunks() const;
  // Returns the part [start, start + length) of local axis `dim`, as shards of
  // a tensor that every rank narrows in the same way. With a flattened_range,
  // returns at most one shard, and supports only dim 0 (NARROW_UNSUPPORTED).
  Result<std::vector<ShardedTensor>> Narrow(int dim, int64_t start,
                                            int64_t length) const;
  ShardedTensor WithoutData() const;
  // Returns the text that Python prints, without data.
  std::string ToString() const;
};

// An object that is not a tensor: one of prod(global_shape) objects with the
// same key. It cannot be resharded.
struct ShardedObject {
  std::string key;
  Shape global_shape;
  Shape global_offset;
  ReplicaId replica_id;
  // A complete torch.save file of the object; empty in a request.
  std::string data;

  // Returns `<key>/shard_<offset joined by .>_<shape joined by .>`.
  std::string UniqueKey() const;
  // Parses such a name, and returns an object without data. The name has one
  // more offset than extents, so the last extent is unknown and becomes -1.
  // BAD_OBJECT_NAME.
  static Result<ShardedObject> EmptyFromUniqueKey(
      std::string_view unique_key, const ReplicaId& replica_id = {});
  std::string ToString() const;
};

// Everything that one rank saves or requests, after its factories are replaced
// by the shards that they build.
struct RankState {
  std::vector<ShardedTensor> tensors;
  std::vector<ShardedObject> objects;
};

// Checks that every element of every key is held by exactly one main replica.
// Counts shards in the grid of axis_fragmentations, as Megatron does, but
// without building the grid; reads no elements.
//
// The error has Megatron's text for the first bad key, then the key and the
// missing or duplicate boxes and ranks, then the names of all other bad keys.
// INVALID_ACCESS_PATTERN, INCONSISTENT_SHARDS, FLATTENED_NOT_COVERED,
// DUPLICATE_OBJECTS, EMPTY_AXIS.
//
// If an axis is not divisible by its fragments (allow_shape_mismatch), no rank
// holds the remainder. That is accepted, as in Megatron.
Status ValidateShardingIntegrity(std::span<const RankState> ranks);
// The same for states that are not contiguous in memory.
Status ValidateShardingIntegrity(std::span<const RankState* const> ranks);

// Identifies a shard in a fully parallel save or load.
struct ShardId {
  std::string key;
  Shape global_offset;
  std::optional<FlatRange> flattened_range;

  std::strong_ordering operator<=>(const ShardId&) const = default;
};
struct ShardHolders {
  ShardId id;
  std::vector<int> ranks;  // the ranks that hold it; not empty
  uint64_t byte_count = 0;
  bool is_cross_group = false;  // ranks of another group read it too
};
// Returns for each shard the rank that writes (or reads) it. Assigns shards one
// by one, each to the holder with the fewest bytes so far, on ties to the
// holder listed first. The order of assignment: shards of a single group first,
// then shards with the fewest holders, the most bytes, and the lowest id.
// InvalidArgument for a rank outside [0, rank_count).
Result<std::vector<int>> DistributeShardsToRanks(
    std::span<const ShardHolders> shards, int rank_count);

// How a load treats keys that exist on only one side.
enum class StrictHandling : uint8_t {
  kAssumeOkUnexpected,  // the default: keys are not compared
  kLogUnexpected,
  kLogAll,
  kRaiseUnexpected,
  kRaiseAll,
  kReturnUnexpected,
  kReturnAll,
  kIgnoreAll,
};
std::string_view StrictHandlingName(StrictHandling strict);
// Parses the name. INVALID_STRICT for an unknown name.
Result<StrictHandling> ParseStrictFlag(std::string_view name);
// Return true if the load needs the checkpoint's keys, or the keys that all
// ranks request.
bool NeedsCheckpointKeys(StrictHandling strict);
bool NeedsAllRanksKeys(StrictHandling strict);
bool ReturnsMismatchKeys(StrictHandling strict);

using KeySet = std::set<std::string, std::less<>>;
struct StrictOutcome {
  KeySet missing;     // in the checkpoint, but requested by no rank
  KeySet unexpected;  // requested by this rank, but not in the checkpoint
  // Keys to leave out of the request: the unexpected keys, if `strict`
  // tolerates them.
  KeySet dropped;
  std::vector<std::string> warnings;  // Megatron's texts
};
// Compares the checkpoint's keys with the requested keys. `all_ranks` is used
// only if NeedsAllRanksKeys. KEYS_MISMATCH.
Result<StrictOutcome> ApplyStrictness(StrictHandling strict,
                                      const KeySet& checkpoint_keys,
                                      const KeySet& this_rank,
                                      const KeySet& all_ranks);

}  // namespace megatron
}  // namespace holdfast
