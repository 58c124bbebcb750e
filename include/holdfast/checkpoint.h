// Save, Load, Open, Verify: all of holdfast in four calls.
//
//   holdfast::Tree state = holdfast::Tree::Dict({{"w", weights}, {"step", 7}});
//   auto saved = holdfast::Save("/ckpt/7", state);
//   auto loaded = holdfast::Load("/ckpt/7");
//   auto ckpt = holdfast::Open("/ckpt/7");   // names, shapes, slices
//
// A path to read may be a manager root (a directory of steps), a step, an item,
// a bare OCDBT database, a bare zarr array or a directory of zarr arrays: Open
// detects what it is. Save writes to exactly the given path.
//
// Thread-safety: Checkpoint is immutable after Open; const methods may run
// concurrently. Save and Load may run concurrently on different paths.
// Ownership: loaded arrays own their memory; Save borrows its Tree for the
// call.
// Units: bytes, elements; times in seconds.
// Errors:
//   NotFound            no such path or leaf; a directory without a
//                       checkpoint, with the files that were looked for
//   AlreadyExists       `Destination P already exists.`
//   FailedPrecondition  a temporary directory, unreadable metadata
//   DataLoss            damaged bytes, with tensor, file and offset; a file or
//                       item that was saved and is now missing; in a root, a
//                       newest step that is damaged although it was committed,
//                       with its name and the newest intact step
//   ResourceExhausted   the disk is full
//   InvalidArgument, PermissionDenied, Cancelled
// A failed Save leaves nothing at the path that did not exist before.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/export.h"
#include "holdfast/options.h"
#include "holdfast/status.h"
#include "holdfast/tensor.h"
#include "holdfast/tree.h"

namespace holdfast HOLDFAST_EXPORT {

struct SaveResult {
  Stats stats;
  // Messages for the user: that the step holds exactly the tensors of the step
  // before, so that the program may be saving a copy that it no longer updates.
  // In a group, only rank 0 has them.
  std::vector<std::string> notes;
};

// Writes `tree` as a new checkpoint at `path`, which may be relative.
Result<SaveResult> Save(const std::string& path, const Tree& tree,
                        const SaveOptions& options = {});

struct LoadResult {
  Tree tree;
  Stats stats;
  std::vector<std::string> notes;  // CheckpointInfo::notes
};

// Reads the tree. Tuples become lists and named tuples become dicts, as when
// Orbax restores without a target. A composite of several items becomes a dict
// of items. A JSON item becomes a string leaf with its text.
Result<LoadResult> Load(const std::string& path,
                        const LoadOptions& options = {});

enum class ValueKind : uint8_t {
  kArray,
  kScalar,
  kString,
  kBytes,  // legacy files only
  kNone,
  kEmptyDict,
  kEmptyList,
  kEmptyTuple,
  kPlaceholder,
  kJson,  // a complete JSON item
  // A pickled Python object other than a tensor, in a foreign format. Its text
  // is a torch.save file that holds only this object.
  kObject,
};
// Returns the kind's name: "array", "scalar", "string", "bytes", "none",
// "empty_dict", ...
std::string_view ValueKindName(ValueKind kind);

// A leaf as it is stored. Open fills this without reading tensor bytes.
struct LeafInfo {
  std::string name;              // keys joined with '.'
  std::vector<std::string> key;  // path of keys; a composite's item name first
  std::vector<KeyKind> key_kinds;  // one per key
  ValueKind kind = ValueKind::kArray;
  // As recorded: "np.ndarray", "jax.Array", "scalar", ...; may be empty.
  std::string value_type;
  std::string prng_impl;       // typed PRNG keys: "threefry2x32", ...
  std::optional<DType> dtype;  // arrays and scalars
  Shape shape;
  Shape chunk_shape;   // smallest unit of decoding (inner chunk if sharded)
  Shape shard_shape;   // the unit stored as one object, if sharded
  std::string codecs;  // "zstd", "blosc lz4 bitshuffle", "none", ...
  uint64_t chunk_count = 0;   // chunks in the grid
  uint64_t stored_bytes = 0;  // 0 unless OpenOptions::stored_sizes
  uint64_t decoded_bytes = 0;
  // True if the value has no array: it is in the old msgpack file, or it is a
  // typed empty, for which no value is stored.
  bool skip_deserialize = false;
  std::optional<Shape> write_shape;  // as `_METADATA` records it
  std::string sharding_json;         // its entry in `_sharding`, or empty
  std::string array_metadata;        // text of its .zarray or zarr.json
  // The fingerprint of the leaf's elements, 32 hex digits
  // (holdfast/tools/fingerprint.h). Empty unless OpenOptions::fingerprints is
  // set and the leaf was saved with a fingerprint.
  std::string fingerprint;
  // Why the leaf cannot be read, or ok. A read of the leaf fails with this
  // status.
  // FailedPrecondition: the leaf is not damaged, but only the TypeHandler that
  // value_type names can read it.
  // Unimplemented, or PermissionDenied for an object: holdfast does not support
  // the leaf (IsNotSupported). Its kind, dtype and shape may be unknown.
  Status problem;
};

// A part of one leaf, and the memory that receives its elements.
struct ReadRequest {
  size_t leaf = 0;  // index into leaves(); an array or scalar
  Shape origin;     // in the leaf
  // Its shape is that of the box to read. Elements are cast to its dtype, as
  // TensorStore casts. Borrowed until ReadInto returns. After a failure its
  // elements are unspecified.
  ArrayView target;
};

// The kind of checkpoint at a path, and where its parts are.
struct CheckpointInfo {
  std::string path;  // absolute, after choosing the step
  // "orbax", "orbax-v1", "ocdbt", "zarr", "zarr3", "delta"; for foreign formats
  // "safetensors", "npz", "torch" (torch.save), "dcp", "torch-dist",
  // "megatron-zarr".
  std::string format;
  std::optional<int64_t> step;
  std::map<std::string, std::string> items;  // name -> directory ("" = path)
  bool use_ocdbt = false;
  int zarr_format = 0;
  std::string custom_metadata;  // JSON text, or empty
  // The text of the root's `_CHECKPOINT_METADATA`; and, if the path is a single
  // item, of `custom_metadata` and `value_metadata_tree` in its `_METADATA`.
  // Otherwise empty.
  std::string checkpoint_metadata;
  std::string item_custom_metadata;
  std::string value_metadata_tree;
  // The members of the item's `custom_metadata` that holdfast keeps for itself:
  // a JSON object, or empty. item_custom_metadata does not include them.
  std::string item_documents;
  // True when an `_METADATA` file exists.
  bool has_tree_metadata = false;
  bool use_zarr3 = false;
  bool store_array_data_equal_to_fill_value = false;
  std::optional<int64_t> init_timestamp_ns;
  std::optional<int64_t> commit_timestamp_ns;
  // For a view, the paths or URLs of the files that it refers to. Empty if the
  // checkpoint holds all its bytes itself, or was opened without
  // OpenOptions::verify.
  std::vector<std::string> sources;
  // For a delta (holdfast/delta.h), the paths of the other steps that it is
  // read from: its base first, the anchor last. Otherwise empty.
  std::vector<std::string> bases;
  // For a delta, and for a step that was materialized from a delta, the id of
  // its content. A later delta recognizes its base by this id. Otherwise empty.
  std::string result_id;
  // Messages for the user, e.g. that the list of checksums is missing, so that
  // only a part of the checkpoint can be checked.
  std::vector<std::string> notes;
};

// A damaged or missing part.
struct Damage {
  std::string leaf;  // empty if the part belongs to no leaf
  std::string file;  // relative to the checkpoint
  std::optional<uint64_t> offset;
  Status status;
};

struct VerifyReport {
  std::vector<Damage> damages;
  // Parts that holdfast cannot read (IsNotSupported): they were not checked and
  // may be intact.
  std::vector<Damage> not_supported;
  std::vector<std::string> notes;  // e.g. values that carry no checksum
  uint64_t leaf_count = 0;
  uint64_t chunk_count = 0;
  // Chunks whose bytes are covered by a checksum.
  uint64_t checksummed_chunk_count = 0;
  Stats stats;

  // True when everything was read and is intact.
  bool ok() const { return damages.empty() && not_supported.empty(); }
};

// Returns true if the failure is about the stored bytes: they are damaged,
// missing, not a checkpoint, or not supported. Other failures (out of memory,
// out of descriptors, access denied, network errors, cancelled, a bug) say
// nothing about the bytes.
bool IsDamage(const Status& status);
// Returns true if the bytes may be intact, but holdfast cannot read them: it
// does not support their dtype, codec or kind of object.
bool IsNotSupported(const Status& status);
// The same for a leaf. Also true for an object that names a function or class,
// because holdfast does not run these.
bool IsNotSupported(const LeafInfo& leaf);

// An open checkpoint of any format. A format fills in info_ and infos_, and
// implements the Do functions; queries and checks are common to all formats.
class Checkpoint {
 public:
  virtual ~Checkpoint() = default;

  const CheckpointInfo& info() const { return info_; }
  // Returns the leaves in the checkpoint's own order.
  const std::vector<LeafInfo>& leaves() const { return infos_; }
  // Returns the leaf's index in leaves(). NotFound lists similar names.
  Result<size_t> Find(std::string_view name) const;
  // Returns ok if each name selects a leaf, as in LoadOptions::names; otherwise
  // the NotFound of Load.
  Status CheckNames(const std::vector<std::string>& names) const;

  // Reads a complete array or scalar. OutOfRange for an index outside leaves(),
  // NotFound for an unknown name, InvalidArgument for any other kind of leaf.
  // The functions below have the same errors.
  Result<Array> Read(size_t leaf) const;
  Result<Array> Read(std::string_view name) const;
  // Reads the box at `origin` with extents `shape`, and only the chunks that
  // the box needs. OutOfRange for a box that is not inside the leaf.
  Result<Array> ReadBox(size_t leaf, const Shape& origin,
                        const Shape& shape) const;
  Result<Array> ReadBox(std::string_view name, const Shape& origin,
                        const Shape& shape) const;
  // Fulfills all requests in one pass: reads each stored chunk once, in file
  // order, however many requests share it. `run` sets the threads and the
  // memory limit. Data is checked as in Load, with one exception: if only a
  // part of a large uncompressed chunk is requested, only the bytes of that
  // part are read, and the chunk's checksum cannot be checked.
  Result<Stats> ReadInto(const std::vector<ReadRequest>& requests,
                         const RunOptions& run = {}) const;
  // Returns ok if ReadInto would accept the request: the leaf can be read, the
  // box is inside it, and the target has a stride for each axis and a dtype
  // that the elements can be cast to.
  Status CheckRequest(const ReadRequest& request) const;
  // Reads a string, bytes, JSON or object leaf.
  Result<std::string> ReadText(size_t leaf) const;
  Result<std::string> ReadText(std::string_view name) const;
  // Returns the tree that Load would return, with each leaf replaced by its
  // index in leaves(), an int64 scalar. Typed empties (None, {}, [], ()) are
  // kept.
  Result<Tree> Structure() const;
  // Like Structure, but builds the tree only from the leaves' key paths, and
  // also replaces typed empties by their indices.
  Result<Tree> IndexTree() const;

 protected:
  Checkpoint() = default;
  Checkpoint(const Checkpoint&) = delete;
  Checkpoint& operator=(const Checkpoint&) = delete;

  // Callers of the Do functions have checked the arguments: requests pass
  // CheckRequest and have elements, and `leaf` is a leaf with text.
  virtual Result<Stats> DoReadInto(const std::vector<ReadRequest>& requests,
                                   const RunOptions& run) const = 0;
  virtual Result<std::string> DoReadText(size_t leaf) const = 0;
  // By default, builds the tree from the leaves' key paths.
  virtual Result<Tree> DoStructure() const;

  CheckpointInfo info_;
  std::vector<LeafInfo> infos_;

 private:
  Status CheckNumber(size_t leaf) const;
  Status CheckHasElements(size_t leaf) const;
};

// Opens the checkpoint at `path`. Reads only metadata.
Result<std::unique_ptr<Checkpoint>> Open(const std::string& path,
                                         const OpenOptions& options = {});

// Returns the sha256 of a leaf's value, as lowercase hex digits. Equal values
// have equal digests in every format. The hashed bytes are an array's elements
// in C order, little endian, with the unused bits of sub-byte elements zero; a
// string's UTF-8; an object's canonical JSON (PickleValueToJson); nothing for
// empties.
Result<std::string> DigestLeaf(const Checkpoint& checkpoint, size_t leaf);

// Reads and checks every byte that a restore could depend on, and every
// existing checksum. The report lists damage and unsupported parts.
//
// Fails if the path holds no checkpoint, and with the first failure other than
// damage (IsDamage), because the state of the unread parts is then unknown.
//
// With a group, every rank calls Verify, checks a share of the chunks and
// files, and receives the report of all ranks; progress counts only the rank's
// own share.
Result<VerifyReport> Verify(const std::string& path,
                            const OpenOptions& options = {},
                            const RunOptions& run = {},
                            ProcessGroup* group = nullptr);

// A step directory of a manager root.
struct StepInfo {
  std::string name;
  std::optional<int64_t> step;
  std::string path;
  bool committed = false;
  std::string why_not;  // empty when committed
  // If parts of a committed step are missing, so that it cannot be opened as it
  // was saved, says which. Empty if all parts exist. Their bytes are not
  // checked; Verify does that.
  std::string damage;
  std::optional<int64_t> init_timestamp_ns;  // when its save began
  std::optional<int64_t> commit_timestamp_ns;
  uint64_t bytes = 0;  // all files below its directory
  std::vector<std::string> items;
  std::string metrics;  // JSON text, or empty
};

// Lists the step directories of a root: sorted by step, temporary directories
// last. NotFound if `root` holds no step.
Result<std::vector<StepInfo>> ListSteps(const std::string& root,
                                        CommitMode mode = CommitMode::kAuto);

}  // namespace holdfast
