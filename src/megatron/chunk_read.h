// Reading parts of chunks of many arrays in one parallel pass.
//
// Thread-safety: one call a Run at a time.
// Errors: CHUNK_SIZE with the text of the loader that `mode` stands for,
// CHUNK_DAMAGED for bytes that do not decode; those of the store.
#pragma once

#include <string>
#include <vector>

#include "megatron/zarr_load.h"
#include "run/run.h"

namespace holdfast::megatron {

struct ChunkRead {
  const ZarrArray::State* array = nullptr;
  size_t tensor = 0;  // the caller's number
  std::string key;    // of the chunk in the store
  Box box_in_chunk;
  ArrayView target;
};

// Adds the reads of a part. Large parts of uncompressed chunks are cut, so that
// many threads share them. The target may be of another dtype: elements are
// then cast.
void PlanReads(const ZarrArray::State* array, size_t tensor,
               const StoredPart& part, std::vector<ChunkRead>& reads);

struct AbsentChunk {
  const ZarrArray::State* array = nullptr;
  size_t tensor = 0;
  std::string key;
};

// Reads parts of any number, planned and read a few ten thousand chunks at a
// time, so that no plan is large whatever the metadata says.
class PartReader {
 public:
  // `place`: of the checkpoint, for messages.
  PartReader(LoadMode mode, AbsentChunks absent_chunks, std::string place,
             Run& run)
      : mode_(mode),
        absent_chunks_(absent_chunks),
        place_(std::move(place)),
        run_(run) {}

  // The target is filled after Finish. ABSENT_CHUNK as absent_chunks says.
  Status Add(const ZarrArray::State* array, size_t tensor,
             const StoredPart& part);
  // The chunks that were not there and gave the fill value, in the order of
  // Add; at most kListedAbsentMax of them.
  Result<std::vector<AbsentChunk>> Finish();
  uint64_t chunk_count() const { return chunk_count_; }

 private:
  Status ReadPlanned();
  Status CheckAbsent(const std::vector<AbsentChunk>& absent) const;

  const LoadMode mode_;
  const AbsentChunks absent_chunks_;
  const std::string place_;
  Run& run_;
  std::vector<ChunkRead> planned_;
  std::vector<AbsentChunk> absent_;
  uint64_t chunk_count_ = 0;
};
inline constexpr size_t kListedAbsentMax = size_t{1} << 16;

// Whether a chunk may be absent, as AbsentChunks::kAsRecorded says.
bool MayBeAbsent(const ZarrArray::State& array, const Shape& chunk_index);

// What a failed read of a chunk means in Megatron's words.
Status ChunkError(const ZarrArray::State& array, const std::string& key,
                  LoadMode mode, const Status& status);

}  // namespace holdfast::megatron
