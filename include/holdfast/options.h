// Options and progress shared by Save, Load, Open and Verify.
//
// Thread-safety: values. Progress callbacks run on worker threads, one at a
// time; keep them short.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/dtype.h"
#include "holdfast/export.h"
#include "holdfast/tensor.h"

namespace holdfast HOLDFAST_EXPORT {

// The progress of a long call.
struct Progress {
  std::string_view phase;   // "plan", "write", "read", "verify", "commit"
  uint64_t done_bytes = 0;  // decoded bytes of tensors finished
  uint64_t total_bytes = 0;
};
using ProgressFn = std::function<void(const Progress&)>;

// Where the time went, in seconds of wall clock, and how many bytes moved.
struct Stats {
  double plan_seconds = 0;
  double transfer_seconds = 0;  // read+decode, or encode+write
  double sync_seconds = 0;      // waiting for stable storage
  double commit_seconds = 0;    // metadata files, markers, rename
  double total_seconds = 0;
  uint64_t decoded_bytes = 0;  // bytes of the tensors themselves
  uint64_t stored_bytes = 0;   // bytes read or written for them
  uint64_t chunk_count = 0;
  uint64_t in_flight_bytes_peak = 0;
  // Bytes of arrays that were mapped instead of read (LoadOptions::map); they
  // are in none of the counts above.
  uint64_t mapped_bytes = 0;
  // Arrays whose fingerprint was compared with the memory they were read into
  // (OpenOptions::fingerprints).
  uint64_t fingerprint_count = 0;
};

// How work is run. Defaults suit a machine that does nothing else.
struct RunOptions {
  // Threads that encode, decode, read and write; 0: one per available CPU.
  int thread_count = 0;
  // Bound on bytes of chunks held between memory and disk; 0: none. A chunk
  // larger than it goes in pieces (of a quarter of the bound, from 128 KiB to
  // 4 MiB, two held at a time), with the same chunk shape on disk. Blosc
  // (Compression::kPlanes, kFast) and codecs that holdfast only reads need the
  // whole chunk, which then goes by itself. Cost: too small a budget idles
  // threads.
  uint64_t in_flight_bytes_max = uint64_t{256} << 20;
  ProgressFn progress;  // may be empty
  // Checked once a chunk; when it becomes true the call returns Cancelled and
  // leaves nothing half-committed. Borrowed.
  const std::atomic<bool>* cancel = nullptr;
};

enum class Format : uint8_t {
  kOrbax,    // what Orbax's PyTreeCheckpointer writes: the item at `path`
  kOrbaxV1,  // what Orbax v1 `save` writes: `path/state/`
  // Only Convert writes these.
  kMegatronZarr,  // Megatron Core's `zarr` strategy, up to 0.15.3
  kSafetensors,   // one file, or shards with an index
  kDcp,           // torch.distributed.checkpoint
  kTorchDist,     // Megatron Core's `torch_dist`: DCP and two files more
  kNpz,           // numpy.savez, stored
};
// "orbax", "orbax-v1", "megatron-zarr", "safetensors", "dcp", "torch-dist",
// "npz".
std::string_view FormatName(Format format);
std::optional<Format> FormatFromName(std::string_view name);
// Those that Save writes, too.
constexpr bool IsOrbaxFormat(Format format) {
  return format == Format::kOrbax || format == Format::kOrbaxV1;
}

enum class Compression : uint8_t {
  // The smallest, and the fastest to load: byte planes of the elements in zstd
  // frames with checksums, inside blosc, which Orbax, TensorStore and
  // zarr-python read. Chunks below 4 KiB or above 64 MiB and elements of one
  // byte are stored as with kZstd.
  kPlanes,
  kZstd,  // Orbax's default; frames carry a checksum
  // Blosc lz4 + bit shuffle: smaller on weights, about thrice the speed. It
  // needs whole chunks in memory, of 2 GiB at most.
  kFast,
  kNone,
};
// "planes", "zstd", "fast", "none".
std::string_view CompressionName(Compression compression);
std::optional<Compression> CompressionFromName(std::string_view name);

// How one array is stored; the names and rules of Orbax's SaveArgs.
struct SaveArgs {
  // From old releases, which kept such leaves in the msgpack file; ignored.
  bool aggregate = false;
  // Elements are cast to it as TensorStore casts; absent: stored as they are.
  std::optional<DType> dtype;
  // Bytes that a chunk takes at most (Orbax's greedy divisors); absent: as
  // SaveOptions::chunk_bytes_target says.
  std::optional<int64_t> chunk_byte_size;
  // Axes to cut to single elements first.
  std::vector<int64_t> shard_axes;
  // Zarr 3 only; they win over the two above. The shape of a stored object,
  // which divides the shard's, and of a chunk in it, which divides that.
  // Absent: the shard's shape, and the write_chunk_shape.
  std::optional<Shape> write_chunk_shape;
  std::optional<Shape> read_chunk_shape;
};

class ProcessGroup;  // holdfast/process_group.h

// How a checkpoint comes to exist at once.
enum class CommitMode : uint8_t {
  kAuto,  // kRename for paths, kMarkerFile for URLs of object stores
  // Written as `<path>.orbax-checkpoint-tmp`, then renamed.
  kRename,
  // Written at `path` itself, where it does not count until
  // `commit_success.txt` is there, the last file: for storage without a rename
  // of directories. A checkpoint that is overwritten waits as
  // `<path>.holdfast-replaced` until the new one is complete.
  kMarkerFile,
};

class AlsoFormat;  // the engine's own

// For SaveOptions::also: safetensors files of at most shard_bytes_max bytes (a
// larger tensor has its own), with their index where there are several. 0:
// 5 GB, as Hugging Face's libraries have it.
std::shared_ptr<const AlsoFormat> AlsoSafetensors(uint64_t shard_bytes_max = 0);

struct SaveOptions {
  RunOptions run;
  // The processes that save this checkpoint together: each calls with the same
  // options, a tree of the same structure, and of sharded arrays its own shards
  // (every element in exactly one process; no chunk cut by a border between
  // processes, which ArrayTraits::write_shape sees to). Deferred arrays are
  // written by all, a share each; everything else by rank 0. Borrowed. Null:
  // only this process.
  ProcessGroup* group = nullptr;
  Format format = Format::kOrbax;
  // Zarr 2 or 3; 0: 2 for kOrbax, 3 for kOrbaxV1, as Orbax's defaults are.
  int zarr_format = 0;
  // True: one OCDBT database. False: one directory a parameter.
  bool use_ocdbt = true;
  Compression compression = Compression::kPlanes;
  // Not null: the arrays lie in files of another format, which are written once
  // and are both: the database refers to what is in them. It needs OCDBT and
  // digests; `compression` is then none, and an explicit choice of another is
  // refused.
  std::shared_ptr<const AlsoFormat> also;
  // Replace an existing checkpoint at `path`; the old one is removed only after
  // the new one is complete and durable.
  bool overwrite = false;
  CommitMode commit_mode = CommitMode::kAuto;
  // Permissions of the directories that are made, whatever the umask says;
  // absent: 0777 less the umask. Files have 0666 less the umask.
  std::optional<uint32_t> directory_mode;
  // Arrays above this many bytes are stored in several chunks, cut along the
  // leading axes at divisors. 0: one chunk an array, as Orbax does.
  uint64_t chunk_bytes_target = uint64_t{8} << 20;
  // Data files are closed at this size. 0: no limit. Negative: refused.
  int64_t ocdbt_target_data_file_bytes = int64_t{1} << 31;
  // JSON objects, or empty. `custom_metadata` goes to `_CHECKPOINT_METADATA`,
  // `item_custom_metadata` to `_METADATA`, both without the members that
  // holdfast keeps there for itself ("holdfast.delta" and others): those are of
  // the checkpoint that they were read from.
  std::string custom_metadata;
  std::string item_custom_metadata;
  // For holdfast's own layers: such members of this item.
  std::string item_documents;
  // With rich types: the JSON text for `_METADATA`'s `value_metadata_tree`, or
  // empty. Empty named tuples are then recorded as such.
  std::string value_metadata_tree;
  // The same, of a text that the save makes of the tree.
  bool support_rich_types = false;
  // Directory of the tree inside `path` for kOrbaxV1.
  std::string checkpointable_name = "state";
  // By parameter name (keys joined with "."). A name that the tree does not
  // have is InvalidArgument.
  std::map<std::string, SaveArgs> save_args;
  // Makes what TypeHandlers put into the item's directory before, for its
  // External leaves, part of the item: their databases `ocdbt.process_*` are
  // merged, their entries of `_strings.json`, `_sharding` and `array_metadatas`
  // kept, and their files checksummed. Values of an earlier item in the same
  // directory count as theirs.
  bool adopt_existing = false;
  // Write `_HOLDFAST_DIGESTS`: checksums of every file and stored value.
  bool write_digests = true;
  // Write `_HOLDFAST_FINGERPRINTS`: 128 bits for the elements of each array as
  // they are stored (holdfast/tools/fingerprint.h). Wants write_digests.
  bool fingerprints = false;
  // Wait for stable storage at each step of the commit. False gives up
  // durability across power loss, not atomicity across crashes of the process.
  bool sync = true;
  // Sources of everything in which two equal saves would differ; the defaults
  // are the clock and the system's random bytes. The same sources give the same
  // files, for any thread count.
  std::function<uint64_t()> now_ns;         // since 1970-01-01 UTC
  std::function<std::string()> random_hex;  // 32 lowercase hex digits
};

// How chunks that the store does not have are read.
enum class MissingChunks : uint8_t {
  kAsRecorded,  // refused if the checkpoint says all chunks were stored
  kRefuse,
  kFill,
};

struct OpenOptions {
  // Step of a manager root; absent: the newest committed one.
  std::optional<int64_t> step;
  // Only this item of a composite checkpoint; empty: all.
  std::string item;
  // Name of the msgpack file that old items keep small leaves in.
  std::string aggregate_filename = "checkpoint";
  MissingChunks missing_chunks = MissingChunks::kAsRecorded;
  // Check `_HOLDFAST_DIGESTS` for every metadata file and uncompressed value
  // that is read, when the checkpoint has it.
  bool verify = true;
  // With `verify`: read `_HOLDFAST_FINGERPRINTS`, where the checkpoint has it.
  // It gives LeafInfo::fingerprint, and whole arrays that are read in their
  // stored dtype are checked where they lie in memory (Stats::
  // fingerprint_count). Parts of arrays, casts and mapped arrays are not.
  bool fingerprints = false;
  // Give the tree that holdfast keeps beside a foreign format, where there is
  // one; false: the tensors as the format has them.
  bool use_sidecar = true;
  // Find LeafInfo::stored_bytes too; costs a walk of the directories, or of the
  // whole B+tree.
  bool stored_sizes = true;
  // Only leaves() are asked for. From a bucket nothing is fetched along that
  // only values need; and what CheckpointInfo has from `_CHECKPOINT_METADATA`
  // may be left out, unless that tells which items there are. Values can be
  // read as ever.
  bool leaves_only = false;
  // How the checkpoint was committed. kMarkerFile: one without
  // `commit_success.txt` is refused, and does not count as a step of a root.
  // Otherwise a checkpoint without the marker is refused only when it says
  // itself that it was never committed (`_CHECKPOINT_METADATA` has the time it
  // was begun, and not that of its commit).
  CommitMode commit_mode = CommitMode::kAuto;
};

// Whether arrays are used where they lie in their files, instead of being read
// into memory (holdfast/mapped_tensor.h).
enum class MapMode : uint8_t {
  kNever,
  kWherePossible,  // what cannot be mapped is read
  kRequired,       // InvalidArgument names an array that cannot be, and why
};

struct MapOptions {
  // The arrays may be written to: this process's copy of a page changes, never
  // the file. Otherwise they are Array::is_read_only, and a write to them ends
  // the process (SIGSEGV).
  bool copy_on_write = false;
  // Read every mapped array once as Read does, with all checks of the
  // checkpoint as it was opened, and compare the mapping with that.
  bool verify = false;
};

struct LoadOptions {
  RunOptions run;
  OpenOptions open;
  MapMode map = MapMode::kNever;
  MapOptions map_options;
  // Only leaves with these names, or below them ("params" selects
  // "params.w"); empty: all.
  std::vector<std::string> names;
};

}  // namespace HOLDFAST_EXPORT
