// Writing boxes of elements into the uncompressed chunk files of an array.
//
// A box that is a whole chunk becomes a new file. Anything less is written in
// place, each rank its own bytes: the file is made with its full length by
// whoever comes first, nothing is read back and nothing locked, so that ranks
// that share a chunk cannot lose each other's bytes.
// Thread-safety: any thread, disjoint boxes; other processes alike.
// In an object store a box that is less than a chunk is Unimplemented.
// Ownership: borrows the state. Units: elements for boxes.
// Errors: those of the store and of errno_status.h.
#pragma once

#include "foreign/megatron/zarr_array.h"
#include "stores/place/place.h"
#include "stores/storage/file_calls.h"

namespace holdfast::megatron {

// Whether chunks are the elements and nothing else, named as Megatron names
// them. FailedPrecondition else.
Status CheckIsPlain(const ZarrArray::State& array);

// A part of one chunk.
struct ChunkPart {
  const ZarrArray::State* array = nullptr;
  Shape chunk_index;
  Box box_in_chunk;
  ConstArrayView source;  // of the box's shape

  uint64_t byte_count() const {
    return static_cast<uint64_t>(ElementCount(source.shape)) *
           DTypeBytes(source.dtype);
  }
};
// The parts that a tensor's elements fall into. OUT_OF_RANGE when its box is
// not inside the array.
Result<std::vector<ChunkPart>> PlanParts(const ZarrArray::State& array,
                                         const ShardedTensor& tensor);

class ChunkWriter {
 public:
  // `root`: the checkpoint directory.
  static Result<ChunkWriter> Open(const Place& root);

  // True: the chunk is shared. Its bytes and name are on stable storage after
  // SyncFile and SyncDirectory; those of any other chunk, bytes with `sync`,
  // name after store->SyncNames().
  Result<bool> Write(const ChunkPart& part, bool sync) const;

 private:
  explicit ChunkWriter(UniqueFd root) : root_(std::move(root)) {}
  Status WriteWhole(const ChunkPart& part, const std::string& key,
                    bool sync) const;
  Status WriteShared(const ChunkPart& part, const std::string& key) const;
  Result<UniqueFd> OpenShared(const std::string& key,
                              uint64_t chunk_bytes) const;

  UniqueFd root_;
  FileCalls calls_;
};

}  // namespace holdfast::megatron
