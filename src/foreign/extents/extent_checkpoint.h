// A Checkpoint whose arrays are raw bytes in files: the common part of
// safetensors, npz and torch's distributed checkpoints, once their metadata are
// parsed.
//
// Thread-safety: as holdfast/checkpoint.h; readers and text functions of leaves
// are called from several threads. Ownership: the checkpoint shares the store.
// Units: elements; bytes where named so.
// Errors: an extent outside its file, extents that overlap, and a missing file
// become the leaf's `problem` (DataLoss, NotFound), with leaf, file and offset,
// so that the other leaves can be read. Reading fails like the Store does, with
// the same names.
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

// A leaf and the place of its value. LeafInfo must have `name`, `key`,
// `key_kinds`, `kind` and the members that apply to the kind. An empty
// chunk_shape of an array becomes the shape of its largest extent; chunk_count,
// stored_bytes and decoded_bytes are computed if they are 0.
struct ExtentLeaf {
  LeafInfo info;
  // For arrays and scalars in files: boxes that cover the leaf. Elements that
  // no box covers cannot be read.
  std::vector<Extent> extents;
  // Reads the elements of arrays and scalars that are stored in another form
  // (deflated, packed); extents are then empty. Read is called with boxes of at
  // most memory_bytes bytes, in C order for one target.
  std::shared_ptr<const ArrayReader> reader;
  // Compares all stored bytes of the leaf with its checksum; may be empty.
  // Called before the leaf's first elements are returned, and again only if it
  // failed. A `reader` must do this itself when the complete leaf is read.
  std::function<Status()> check;
  // The value of a string, bytes, JSON or object leaf, or the bytes of a scalar
  // without extents and reader.
  std::string text;
  // Returns `text` on demand, if it is not in memory; may be empty.
  std::function<Result<std::string>()> read_text;
};

// Makes a checkpoint of `leaves`. The path of each file in the store is
// `info.path` + "/" + file. The store is asked for the size of each file once.
// `list` has the checksums that the store checks; may be null.
// REQUIRES: arrays and scalars without a problem have info.dtype and
// info.shape, and the box of each extent is inside the shape.
Result<std::unique_ptr<Checkpoint>> MakeExtentCheckpoint(
    CheckpointInfo info, std::shared_ptr<Store> store,
    std::vector<ExtentLeaf> leaves,
    std::shared_ptr<const DigestIndex> list = nullptr);

// Like MakeExtentCheckpoint, but leaf by leaf, for callers with so many leaves
// that a list of them would be costly. One thread at a time. May throw
// std::bad_alloc.
class ExtentCheckpointMaker {
 public:
  // `list` has the checksums that the store checks; may be null.
  explicit ExtentCheckpointMaker(
      std::shared_ptr<Store> store,
      std::shared_ptr<const DigestIndex> list = nullptr);
  ~ExtentCheckpointMaker();

  void Reserve(size_t leaf_count);
  void Add(ExtentLeaf leaf);
  // Returns the checkpoint. Must be called once, at the end.
  std::unique_ptr<Checkpoint> Finish(CheckpointInfo info);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace holdfast
