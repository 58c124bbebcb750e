// Save, Load, Open, Verify: the whole of holdfast in four calls.
//
//   holdfast::Tree state = holdfast::Tree::Dict({{"w", weights}, {"step", 7}});
//   auto saved = holdfast::Save("/ckpt/7", state);
//   auto loaded = holdfast::Load("/ckpt/7");
//   auto ckpt = holdfast::Open("/ckpt/7");   // names, shapes, slices
//
// `path` may be a manager root (directory of steps), a step, an item, a bare
// OCDBT database or a bare zarr array or directory of arrays: Open tells them
// apart. Only Save takes the exact place to write.
//
// Thread-safety: Checkpoint is immutable after Open; const methods may run
// concurrently. Save and Load may run concurrently on different paths.
// Ownership: loaded arrays own their memory; a Tree given to Save is borrowed
// for the call.
// Units: bytes, elements; times in seconds.
// Errors: NotFound (no such path or leaf; a directory without a checkpoint,
// saying what was looked for), AlreadyExists (`Destination P already exists.`),
// FailedPrecondition (temporary directory, unreadable metadata), DataLoss
// (damaged bytes, naming tensor, file and offset; a file or item that was saved
// and is gone; of a root, a newest step that was committed and is damaged,
// naming it and the newest whole one), InvalidArgument,
// ResourceExhausted (disk full), PermissionDenied, Cancelled. After a failed
// Save nothing exists at `path` that was not there before.
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
};

// Writes `tree` as a new checkpoint at absolute or relative `path`.
Result<SaveResult> Save(const std::string& path, const Tree& tree,
                        const SaveOptions& options = {});

struct LoadResult {
  Tree tree;
  Stats stats;
  std::vector<std::string> notes;  // as CheckpointInfo
};

// Reads the tree back: tuples as lists and named tuples as dicts, as Orbax
// restores without a target. A composite of several items is a dict of items;
// JSON items are string leaves holding their text.
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
  kJson,  // a whole JSON item
  // A pickled Python object other than a tensor, in a foreign format. Its text
  // is a torch.save file of exactly that object.
  kObject,
};
// "array", "scalar", "string", "bytes", "none", "empty_dict", ...
std::string_view ValueKindName(ValueKind kind);

// One leaf as stored; no tensor bytes are read to fill it.
struct LeafInfo {
  std::string name;              // keys joined with '.'
  std::vector<std::string> key;  // path of keys; a composite's item name first
  std::vector<KeyKind> key_kinds;  // one a key
  ValueKind kind = ValueKind::kArray;
  // As recorded: "np.ndarray", "jax.Array", "scalar", ...; may be empty.
  std::string value_type;
  std::string prng_impl;       // typed PRNG keys: "threefry2x32", ...
  std::optional<DType> dtype;  // arrays and scalars
  Shape shape;
  Shape chunk_shape;   // smallest unit of decoding (inner chunk if sharded)
  Shape shard_shape;   // what is stored as one object, where it is sharded
  std::string codecs;  // "zstd", "blosc lz4 bitshuffle", "none", ...
  uint64_t chunk_count = 0;   // chunks of the grid
  uint64_t stored_bytes = 0;  // 0 unless OpenOptions::stored_sizes
  uint64_t decoded_bytes = 0;
  // The value is not an array of its own: it lies in the old msgpack file, or
  // it has none (empties).
  bool skip_deserialize = false;
  std::optional<Shape> write_shape;  // as `_METADATA` records it
  std::string sharding_json;         // its entry of `_sharding`, or empty
  std::string array_metadata;        // text of its .zarray or zarr.json
  // The fingerprint of its elements, 32 hex digits
  // (holdfast/tools/fingerprint.h). Empty unless OpenOptions::fingerprints and
  // it was saved with one.
  std::string fingerprint;
  // Why the leaf cannot be read; reading it fails with this.
  // FailedPrecondition: it is a TypeHandler's that value_type names, and no
  // damage. Unimplemented, and PermissionDenied of an object: it is not
  // supported (IsNotSupported), and its kind, dtype and shape may be unknown.
  Status problem;
};

// A part of one leaf, and where its elements go.
struct ReadRequest {
  size_t leaf = 0;  // index into leaves(); an array or scalar
  Shape origin;     // in the leaf
  // Its shape is the box's. Elements are cast to its dtype as TensorStore casts
  // them. Borrowed until ReadInto returns; after a failure its elements are
  // unspecified.
  ArrayView target;
};

// The kind of checkpoint that a path holds, and where its parts are.
struct CheckpointInfo {
  std::string path;  // absolute, after choosing the step
  // "orbax", "orbax-v1", "ocdbt", "zarr", "zarr3", "delta"; of foreign formats
  // "safetensors", "npz", "torch" (torch.save), "dcp", "torch-dist",
  // "megatron-zarr".
  std::string format;
  std::optional<int64_t> step;
  std::map<std::string, std::string> items;  // name -> directory ("" = path)
  bool use_ocdbt = false;
  int zarr_format = 0;
  std::string custom_metadata;  // JSON text, or empty
  // Text of `_CHECKPOINT_METADATA` at the root, and of `custom_metadata` and
  // `value_metadata_tree` in `_METADATA` when the path is one item; or empty.
  std::string checkpoint_metadata;
  std::string item_custom_metadata;
  std::string value_metadata_tree;
  // The documents that holdfast itself keeps in the item's `custom_metadata`,
  // which the text above leaves out: a JSON object, or empty.
  std::string item_documents;
  // True when there is an `_METADATA`.
  bool has_tree_metadata = false;
  bool use_zarr3 = false;
  bool store_array_data_equal_to_fill_value = false;
  std::optional<int64_t> init_timestamp_ns;
  std::optional<int64_t> commit_timestamp_ns;
  // For a view: the files that it refers to, by their paths or URLs; empty: all
  // bytes are the checkpoint's own, or it was opened without
  // OpenOptions::verify.
  std::vector<std::string> sources;
  // For a delta (holdfast/delta.h): the paths of the steps that it is read
  // from, its base first, the anchor last; empty for a step that needs no
  // other.
  std::vector<std::string> bases;
  // For a delta, and for a step that one was made into: the id of its content,
  // by which a later delta knows its base; else empty.
  std::string result_id;
  // Notes for the reader, in words: e.g. that the checkpoint's list of
  // checksums is gone, so that not all of it can be checked.
  std::vector<std::string> notes;
};

// A damaged or missing part.
struct Damage {
  std::string leaf;  // empty when it belongs to no leaf
  std::string file;  // relative to the checkpoint
  std::optional<uint64_t> offset;
  Status status;
};

struct VerifyReport {
  std::vector<Damage> damages;
  // Parts that holdfast does not read (IsNotSupported): they may be as sound as
  // the rest, and nobody has looked.
  std::vector<Damage> not_supported;
  std::vector<std::string> notes;  // e.g. values that carry no checksum
  uint64_t leaf_count = 0;
  uint64_t chunk_count = 0;
  // Chunks whose bytes are covered by a checksum.
  uint64_t checksummed_chunk_count = 0;
  Stats stats;

  // Everything was read, and is as it was saved.
  bool ok() const { return damages.empty() && not_supported.empty(); }
};

// True when a failure is about the stored bytes: they are damaged, missing, no
// checkpoint's, or not supported. Other failures (no memory, no descriptor, no
// access, no network, cancelled, a bug) are about the machine, and say nothing
// about the bytes.
bool IsDamage(const Status& status);
// True when the bytes may be sound, but holdfast does not read what they are: a
// dtype, a codec or a kind of object that it lacks.
bool IsNotSupported(const Status& status);
// The same of a leaf: by its problem, or as an object that names a function or
// class which is not run.
bool IsNotSupported(const LeafInfo& leaf);

// One opened checkpoint, of any format. Its questions and checks are the same
// for all of them; a format gives its leaves and implements the three Do
// functions.
class Checkpoint {
 public:
  virtual ~Checkpoint() = default;

  const CheckpointInfo& info() const { return info_; }
  // In the checkpoint's own order.
  const std::vector<LeafInfo>& leaves() const { return infos_; }
  // Index into leaves(); NotFound names close matches.
  Result<size_t> Find(std::string_view name) const;

  // A whole leaf: array and scalar. OutOfRange for a number that names no leaf,
  // NotFound for an unknown name, InvalidArgument for a leaf other than an
  // array; so for all below.
  Result<Array> Read(size_t leaf) const;
  Result<Array> Read(std::string_view name) const;
  // The box at `origin` with extents `shape`; reads only the chunks it needs.
  // OutOfRange for a box that is not inside the leaf.
  Result<Array> ReadBox(size_t leaf, const Shape& origin,
                        const Shape& shape) const;
  Result<Array> ReadBox(std::string_view name, const Shape& origin,
                        const Shape& shape) const;
  // All requests in one pass: each stored chunk is read once however many
  // requests share it, in file order, by the threads and within the budget of
  // `run`. Checked as Load checks, except where only a part of a large
  // uncompressed chunk is wanted: then only its bytes are read, and the chunk's
  // checksum cannot be.
  Result<Stats> ReadInto(const std::vector<ReadRequest>& requests,
                         const RunOptions& run = {}) const;
  // Ok when ReadInto would try: the leaf can be read, the box is inside it, the
  // target has a stride for each axis and a dtype that the elements can become.
  Status CheckRequest(const ReadRequest& request) const;
  // String, bytes, JSON and object leaves.
  Result<std::string> ReadText(size_t leaf) const;
  Result<std::string> ReadText(std::string_view name) const;
  // The tree that Load would give, each leaf replaced by its index in leaves()
  // as an int64 scalar; typed empties (None, {}, [], ()) stay themselves.
  Result<Tree> Structure() const;
  // The same by the key paths of the leaves alone, with the indices of typed
  // empties, too.
  Result<Tree> IndexTree() const;

 protected:
  Checkpoint() = default;
  Checkpoint(const Checkpoint&) = delete;
  Checkpoint& operator=(const Checkpoint&) = delete;

  // The arguments have been checked before a format sees them: requests pass
  // CheckRequest and have elements, `leaf` is one with text.
  virtual Result<Stats> DoReadInto(const std::vector<ReadRequest>& requests,
                                   const RunOptions& run) const = 0;
  virtual Result<std::string> DoReadText(size_t leaf) const = 0;
  // By the key paths of the leaves, unless a format knows better.
  virtual Result<Tree> DoStructure() const;

  CheckpointInfo info_;
  std::vector<LeafInfo> infos_;

 private:
  Status CheckNumber(size_t leaf) const;
  Status CheckHasElements(size_t leaf) const;
};

// Reads metadata only.
Result<std::unique_ptr<Checkpoint>> Open(const std::string& path,
                                         const OpenOptions& options = {});

// Lower-case hex sha256 of a leaf's value: elements in C order, little endian,
// unused bits of sub-byte elements zero; UTF-8 of a string; the canonical JSON
// of an object (PickleValueToJson); nothing for empties. Equal values have
// equal digests in every format.
Result<std::string> DigestLeaf(const Checkpoint& checkpoint, size_t leaf);

// Reads and checks every byte that a restore could depend on, and every
// checksum there is. Damage, and what is not supported, is in the report. Fails
// when the path has no checkpoint at all, and with the first failure other than
// damage (IsDamage), since nothing is known then of what could not be read.
// With a group every rank calls it, checks a share of the chunks and files, and
// gets the report of all; progress is of its own share.
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
  // Why a committed step cannot be opened as it was saved: what of it is gone.
  // Empty when nothing is. Bytes are not looked at; Verify does that.
  std::string damage;
  std::optional<int64_t> init_timestamp_ns;  // when its save began
  std::optional<int64_t> commit_timestamp_ns;
  uint64_t bytes = 0;  // of all files below it
  std::vector<std::string> items;
  std::string metrics;  // JSON text, or empty
};

// Sorted by step, temporary directories last. NotFound when `root` holds no
// step.
Result<std::vector<StepInfo>> ListSteps(const std::string& root,
                                        CommitMode mode = CommitMode::kAuto);

}  // namespace HOLDFAST_EXPORT
