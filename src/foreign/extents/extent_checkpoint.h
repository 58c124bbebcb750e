// A Checkpoint whose arrays lie as raw bytes in files: what safetensors, npz
// and torch's distributed checkpoints have in common once their metadata is
// understood.
//
// Thread-safety: as holdfast/checkpoint.h; readers and text functions of leaves
// are called from several threads. Ownership: the checkpoint shares the store.
// Units: elements; bytes where named so.
// Errors: an extent that does not lie in its file, extents that overlap, and a
// missing file become the leaf's `problem` (DataLoss, NotFound), naming leaf,
// file and offset, so that the other leaves can be read; reading fails as Store
// does, with the same names.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/check/digest_index.h"
#include "engine/restore/raw_array.h"
#include "holdfast/checkpoint.h"
#include "holdfast/tree.h"
#include "stores/storage/store.h"

namespace holdfast {

// A leaf, and where its value is. LeafInfo: `name`, `key`, `key_kinds`,
// `kind` and what applies of the rest; an empty chunk_shape of an array becomes
// the shape of its largest extent, and chunk_count, stored_bytes and
// decoded_bytes are filled in where they are 0.
struct ExtentLeaf {
  LeafInfo info;
  // Arrays and scalars that lie in files: boxes that cover the leaf. Reading
  // elements that no box covers is refused.
  std::vector<Extent> extents;
  // Gives the elements of arrays and scalars that are not stored as they are
  // (deflated, packed); extents are empty then. Read is asked for boxes of at
  // most in_flight_bytes_max bytes, in C order for one target.
  std::shared_ptr<const ArrayReader> reader;
  // Compares all stored bytes of the leaf with its checksum; may be empty.
  // Called before the first of its elements are given, and again only if it has
  // failed. A `reader` that is asked for the whole leaf must do so by itself.
  std::function<Status()> check;
  // The value of a string, bytes, JSON or object leaf, and the element's bytes
  // of a scalar without extents and reader.
  std::string text;
  // Gives `text` when it is asked for, where it is not in memory; may be empty.
  std::function<Result<std::string>()> read_text;
};

// The paths of all files below the store are `info.path` + "/" + file.
// REQUIRES: info.dtype and info.shape of arrays and scalars that have no
// problem, and the box of each extent inside the shape. Sizes of files are
// asked of the store, once a file. `list`: the checksums that the store checks
// by; may be null.
Result<std::unique_ptr<Checkpoint>> MakeExtentCheckpoint(
    CheckpointInfo info, std::shared_ptr<Store> store,
    std::vector<ExtentLeaf> leaves,
    std::shared_ptr<const DigestIndex> list = nullptr);

// The same, leaf by leaf, for those who have so many that a list of them would
// cost. One thread at a time; what it throws is std::bad_alloc.
class ExtentCheckpointMaker {
 public:
  // `list`: the checksums that the store checks by; may be null.
  explicit ExtentCheckpointMaker(
      std::shared_ptr<Store> store,
      std::shared_ptr<const DigestIndex> list = nullptr);
  ~ExtentCheckpointMaker();

  void Reserve(size_t leaf_count);
  void Add(ExtentLeaf leaf);
  // Once, and last.
  std::unique_ptr<Checkpoint> Finish(CheckpointInfo info);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace holdfast
