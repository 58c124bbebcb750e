// Reading parts of many arrays by Restore, in Megatron's words.
//
// Thread-safety: one call a Run at a time.
// Errors: CHUNK_SIZE with the text of the loader that an array was opened for,
// CHUNK_DAMAGED for bytes that do not decode; those of the store.
#pragma once

#include <string>
#include <vector>

#include "engine/restore/restore.h"
#include "foreign/megatron/zarr_load.h"

namespace holdfast::megatron {

// A chunk that was not there, and gave a part of a tensor the fill value.
struct AbsentPart {
  const ZarrArray::State* array = nullptr;
  size_t tensor = 0;  // the caller's number
  std::string key;    // of the chunk in the store
};

// Reads parts of any number, planned and read a few ten thousand chunks at a
// time, so that no plan is large whatever the metadata says.
class PartReader {
 public:
  // `place`: of the checkpoint, for messages.
  PartReader(AbsentChunks absent_chunks, std::string place, Run& run)
      : absent_chunks_(absent_chunks), place_(std::move(place)), run_(run) {}

  // The target is filled after Finish; it may be of another dtype, to which
  // elements are then cast. ABSENT_CHUNK as absent_chunks says.
  Status Add(const ZarrArray::State* array, size_t tensor,
             const StoredPart& part);
  // The chunks that were not there, by tensor and key; at most
  // kListedAbsentMax of them. Adds what was done to `stats`.
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

// Whether a chunk may be absent, as AbsentChunks::kAsRecorded says.
bool MayBeAbsent(const ZarrArray::State& array, const Shape& chunk_index);

// The meaning of a failed read of a chunk in Megatron's words.
Status ChunkError(const ZarrArray::State& array, std::string_view key,
                  const Status& status);

}  // namespace holdfast::megatron
