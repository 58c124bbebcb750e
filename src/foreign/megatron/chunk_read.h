// Reads parts of many arrays with Restore, and reports errors in Megatron's
// terms.
//
// Thread-safety: one call per Run at a time.
// Errors: CHUNK_SIZE with the message of the loader that an array was opened
// for, CHUNK_DAMAGED for bytes that do not decode; those of the store.
#pragma once

#include <string>
#include <vector>

#include "engine/restore/restore.h"
#include "foreign/megatron/zarr_load.h"

namespace holdfast::megatron {

// A missing chunk, whose part of a tensor has the fill value.
struct AbsentPart {
  const ZarrArray::State* array = nullptr;
  size_t tensor = 0;  // the caller's index
  std::string key;    // of the chunk in the store
};

// Reads any number of parts. Chunks are planned and read a few ten thousand at
// a time, so that no plan gets large, whatever the metadata says.
class PartReader {
 public:
  // `place` is the checkpoint's path, for messages.
  PartReader(AbsentChunks absent_chunks, std::string place, Run& run)
      : absent_chunks_(absent_chunks), place_(std::move(place)), run_(run) {}

  // Adds a part. Its target is filled when Finish returns. If the target has
  // another dtype, elements are cast to it. Fails with ABSENT_CHUNK, depending
  // on `absent_chunks`.
  Status Add(const ZarrArray::State* array, size_t tensor,
             const StoredPart& part);
  // Returns the missing chunks, by tensor and key, at most kListedAbsentMax.
  // Adds the work done to `stats`.
  Result<std::vector<AbsentPart>> Finish(Stats& stats);

 private:
  struct Wanted {
    RestoreTarget target;
    const ZarrArray::State* array;
    size_t tensor;
  };

  Status ReadPlanned();
  Status CheckAbsent(const std::vector<AbsentPart>& absent) const;

  const AbsentChunks absent_chunks_;
  const std::string place_;
  Run& run_;
  std::vector<Wanted> planned_;
  int64_t planned_chunk_count_ = 0;
  std::vector<AbsentPart> absent_;
  Stats stats_;
};
inline constexpr size_t kListedAbsentMax = size_t{1} << 16;

// Returns whether a chunk may be missing under AbsentChunks::kAsRecorded.
bool MayBeAbsent(const ZarrArray::State& array, const Shape& chunk_index);

// Translates a failed read of a chunk into Megatron's terms.
Status ChunkError(const ZarrArray::State& array, std::string_view key,
                  const Status& status);

}  // namespace holdfast::megatron
