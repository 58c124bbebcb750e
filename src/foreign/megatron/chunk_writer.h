// Writes boxes of elements into the uncompressed chunk files of an array.
//
// A box that is a complete chunk becomes a new file. A smaller box is written
// in place: each rank writes its own bytes, and the first rank creates the file
// with its full length. Nothing is read back or locked, so ranks that share a
// chunk cannot lose each other's bytes. In an object store, a box that is
// smaller than a chunk is Unimplemented.
//
// Thread-safety: any thread and any process, with disjoint boxes.
// Ownership: borrows the state. Units: elements for boxes.
// Errors: those of the store and of errno_status.h.
#pragma once

#include "foreign/megatron/zarr_array.h"
#include "stores/place/place.h"
#include "stores/storage/file_calls.h"

namespace holdfast::megatron {

// Returns ok if chunks contain only the elements and are named as Megatron
// names them; otherwise FailedPrecondition.
Status CheckIsPlain(const ZarrArray::State& array);

// A part of one chunk.
struct ChunkPart {
  const ZarrArray::State* array = nullptr;
  Shape chunk_index;
  Box box_in_chunk;
  ConstArrayView source;  // with the box's shape

  uint64_t byte_count() const {
    return static_cast<uint64_t>(ElementCount(source.shape)) *
           DTypeBytes(source.dtype);
  }
};
// Returns the parts of chunks to which the tensor's elements belong.
// OUT_OF_RANGE if the tensor's box is not inside the array.
Result<std::vector<ChunkPart>> PlanParts(const ZarrArray::State& array,
                                         const ShardedTensor& tensor);

class ChunkWriter {
 public:
  // Opens a writer for the checkpoint directory `root`.
  static Result<ChunkWriter> Open(const Place& root);

  // Writes a part. Returns true if the chunk is shared; its bytes and name are
  // then durable after SyncFile and SyncDirectory. Otherwise, the bytes are
  // durable if `sync` is set, and the name after store->SyncNames().
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
