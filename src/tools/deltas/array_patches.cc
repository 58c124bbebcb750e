#include "tools/deltas/array_patches.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "engine/restore/leaf_request.h"
#include "formats/delta/chunk_delta.h"
#include "ground/base/status_macros.h"
#include "ground/run/run.h"
#include "ground/tensor/grid.h"
#include "tools/deltas/batches.h"

namespace holdfast {
namespace {

struct PatchWork {
  size_t array = 0;
  Box box;
  uint64_t byte_count = 0;
  Buffer* elements = nullptr;  // memory that the next batch reuses
  ChunkPatch patch;
};

void GatherValues(size_t element_bytes, const char* elements,
                  ChunkPatch& patch) {
  patch.values = Buffer(patch.places.size() * element_bytes);
  char* to = patch.values.data();
  for (const uint32_t place : patch.places) {
    std::memcpy(to, elements + place * element_bytes, element_bytes);
    to += element_bytes;
  }
}

Status FindPatch(const PatchedArray& array, const LeafInfo& leaf,
                 PatchWork& work) {
  Buffer scratch;
  HF_ASSIGN_OR_RETURN(const std::string_view old, array.old(work.box, scratch));
  const size_t element_bytes = DTypeBytes(*leaf.dtype);
  work.patch.array = work.array;
  work.patch.box = work.box;
  work.patch.places = FindChanges(
      element_bytes, old, work.elements->view().substr(0, work.byte_count));
  GatherValues(element_bytes, work.elements->data(), work.patch);
  return Status();
}

Status DoBatch(const Checkpoint& checkpoint,
               const std::vector<PatchedArray>& arrays,
               std::span<PatchWork> works, std::vector<Buffer>& places,
               const RunOptions& read, Run& run, Stats& stats) {
  std::vector<ReadRequest> requests;
  places.resize(std::max(places.size(), works.size()));
  for (size_t i = 0; i < works.size(); ++i) {
    PatchWork& work = works[i];
    const size_t leaf = arrays[work.array].leaf;
    const DType dtype = *checkpoint.leaves()[leaf].dtype;
    places[i].Reserve(work.byte_count);
    work.elements = &places[i];
    requests.push_back(
        {leaf, work.box.origin,
         ArrayView{dtype, work.elements->data(), work.box.shape,
                   ContiguousStrides(work.box.shape, DTypeBytes(dtype))}});
  }
  HF_ASSIGN_OR_RETURN(const Stats one, checkpoint.ReadInto(requests, read));
  stats.Add(one);
  return run.executor().ParallelFor(
      works.size(),
      [&](size_t i, int) -> Status {
        const PatchedArray& array = arrays[works[i].array];
        HF_RETURN_IF_ERROR(
            FindPatch(array, checkpoint.leaves()[array.leaf], works[i]));
        run.AddDone(works[i].byte_count);
        return Status();
      },
      &run.cancel());
}

}  // namespace

Status FindPatches(const Checkpoint& checkpoint,
                   const std::vector<PatchedArray>& arrays,
                   const RunOptions& options, Stats& stats,
                   const std::function<Status(ChunkPatch patch)>& take) {
  std::vector<PatchWork> works;
  uint64_t total_bytes = 0;
  for (size_t i = 0; i < arrays.size(); ++i) {
    const LeafInfo& leaf = checkpoint.leaves()[arrays[i].leaf];
    for (const Box& box :
         ChunkGrid{leaf.shape, leaf.chunk_shape}.ChunkBoxes()) {
      const uint64_t bytes = static_cast<uint64_t>(ElementCount(box.shape)) *
                             DTypeBytes(*leaf.dtype);
      total_bytes += bytes;
      works.push_back({i, box, bytes, nullptr, {}});
    }
  }
  Run run(options);
  run.StartPhase("read", total_bytes);
  RunOptions read = options;
  read.progress = nullptr;
  std::vector<Buffer> places;
  return ForEachBatch(
      std::span(works), options, [&](std::span<PatchWork> batch) -> Status {
        HF_RETURN_IF_ERROR(
            DoBatch(checkpoint, arrays, batch, places, read, run, stats));
        for (PatchWork& work : batch) {
          if (work.patch.places.empty()) continue;
          HF_RETURN_IF_ERROR(take(std::move(work.patch)));
        }
        return Status();
      });
}

}  // namespace holdfast
