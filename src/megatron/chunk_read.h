// Reading parts of chunks of many arrays in one parallel pass.
//
// Thread-safety: one call at a time; it works with the executor's threads.
// Errors: CHUNK_SIZE with the text of the loader that `mode` stands for,
// CHUNK_DAMAGED for bytes that do not decode; those of the store.
#pragma once

#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/executor.h"
#include "megatron/zarr_load.h"

namespace holdfast::megatron {

struct ChunkRead {
  const ZarrArray::State* array = nullptr;
  size_t tensor = 0;  // the caller's number
  std::string key;    // of the chunk in the store
  Box box_in_chunk;
  ArrayView target;
};

// Adds the reads of a part. Large parts of uncompressed chunks are cut, so that
// many threads share them.
void PlanReads(const ZarrArray::State* array, size_t tensor,
               const StoredPart& part, std::vector<ChunkRead>& reads);

struct AbsentChunk {
  size_t tensor = 0;
  std::string key;
};
// Fills all targets. Chunks that are not there give the fill value and are
// listed, by tensor, in order.
Result<std::vector<AbsentChunk>> ReadChunks(const std::vector<ChunkRead>& reads,
                                            LoadMode mode, Executor& executor,
                                            const CancelToken* cancel);

// What a failed read of a chunk means in Megatron's words.
Status ChunkError(const ZarrArray::State& array, const std::string& key,
                  LoadMode mode, const Status& status);

}  // namespace holdfast::megatron
