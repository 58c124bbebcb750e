// FormatTarget: writes one checkpoint of a foreign format, piece by piece, for
// a conversion.
//
// A conversion makes an empty directory, calls Begin, asks every leaf for its
// pieces, writes them all (from several threads, in any order, each once), and
// calls Finish. SyncData comes now and then between; a conversion that was cut
// off begins again with `resume`, calls Restore for the pieces that it knows to
// be durable, and Write for the others.
//
// Makers, each in a header of its own beside this one:
//   std::unique_ptr<FormatTarget> MakeSafetensorsTarget(); safetensors_target.h
//   std::unique_ptr<FormatTarget> MakeNpzTarget();          npz_target.h
//   std::unique_ptr<FormatTarget> MakeDcpTarget(bool is_megatron);
//                                                           dcp_target.h
//   std::unique_ptr<FormatTarget> MakeMegatronZarrTarget();
//                                                  megatron_zarr_target.h
//
// Thread-safety: Write from any thread; everything else from one thread at a
// time.
// Ownership: owns its open files, and what it keeps of the plan.
// Units: bytes; boxes in elements of the leaf.
// Errors: InvalidArgument from Begin for a leaf that the format cannot hold,
// naming it; those of the file system.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ground/tensor/box.h"
#include "holdfast/checkpoint.h"
#include "holdfast/status.h"

namespace holdfast {

// One leaf of the new checkpoint.
struct TargetLeaf {
  size_t source = 0;  // in the leaves of the source
  std::string name;
  std::vector<std::string> key;
  std::vector<KeyKind> key_kinds;
  ValueKind kind = ValueKind::kArray;
  DType dtype = DType::kUint8;  // arrays and scalars
  Shape shape;
  // Everything but arrays: the text, the bytes, the torch file of an object,
  // the bytes of a scalar's element. Such a leaf has no pieces.
  std::string text;
  std::string value_type;
  std::string prng_impl;
  std::string sharding_json;
  std::optional<Shape> write_shape;
  // For formats that cut arrays into chunks; empty: the format chooses.
  Shape chunk_shape;

  uint64_t byte_count() const {
    return static_cast<uint64_t>(ElementCount(shape)) * DTypeBytes(dtype);
  }
};

struct TargetOptions {
  // The final path of the checkpoint; used only for its name and in messages.
  std::string final_path;
  uint64_t shard_bytes_max = 0;  // of one data file; 0: the format's choice
  uint64_t chunk_bytes_target = uint64_t{8} << 20;  // formats with chunks
  bool sync = true;  // false: SyncData and Finish do not wait
};

struct TargetPlan {
  std::vector<TargetLeaf> leaves;  // in the order in which they are to lie
  CheckpointInfo source_info;      // items, custom metadata and the like
  TargetOptions options;
};

class FormatTarget {
 public:
  virtual ~FormatTarget() = default;

  // Decides names, offsets and file sizes: a pure function of the plan. Creates
  // the files in `directory`, which exists and is not yet the checkpoint. With
  // `resume` it keeps the existing files, which an equal plan has begun.
  virtual Status Begin(const TargetPlan& plan, const std::string& directory,
                       bool resume) = 0;
  // Not empty: the checkpoint is this one file of the directory, and only this
  // file takes the final path. After Begin.
  virtual std::string OneFile() const { return ""; }
  // The boxes that a leaf of the plan is written in, each of at most bytes_max
  // bytes (at least one element), in the order of its file. They cover the
  // leaf. Empty for all but arrays with elements.
  virtual std::vector<Box> PiecesOf(size_t leaf, uint64_t bytes_max) const = 0;
  // The position of the first byte of a leaf: leaves are written in increasing
  // order of it. By default in the order of the plan.
  virtual uint64_t FilePosition(size_t leaf) const { return leaf; }
  // Elements of a box in C order, little endian, of the leaf's dtype. Returns a
  // mark that is given back to Restore (the CRC of what a zip member holds,
  // say); may be empty.
  virtual Result<std::string> Write(size_t leaf, const Box& box,
                                    std::string_view elements) = 0;
  // Instead of Write: the piece was written, and synced, by an earlier run.
  virtual Status Restore(size_t leaf, const Box& box,
                         std::string_view mark) = 0;
  // Puts everything written on stable storage, under its present names.
  virtual Status SyncData() = 0;
  // Headers, indexes, metadata, the sidecar; all synced, names too.
  virtual Status Finish() = 0;
};

}  // namespace holdfast
