// The implementation of ZarrArray: an opened array directory of a checkpoint.
//
// Thread-safety: a State is immutable; any thread may use its store.
// Ownership: a State shares the store of its checkpoint directory.
#pragma once

#include <memory>
#include <string>

#include "engine/restore/array_home.h"
#include "holdfast/megatron/zarr.h"

namespace holdfast::megatron {

struct ZarrArray::State final : ArrayHome {
  std::shared_ptr<Store> store;  // of the checkpoint directory
  std::string prefix;            // "" or "<key>/"
  std::string path;              // of the array's directory
  std::string dtype_name;        // as .zarray spells it
  std::shared_ptr<const ArrayLayout> layout;
  LoadMode mode = LoadMode::kTensorStore;  // selects the messages

  const zarr::ArrayMetadata& metadata() const {
    return layout->format.metadata;
  }
  const ChunkGrid& grid() const { return layout->grid; }
  ReadableArray stored() const { return {prefix, prefix, layout.get()}; }

  Store& array_store() const override { return *store; }
  // Megatron lists no checksums.
  ByteCheck byte_check() const override { return ByteCheck::kByCodecAlone; }
  // PartReader decides what missing chunks mean.
  bool refuses_missing_chunks() const override { return false; }
  // Hidden because ZarrArray is public and State is not.
  __attribute__((visibility("hidden"))) std::optional<Status> Explain(
      const ReadableArray& array, std::string_view key,
      const Status& failure) const override;
};
using ArrayState = std::shared_ptr<const ZarrArray::State>;

// Returns ok, or REFUSED_KEY for a key that could lead out of the directory.
Status CheckKeyIsInside(std::string_view key);

// Opens the array `<key>/.zarray` in the store. Errors as OpenZarrArrayVerbose.
Result<ArrayState> OpenArray(const std::shared_ptr<Store>& store,
                             std::string_view key, LoadMode mode);

// The metadata of the array that CreateZarrArray writes for a tensor, also as
// JSON.
struct NewArray {
  zarr::ArrayMetadata metadata;
  std::string dtype_name;
  std::string text;
};
Result<NewArray> PlanArray(const ShardedTensor& tensor);
// REQUIRES: chunks >= 1, with the rank of the shape.
Result<NewArray> PlanArray(std::string_view key, DType dtype,
                           const Shape& shape, const Shape& chunks);
// Returns the planned array without looking for it in the store.
Result<ArrayState> AssumeArray(const std::shared_ptr<Store>& store,
                               std::string_view key, const NewArray& array);
// Creates the tensor's array. Fails with ARRAY_EXISTS if it exists. The names
// are durable after store->SyncNames().
Result<ArrayState> CreateArray(const std::shared_ptr<Store>& store,
                               const ShardedTensor& tensor, bool sync);

}  // namespace holdfast::megatron
