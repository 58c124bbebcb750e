// FormatTarget: writes one checkpoint of a foreign format, piece by piece, for
// a conversion.
//
// A conversion makes an empty directory, calls Begin, gets the pieces of every
// leaf, writes them all (from several threads, in any order, each once), and
// calls Finish. It calls SyncData now and then in between. An interrupted
// conversion begins again with `resume`, and calls Restore for the pieces that
// it knows to be durable, and Write for the others.
//
// Makers, each in its own header in the folder of its format:
//   std::unique_ptr<FormatTarget> MakeSafetensorsTarget(); safetensors_target.h
//   std::unique_ptr<FormatTarget> MakeNpzTarget();          npz_target.h
//   std::unique_ptr<FormatTarget> MakeDcpTarget(bool is_megatron);
//                                                           dcp_target.h
//   std::unique_ptr<FormatTarget> MakeMegatronZarrTarget();
//                                                  megatron_zarr_target.h
//
// Thread-safety: Write from any thread; everything else from one thread at a
// time.
// Ownership: owns its open files and a copy of what it needs from the plan.
// Units: bytes; boxes in elements of the leaf.
// Errors: InvalidArgument from Begin, with the leaf, for a leaf that the format
// cannot hold; those of the file system.
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
  size_t source = 0;  // index in the leaves of the source
  std::string name;
  std::vector<std::string> key;
  std::vector<KeyKind> key_kinds;
  ValueKind kind = ValueKind::kArray;
  DType dtype = DType::kUint8;  // arrays and scalars
  Shape shape;
  // For everything but arrays: the text, the bytes, the torch file of an
  // object, or the bytes of a scalar. Such a leaf has no pieces.
  std::string text;
  std::string value_type;
  std::string prng_impl;
  std::string sharding_json;
  std::optional<Shape> write_shape;
  // For formats that divide arrays into chunks; if empty, the format chooses.
  Shape chunk_shape;

  uint64_t byte_count() const {
    return static_cast<uint64_t>(ElementCount(shape)) * DTypeBytes(dtype);
  }
};

struct TargetOptions {
  // The final path of the checkpoint; used only for its name and in messages.
  std::string final_path;
  uint64_t shard_bytes_max = 0;  // of one data file; 0: the format's choice
  uint64_t chunk_bytes = uint64_t{8} << 20;  // formats with chunks
  bool sync = true;  // false: SyncData and Finish do not wait
};

struct TargetPlan {
  std::vector<TargetLeaf> leaves;  // in the order of their storage
  CheckpointInfo source_info;      // items, custom metadata and the like
  TargetOptions options;
};

class FormatTarget {
 public:
  virtual ~FormatTarget() = default;

  // Decides names, offsets and file sizes, which depend only on the plan.
  // Creates the files in `directory`, which exists and is not yet the
  // checkpoint. With `resume`, keeps existing files, which were begun with an
  // equal plan.
  virtual Status Begin(const TargetPlan& plan, const std::string& directory,
                       bool resume) = 0;
  // Returns the name of the only file, or "". If it is not empty, the
  // checkpoint is this one file, and only this file of the directory is moved
  // to the final path. Valid after Begin.
  virtual std::string OneFile() const { return ""; }
  // Returns the boxes in which a leaf of the plan is written, in the order of
  // its file. They cover the leaf, and each has at most bytes_max bytes, but at
  // least one element. Empty except for arrays with elements.
  virtual std::vector<Box> PiecesOf(size_t leaf, uint64_t bytes_max) const = 0;
  // Returns the position of a leaf's first byte. Leaves are written in order of
  // increasing position; by default, in the order of the plan.
  virtual uint64_t FilePosition(size_t leaf) const { return leaf; }
  // Writes the elements of a box: in C order, little endian, with the leaf's
  // dtype. Returns a mark for Restore (for example the CRC for a zip member),
  // which may be empty.
  virtual Result<std::string> Write(size_t leaf, const Box& box,
                                    std::string_view elements) = 0;
  // Called instead of Write if an earlier run wrote and synced the piece.
  virtual Status Restore(size_t leaf, const Box& box,
                         std::string_view mark) = 0;
  // Puts everything written on stable storage, under its current names.
  virtual Status SyncData() = 0;
  // Writes headers, indexes, metadata and the sidecar, and syncs everything,
  // including names.
  virtual Status Finish() = 0;
};

}  // namespace holdfast
