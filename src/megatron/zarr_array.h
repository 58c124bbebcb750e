// The inside of ZarrArray: an array directory of a checkpoint, opened.
//
// Thread-safety: a State is immutable; its store takes any thread.
// Ownership: a State shares the store of its checkpoint directory.
#pragma once

#include <memory>
#include <string>

#include "holdfast/megatron/zarr.h"
#include "storage/store.h"
#include "tensor/grid.h"
#include "zarr/read_chunk.h"

namespace holdfast::megatron {

struct ZarrArray::State {
  std::shared_ptr<Store> store;  // of the checkpoint directory
  std::string prefix;            // "" or "<key>/"
  std::string path;              // of the array's directory
  std::string dtype_name;        // as .zarray spells it
  zarr::ChunkFormat format;

  ChunkGrid grid() const {
    return {format.metadata.shape, format.metadata.chunk_shape};
  }
};
using ArrayState = std::shared_ptr<const ZarrArray::State>;

// OK, or REFUSED_KEY for a key that could lead out of the directory.
Status CheckKeyIsInside(std::string_view key);

// `<key>/.zarray` in the store. Errors as OpenZarrArrayVerbose.
Result<ArrayState> OpenArray(const std::shared_ptr<Store>& store,
                             std::string_view key, LoadMode mode);

// What CreateZarrArray writes: the metadata of a tensor's array, and its text.
struct NewArray {
  zarr::ArrayMetadata metadata;
  std::string dtype_name;
  std::string text;
};
Result<NewArray> PlanArray(const ShardedTensor& tensor);
// REQUIRES: chunks >= 1, of the shape's rank.
Result<NewArray> PlanArray(std::string_view key, DType dtype,
                           const Shape& shape, const Shape& chunks);
// The array that is planned, whether or not it is there.
Result<ArrayState> AssumeArray(const std::shared_ptr<Store>& store,
                               std::string_view key, const NewArray& array);
// ARRAY_EXISTS. The names are durable after store->SyncNames().
Result<ArrayState> CreateArray(const std::shared_ptr<Store>& store,
                               const ShardedTensor& tensor, bool sync);

}  // namespace holdfast::megatron
