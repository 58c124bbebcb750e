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
  uint64_t done_bytes = 0;  // decoded tensor bytes finished so far
  uint64_t total_bytes = 0;
};
using ProgressFn = std::function<void(const Progress&)>;

// How long each phase took, in seconds of wall-clock time, and the bytes moved.
struct Stats {
  double plan_seconds = 0;
  double transfer_seconds = 0;  // read+decode, or encode+write
  double sync_seconds = 0;      // waiting for stable storage
  double commit_seconds = 0;    // metadata files, markers, rename
  double total_seconds = 0;
  uint64_t decoded_bytes = 0;  // decoded bytes of the tensors
  uint64_t stored_bytes = 0;   // bytes read or written for them
  uint64_t chunk_count = 0;
  uint64_t memory_bytes_peak = 0;
  // Bytes of arrays that were mapped instead of read (LoadOptions::map); none
  // of the counts above include them.
  uint64_t mapped_bytes = 0;
  // Arrays whose fingerprint was checked against the memory they were read into
  // (OpenOptions::fingerprints).
  uint64_t fingerprint_count = 0;
  // The part of decoded_bytes that devices decoded (ReadIntoDevices).
  uint64_t device_decoded_bytes = 0;

  // Adds another part of the same call. Every member adds, but of the peaks the
  // higher one stays. The seconds of parts beside each other add too, so a call
  // that ran such parts sets its own.
  void Add(const Stats& part);
};

// Threads, memory, progress and cancellation of a call. The defaults suit a
// machine that runs nothing else.
struct RunOptions {
  // Threads that encode, decode, read and write. 0: one per available CPU.
  int threads = 0;
  // Limit on the chunk bytes held between memory and disk. 0: no limit. If the
  // limit is too small, threads stay idle.
  //
  // A chunk larger than the limit is processed in pieces (a quarter of the
  // limit each, at least 128 KiB and at most 4 MiB, two held at a time); its
  // shape on disk is the same. Blosc (Compression::kPlanes, kFast) and codecs
  // that holdfast can only read need the complete chunk: a chunk larger than
  // the limit is then processed while no other chunk is held.
  uint64_t memory_bytes = uint64_t{256} << 20;
  ProgressFn progress;  // may be empty
  // Checked once per chunk. When it becomes true, the call returns Cancelled
  // and leaves nothing half-committed. Borrowed.
  const std::atomic<bool>* cancel = nullptr;
};

enum class Format : uint8_t {
  kOrbax,    // what Orbax's PyTreeCheckpointer writes: the item at `path`
  kOrbaxV1,  // what Orbax v1 `save` writes: `path/state/`
  // Only Convert writes these.
  kMegatronZarr,  // Megatron Core's `zarr` strategy, up to 0.15.3
  kSafetensors,   // one file, or shards with an index
  kDcp,           // torch.distributed.checkpoint
  kTorchDist,     // Megatron Core's `torch_dist`: DCP plus two files
  kNpz,           // numpy.savez, uncompressed
};
// Returns the format's name: "orbax", "orbax-v1", "megatron-zarr",
// "safetensors", "dcp", "torch-dist", "npz".
std::string_view FormatName(Format format);
std::optional<Format> FormatFromName(std::string_view name);
// Returns true for the formats that Save can write.
constexpr bool IsOrbaxFormat(Format format) {
  return format == Format::kOrbax || format == Format::kOrbaxV1;
}

enum class Compression : uint8_t {
  // The smallest, and the fastest to load: byte planes of the elements, in zstd
  // frames with checksums, inside blosc. Orbax, TensorStore and zarr-python can
  // read it. Chunks below 4 KiB or above 64 MiB, and one-byte elements, are
  // stored as with kZstd.
  kPlanes,
  kZstd,  // Orbax's default; frames carry a checksum
  // Blosc with lz4 and bit shuffle: on weights, smaller than kZstd and about
  // three times as fast. Needs complete chunks in memory, of at most 2 GiB.
  kFast,
  kNone,
};
// Returns the compression's name: "planes", "zstd", "fast", "none".
std::string_view CompressionName(Compression compression);
std::optional<Compression> CompressionFromName(std::string_view name);

// How one array is stored, with the names and rules of Orbax's SaveArgs.
struct SaveArgs {
  // Ignored. Old releases of Orbax kept such leaves in the msgpack file.
  bool aggregate = false;
  // Elements are cast to this dtype, as TensorStore casts. Absent: no cast.
  std::optional<DType> dtype;
  // The most bytes per chunk; chunk shapes follow Orbax's greedy rule. Absent:
  // SaveOptions::chunk_bytes applies.
  std::optional<int64_t> chunk_byte_size;
  // Axes along which chunks have extent 1.
  std::vector<int64_t> shard_axes;
  // Only for Zarr 3. These two override the two above. write_chunk_shape is the
  // shape of a stored object; it must divide the shard's shape, which is the
  // default. read_chunk_shape is the shape of a chunk inside that object; it
  // must divide write_chunk_shape, which is the default.
  std::optional<Shape> write_chunk_shape;
  std::optional<Shape> read_chunk_shape;
};

class ProcessGroup;  // holdfast/process_group.h

// How a checkpoint becomes visible atomically.
enum class CommitMode : uint8_t {
  kAuto,  // kRename for paths, kMarkerFile for URLs of object stores
  // Written as `<path>.orbax-checkpoint-tmp`, then renamed.
  kRename,
  // For storage that cannot rename directories. Written at `path` itself, which
  // does not count as a checkpoint until its last file, `commit_success.txt`,
  // exists. A checkpoint that is overwritten is kept as
  // `<path>.holdfast-replaced` until the new one is complete.
  kMarkerFile,
};

class AlsoFormat;    // internal
struct FloatArrays;  // internal

// Returns a value for SaveOptions::also that stores the arrays in safetensors
// files of at most shard_bytes_max bytes, with an index if there are several
// files. A larger tensor gets its own file. 0 means 5 GB, the default of
// Hugging Face's libraries.
std::shared_ptr<const AlsoFormat> AlsoSafetensors(uint64_t shard_bytes_max = 0);

struct SaveOptions {
  RunOptions run;
  // The processes that save this checkpoint together. Each calls with the same
  // options and a tree of the same structure, which has the process's own
  // shards of sharded arrays. Every element must be in exactly one process, and
  // no chunk may span two processes; ArrayTraits::write_shape ensures the
  // latter. Deferred arrays are divided among all processes; rank 0 writes
  // everything else. Borrowed. Null: only this process.
  ProcessGroup* group = nullptr;
  Format format = Format::kOrbax;
  // Zarr 2 or 3. 0: 2 for kOrbax and 3 for kOrbaxV1, Orbax's defaults.
  int zarr_format = 0;
  // True: one OCDBT database. False: one directory per parameter.
  bool use_ocdbt = true;
  Compression compression = Compression::kPlanes;
  // If not null, the arrays are stored in files of another format, and the
  // database refers to ranges in these files. So the bytes are written once,
  // and the checkpoint can be used in both formats. Needs use_ocdbt and
  // write_digests. The bytes are not compressed; `compression` must be kNone or
  // the default.
  std::shared_ptr<const AlsoFormat> also;
  // Replace an existing checkpoint at `path`. The old checkpoint is removed
  // only after the new one is complete and durable.
  bool overwrite = false;
  CommitMode commit_mode = CommitMode::kAuto;
  // Permissions of the directories that the save creates, regardless of the
  // umask. Absent: 0777 less the umask. Files always have 0666 less the umask.
  std::optional<uint32_t> directory_mode;
  // Arrays with more bytes than this are stored in several chunks, cut along
  // the leading axes at divisors. 0: one chunk per array, as Orbax does.
  uint64_t chunk_bytes = uint64_t{8} << 20;
  // Data files are closed at this size. 0: no limit. Negative: refused.
  int64_t ocdbt_target_data_file_bytes = int64_t{1} << 31;
  // JSON objects, or empty. `custom_metadata` is written to
  // `_CHECKPOINT_METADATA`, and `item_custom_metadata` to `_METADATA`. Members
  // that holdfast keeps there for itself ("holdfast.delta" and others) are left
  // out, because they describe the checkpoint that they were read from.
  std::string custom_metadata;
  std::string item_custom_metadata;
  // For internal use: the members that holdfast keeps for itself in this item's
  // custom metadata.
  std::string item_documents;
  // For internal use: the floating-point arrays that the item stands for, if it
  // stores others. Borrowed.
  const std::optional<FloatArrays>* floats = nullptr;
  // The JSON text for `value_metadata_tree` in `_METADATA`, which records rich
  // types; or empty. If it is not empty, empty named tuples are recorded as
  // named tuples.
  std::string value_metadata_tree;
  // The same, with text that the save generates from the tree.
  bool support_rich_types = false;
  // For kOrbaxV1, the directory of the tree inside `path`.
  std::string checkpointable_name = "state";
  // By parameter name (keys joined with "."). InvalidArgument for a name that
  // the tree does not have.
  std::map<std::string, SaveArgs> save_args;
  // Makes the files that TypeHandlers wrote into the item's directory, for its
  // External leaves, part of the item. The save merges their databases
  // `ocdbt.process_*`, keeps their entries in `_strings.json`, `_sharding` and
  // `array_metadatas`, and records checksums of their files. Values of an
  // earlier item in the same directory are treated the same way.
  bool adopt_existing = false;
  // Write `_HOLDFAST_DIGESTS`: checksums of every file and stored value.
  bool write_digests = true;
  // Write `_HOLDFAST_FINGERPRINTS`: a 128-bit fingerprint of each array's
  // elements as stored (holdfast/tools/fingerprint.h). Needs write_digests.
  bool fingerprints = false;
  // Wait for stable storage at each step of the commit. False gives up
  // durability across power loss, but not atomicity across process crashes.
  bool sync = true;
  // Everything that can differ between two saves of the same tree comes from
  // these two functions. The defaults are the clock and the system's random
  // bytes. If both functions return the same values, the files are the same,
  // whatever the thread count.
  std::function<uint64_t()> now_ns;         // since 1970-01-01 UTC
  std::function<std::string()> random_hex;  // 32 lowercase hex digits
};

// How to read chunks that are missing from the store.
enum class MissingChunks : uint8_t {
  kAsRecorded,  // refused if the checkpoint says all chunks were stored
  kRefuse,
  kFill,
};

struct OpenOptions {
  // The step to open in a manager root; absent: the newest committed one.
  std::optional<int64_t> step;
  // Open only this item of a composite checkpoint; empty: all items.
  std::string item;
  // Name of the msgpack file in which old items keep small leaves.
  std::string aggregate_filename = "checkpoint";
  MissingChunks missing_chunks = MissingChunks::kAsRecorded;
  // Check each metadata file and uncompressed value that is read against
  // `_HOLDFAST_DIGESTS`, if the checkpoint has that file.
  bool verify = true;
  // With `verify`: read `_HOLDFAST_FINGERPRINTS`, if the checkpoint has that
  // file. This fills LeafInfo::fingerprint. Each complete array that is read in
  // its stored dtype is then checked in memory (Stats::fingerprint_count).
  // Parts of arrays, casts and mapped arrays are not checked.
  bool fingerprints = false;
  // Return the tree that holdfast stores next to a foreign format, if it
  // exists. If false, return the tensors as the format stores them.
  bool use_sidecar = true;
  // Also fill LeafInfo::stored_bytes. This reads all directories, or the
  // complete B+tree.
  bool stored_sizes = true;
  // The caller needs only leaves(). From a bucket, Open then does not fetch in
  // advance what only reads of values need, and may leave the fields of
  // CheckpointInfo that come from `_CHECKPOINT_METADATA` empty, unless that
  // file determines which items exist. Values can still be read.
  bool leaves_only = false;
  // How the checkpoint was committed. With kMarkerFile, a checkpoint without
  // `commit_success.txt` is refused, and does not count as a step of a root.
  // With the other modes, it is refused only if its own metadata says that it
  // was never committed (`_CHECKPOINT_METADATA` has the time when the save
  // began, but no commit time).
  CommitMode commit_mode = CommitMode::kAuto;
};

// Whether arrays are used directly in their files (mapped) instead of being
// read into memory (holdfast/mapped_tensor.h).
enum class MapMode : uint8_t {
  kNever,
  kWherePossible,  // arrays that cannot be mapped are read
  kRequired,       // InvalidArgument if an array cannot be mapped, saying why
};

struct MapOptions {
  // Allow writes to the arrays. A write changes this process's copy of a page,
  // never the file. If false, the arrays are read-only (Array::is_read_only),
  // and a write ends the process (SIGSEGV).
  bool copy_on_write = false;
  // Also read every mapped array as Read does, with all checks that the
  // checkpoint was opened with, and compare the mapping with the result.
  bool verify = false;
};

struct LoadOptions {
  RunOptions run;
  OpenOptions open;
  MapMode map = MapMode::kNever;
  MapOptions map_options;
  // Only leaves with these names, or below them ("params" selects "params.w");
  // empty: all leaves.
  std::vector<std::string> names;
};

}  // namespace holdfast
