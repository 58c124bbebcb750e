#include "foreign/chain/delta_checkpoint.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <unordered_map>

#include "engine/references/content_hash.h"
#include "engine/restore/leaf_request.h"
#include "formats/delta/array_delta.h"
#include "formats/delta/chunk_delta.h"
#include "ground/base/bytes.h"
#include "ground/base/coding.h"
#include "ground/base/status_macros.h"
#include "ground/run/run.h"
#include "ground/tensor/copy.h"
#include "ground/tensor/grid.h"

namespace holdfast {
namespace {

// A batch of chunks uses at most 1/kBatchPart of the budget, besides the
// caller's memory. The readers of the layers use the rest.
constexpr uint64_t kBatchPart = 2;

struct Layer {
  Place place;
  OpenedStep step;
  // The state of each array of the layer and, if it differs from the base, the
  // place of its bytes.
  struct Stored {
    ArrayState state = ArrayState::kSame;
    DType dtype = DType::kUint8;
    Shape shape;
    size_t leaf = 0;
  };
  std::unordered_map<std::string, Stored> arrays;
};

// The delta of one array in a layer.
struct ArrayStep {
  const Layer* layer = nullptr;
  size_t leaf = 0;  // of the layer's checkpoint
};

// The origin of an array of the newest step.
struct ArrayOrigin {
  std::optional<size_t> anchor_leaf;  // if absent, zeros
  std::vector<ArrayStep> steps;       // oldest first
  uint64_t hash = 0;
};

struct ArrayHeads {
  std::vector<std::vector<ChunkDeltaEntry>> of_steps;
};

// A wanted chunk, and the requests for it.
struct WantedChunk {
  size_t leaf = 0;
  int64_t number = 0;
  Box box;  // in the array
  const ArrayHeads* heads = nullptr;
  std::vector<const ReadRequest*> requests;
};

// A chunk being processed.
struct ChunkWork {
  const WantedChunk* wanted = nullptr;
  char* words = nullptr;  // the target's memory, or `scratch`
  Buffer scratch;
  std::vector<Buffer> deltas;  // for each step
};

uint64_t ChunkBytes(const WantedChunk& chunk, DType dtype) {
  return static_cast<uint64_t>(ElementCount(chunk.box.shape)) *
         DTypeBytes(dtype);
}

ArrayView BytesView(Buffer& buffer, uint64_t byte_count) {
  return {
      DType::kUint8, buffer.data(), {static_cast<int64_t>(byte_count)}, {1}};
}

// Allocates as many bytes as a file claims. The memory stays untouched until
// the reader has checked that the stored bytes can produce so many.
Result<Buffer> BufferOf(uint64_t byte_count) {
  if (byte_count == 0) return Buffer();
  Buffer buffer = Buffer::TryAllocate(byte_count);
  if (buffer.data() != nullptr) return buffer;
  return ResourceExhaustedError("no memory for " + std::to_string(byte_count) +
                                " bytes of a delta");
}

void AddTo(const Stats& from, Stats& sum) {
  sum.stored_bytes += from.stored_bytes;
  sum.chunk_count += from.chunk_count;
}

class DeltaArrays final : public Checkpoint {
 public:
  DeltaArrays(std::vector<std::unique_ptr<Layer>> layers,
              std::unique_ptr<Checkpoint> anchor, const Place& anchor_place)
      : layers_(std::move(layers)), anchor_(std::move(anchor)) {
    info_ = layers_[0]->step.checkpoint->info();
    info_.format = "delta";
    info_.result_id = layers_[0]->step.delta->id;
    for (const auto& layer : layers_) paths_.push_back(layer->place.path());
    paths_.push_back(anchor_place.path());
    info_.bases.assign(paths_.begin() + 1, paths_.end());
    std::unordered_map<std::string_view, size_t> of_anchor;
    for (size_t i = 0; i < anchor_->leaves().size(); ++i) {
      const std::string& name = anchor_->leaves()[i].name;
      of_anchor.emplace(name.empty() ? kNamelessArray : std::string_view(name),
                        i);
    }
    const DeltaInfo& newest = *layers_[0]->step.delta;
    size_t array = 0;
    for (const SidecarLeaf& leaf : newest.tree.leaves) {
      if (!leaf.stored.empty()) {
        AddArray(leaf, newest, newest.hashes[array++], of_anchor);
      }
    }
  }

 protected:
  Result<Stats> DoReadInto(const std::vector<ReadRequest>& requests,
                           const RunOptions& options) const override;
  Result<std::string> DoReadText(size_t) const override {
    return InternalError("a delta's arrays are not strings");
  }

 private:
  void AddArray(const SidecarLeaf& leaf, const DeltaInfo& newest, uint64_t hash,
                const std::unordered_map<std::string_view, size_t>& of_anchor);
  Status FindSteps(
      const LeafInfo& leaf, ArrayOrigin& origin,
      const std::unordered_map<std::string_view, size_t>& of_anchor) const;
  Result<std::vector<WantedChunk>> FindChunks(
      const std::vector<const ReadRequest*>& requests,
      std::map<size_t, ArrayHeads>& heads) const;
  Status ReadHeads(std::map<size_t, ArrayHeads>& heads, const RunOptions& run,
                   Stats& stats) const;
  Status CheckHash(size_t leaf, const ArrayHeads& heads) const;
  Status ReadBatch(std::span<const WantedChunk> chunks, Run& run,
                   const RunOptions& options, Stats& stats) const;
  Status FetchBatch(std::vector<ChunkWork>& works, const RunOptions& options,
                    Stats& stats) const;
  Status MakeChunk(ChunkWork& work, ChunkDelta& delta) const;
  uint64_t WorkBytes(const WantedChunk& chunk) const;
  ChunkGrid GridOf(size_t leaf) const {
    return {infos_[leaf].shape, infos_[leaf].chunk_shape};
  }

  const std::vector<std::unique_ptr<Layer>> layers_;  // newest first
  const std::unique_ptr<Checkpoint> anchor_;
  std::vector<std::string> paths_;
  std::vector<ArrayOrigin> origins_;  // in the order of infos_
};

// The bytes of a chunk's delta in a stored array.
struct DeltaRange {
  uint64_t first = 0;
  uint64_t byte_count = 0;
};

DeltaRange RangeOf(const std::vector<ChunkDeltaEntry>& entries,
                   int64_t number) {
  const uint64_t head_bytes = ArrayDeltaHeadBytes(entries.size());
  const uint64_t first = number == 0 ? 0 : entries[number - 1].end;
  return {head_bytes + first, entries[number].end - first};
}

void DeltaArrays::AddArray(
    const SidecarLeaf& leaf, const DeltaInfo& newest, uint64_t hash,
    const std::unordered_map<std::string_view, size_t>& of_anchor) {
  LeafInfo info = NamedLeaf(leaf.stored, ValueKind::kArray);
  info.dtype = leaf.dtype;
  info.shape = leaf.shape;
  info.chunk_shape =
      DeltaChunkShape(leaf.shape, *leaf.dtype, newest.chunk_bytes);
  info.codecs = "delta";  // kUnchangedCodecs if no step changes it
  info.decoded_bytes =
      static_cast<uint64_t>(ElementCount(leaf.shape)) * DTypeBytes(*leaf.dtype);
  info.chunk_count = static_cast<uint64_t>(
      ChunkGrid{info.shape, info.chunk_shape}.ChunkCount());
  ArrayOrigin origin;
  origin.hash = hash;
  info.problem = FindSteps(info, origin, of_anchor);
  if (origin.steps.empty()) info.codecs = kUnchangedCodecs;
  for (const ArrayStep& step : origin.steps) {
    if (step.layer == layers_[0].get()) {
      info.stored_bytes =
          step.layer->step.checkpoint->leaves()[step.leaf].stored_bytes;
    }
  }
  infos_.push_back(std::move(info));
  origins_.push_back(std::move(origin));
}

// Collects the steps that change the array, from the newest step down to the
// step that has the complete array.
Status DeltaArrays::FindSteps(
    const LeafInfo& leaf, ArrayOrigin& origin,
    const std::unordered_map<std::string_view, size_t>& of_anchor) const {
  const auto other_array = [&](const std::string& path) {
    return DataLossError(path + ": leaf " + leaf.name + ": want an array " +
                         std::string(DTypeName(*leaf.dtype)) +
                         ShapeToString(leaf.shape) +
                         ", which a later delta changes");
  };
  for (const auto& layer : layers_) {
    const auto found = layer->arrays.find(leaf.name);
    if (found == layer->arrays.end() || found->second.dtype != *leaf.dtype ||
        found->second.shape != leaf.shape ||
        layer->step.delta->chunk_bytes != layers_[0]->step.delta->chunk_bytes) {
      return other_array(layer->place.path());
    }
    if (found->second.state == ArrayState::kSame) continue;
    origin.steps.insert(origin.steps.begin(),
                        {layer.get(), found->second.leaf});
    if (found->second.state == ArrayState::kNew) return Status();
  }
  const auto found = of_anchor.find(leaf.name);
  if (found == of_anchor.end()) return other_array(paths_.back());
  const LeafInfo& base = anchor_->leaves()[found->second];
  HF_RETURN_IF_ERROR(base.problem);
  if (base.kind != ValueKind::kArray || base.dtype != leaf.dtype ||
      base.shape != leaf.shape) {
    return other_array(paths_.back());
  }
  origin.anchor_leaf = found->second;
  return Status();
}

Status DeltaArrays::ReadHeads(std::map<size_t, ArrayHeads>& heads,
                              const RunOptions& run, Stats& stats) const {
  struct Head {
    Buffer bytes;
    const ArrayStep* step = nullptr;
    std::vector<ChunkDeltaEntry>* entries = nullptr;
    size_t leaf = 0;
  };
  std::vector<Head> reads;
  std::map<const Layer*, std::vector<ReadRequest>> by_layer;
  for (auto& [leaf, of] : heads) {
    of.of_steps.resize(origins_[leaf].steps.size());
    const uint64_t head_bytes = ArrayDeltaHeadBytes(infos_[leaf].chunk_count);
    for (size_t i = 0; i < of.of_steps.size(); ++i) {
      const ArrayStep& step = origins_[leaf].steps[i];
      const LeafInfo& stored = step.layer->step.checkpoint->leaves()[step.leaf];
      // Checked before allocating, so that no more memory is allocated than the
      // file has bytes.
      if (stored.shape[0] < static_cast<int64_t>(head_bytes)) {
        return DataLossError(step.layer->place.path() + ": leaf " +
                             stored.name + ": a delta of " +
                             std::to_string(stored.shape[0]) +
                             " bytes is shorter than its head");
      }
      Head& head = reads.emplace_back();
      HF_ASSIGN_OR_RETURN(head.bytes, BufferOf(head_bytes));
      head.step = &step;
      head.entries = &of.of_steps[i];
      head.leaf = leaf;
      by_layer[step.layer].push_back(
          {step.leaf, {0}, BytesView(head.bytes, head_bytes)});
    }
  }
  for (const auto& [layer, requests] : by_layer) {
    HF_ASSIGN_OR_RETURN(const Stats one,
                        layer->step.checkpoint->ReadInto(requests, run));
    AddTo(one, stats);
  }
  for (const Head& head : reads) {
    const LeafInfo& stored =
        head.step->layer->step.checkpoint->leaves()[head.step->leaf];
    auto entries =
        ReadArrayDeltaHead(head.bytes.view(), infos_[head.leaf].chunk_count,
                           static_cast<uint64_t>(stored.shape[0]));
    if (!entries.ok()) {
      return entries.status().WithContext(head.step->layer->place.path() +
                                          ": leaf " + stored.name);
    }
    *head.entries = *std::move(entries);
  }
  for (const auto& [leaf, of] : heads) {
    HF_RETURN_IF_ERROR(CheckHash(leaf, of));
  }
  return Status();
}

// Checks that each step starts from the result of the previous step, and that
// the last result is the one that the newest delta states.
Status DeltaArrays::CheckHash(size_t leaf, const ArrayHeads& heads) const {
  const auto& steps = heads.of_steps;
  for (size_t i = 1; i < steps.size(); ++i) {
    for (size_t chunk = 0; chunk < steps[i].size(); ++chunk) {
      if (steps[i][chunk].base_hash != steps[i - 1][chunk].result_hash) {
        return DataLossError(
            origins_[leaf].steps[i].layer->place.path() + ": leaf " +
            infos_[leaf].name + ", chunk " + std::to_string(chunk) +
            ": the delta was made from elements that differ from its base's");
      }
    }
  }
  std::string hashes;
  for (const ChunkDeltaEntry& entry : steps.back()) {
    PutU64Little(hashes, entry.result_hash);
  }
  if (ChunkHash(hashes) == origins_[leaf].hash) return Status();
  return DataLossError(paths_.front() + ": leaf " + infos_[leaf].name +
                       ": the chunks' hashes are not those of the array");
}

Result<std::vector<WantedChunk>> DeltaArrays::FindChunks(
    const std::vector<const ReadRequest*>& requests,
    std::map<size_t, ArrayHeads>& heads) const {
  std::map<std::pair<size_t, int64_t>, WantedChunk> chunks;
  for (const ReadRequest* request : requests) {
    const ChunkGrid grid = GridOf(request->leaf);
    const Shape counts = grid.ChunkCounts();
    HF_RETURN_IF_ERROR(
        ForEachChunk(grid, {request->origin, request->target.shape},
                     [&](const Shape& index) -> Status {
                       int64_t number = 0;
                       for (size_t i = 0; i < index.size(); ++i) {
                         number = number * counts[i] + index[i];
                       }
                       WantedChunk& chunk = chunks[{request->leaf, number}];
                       chunk.leaf = request->leaf;
                       chunk.number = number;
                       chunk.box = grid.ChunkBox(index);
                       chunk.heads = &heads[request->leaf];
                       chunk.requests.push_back(request);
                       return Status();
                     }));
  }
  std::vector<WantedChunk> sorted;
  sorted.reserve(chunks.size());
  for (auto& [key, chunk] : chunks) sorted.push_back(std::move(chunk));
  return sorted;
}

Result<Stats> DeltaArrays::DoReadInto(const std::vector<ReadRequest>& requests,
                                      const RunOptions& options) const {
  Stopwatch watch;
  Stats stats;
  std::vector<ReadRequest> unchanged;
  std::vector<const ReadRequest*> changed;
  uint64_t total_bytes = 0;
  for (const ReadRequest& request : requests) {
    const ArrayOrigin& origin = origins_[request.leaf];
    const uint64_t bytes =
        static_cast<uint64_t>(ElementCount(request.target.shape)) *
        DTypeBytes(*infos_[request.leaf].dtype);
    stats.decoded_bytes += bytes;
    if (origin.steps.empty()) {
      unchanged.push_back(
          {*origin.anchor_leaf, request.origin, request.target});
      continue;
    }
    changed.push_back(&request);
    total_bytes += bytes;
  }
  if (!unchanged.empty()) {
    HF_ASSIGN_OR_RETURN(const Stats one, anchor_->ReadInto(unchanged, options));
    AddTo(one, stats);
  }
  Run run(options);
  run.StartPhase("read", total_bytes);
  RunOptions quiet = options;  // chunks are counted when finished
  quiet.progress = nullptr;
  std::map<size_t, ArrayHeads> heads;
  HF_ASSIGN_OR_RETURN(const std::vector<WantedChunk> chunks,
                      FindChunks(changed, heads));
  HF_RETURN_IF_ERROR(ReadHeads(heads, quiet, stats));
  const uint64_t batch_bytes_max =
      std::max<uint64_t>(options.memory_bytes, 1) / kBatchPart;
  for (size_t first = 0; first < chunks.size();) {
    size_t end = first;
    uint64_t batch_bytes = 0;
    do {
      batch_bytes += WorkBytes(chunks[end++]);
    } while (end < chunks.size() &&
             (options.memory_bytes == 0 ||
              batch_bytes + WorkBytes(chunks[end]) <= batch_bytes_max));
    HF_RETURN_IF_ERROR(ReadBatch(std::span(chunks).subspan(first, end - first),
                                 run, quiet, stats));
    first = end;
  }
  stats.transfer_seconds = stats.total_seconds = watch.Lap();
  return stats;
}

uint64_t DeltaArrays::WorkBytes(const WantedChunk& chunk) const {
  uint64_t bytes = ChunkBytes(chunk, *infos_[chunk.leaf].dtype);
  for (const auto& entries : chunk.heads->of_steps) {
    bytes += RangeOf(entries, chunk.number).byte_count;
  }
  return bytes;
}

// Returns the part of the caller's memory that covers exactly the chunk, in the
// array's own dtype, or null if there is no such part.
char* DirectTarget(const WantedChunk& chunk, DType dtype) {
  if (chunk.requests.size() != 1) return nullptr;
  const ReadRequest& request = *chunk.requests[0];
  if (request.target.dtype != dtype) return nullptr;
  const Box wanted{request.origin, request.target.shape};
  if (Intersect(chunk.box, wanted) != chunk.box) return nullptr;
  const ArrayView part =
      Subview(request.target, Relative(chunk.box, request.origin));
  const bool is_aligned =
      reinterpret_cast<uintptr_t>(part.data) % DTypeBytes(dtype) == 0;
  return is_aligned && IsContiguous(part) ? part.data : nullptr;
}

Status DeltaArrays::FetchBatch(std::vector<ChunkWork>& works,
                               const RunOptions& options, Stats& stats) const {
  std::vector<ReadRequest> of_anchor;
  std::map<const Layer*, std::vector<ReadRequest>> by_layer;
  for (ChunkWork& work : works) {
    const WantedChunk& chunk = *work.wanted;
    const LeafInfo& leaf = infos_[chunk.leaf];
    const ArrayOrigin& origin = origins_[chunk.leaf];
    const uint64_t bytes = ChunkBytes(chunk, *leaf.dtype);
    work.words = DirectTarget(chunk, *leaf.dtype);
    if (work.words == nullptr) {
      work.scratch = Buffer(bytes);
      work.words = work.scratch.data();
    }
    if (origin.anchor_leaf) {
      of_anchor.push_back(
          {*origin.anchor_leaf, chunk.box.origin,
           ArrayView{
               *leaf.dtype, work.words, chunk.box.shape,
               ContiguousStrides(chunk.box.shape, DTypeBytes(*leaf.dtype))}});
    } else {
      std::memset(work.words, 0, bytes);
    }
    for (size_t i = 0; i < origin.steps.size(); ++i) {
      const DeltaRange range = RangeOf(chunk.heads->of_steps[i], chunk.number);
      HF_ASSIGN_OR_RETURN(Buffer memory, BufferOf(range.byte_count));
      Buffer& delta = work.deltas.emplace_back(std::move(memory));
      if (range.byte_count == 0) continue;
      by_layer[origin.steps[i].layer].push_back(
          {origin.steps[i].leaf,
           {static_cast<int64_t>(range.first)},
           BytesView(delta, range.byte_count)});
    }
  }
  if (!of_anchor.empty()) {
    HF_ASSIGN_OR_RETURN(const Stats one, anchor_->ReadInto(of_anchor, options));
    AddTo(one, stats);
  }
  for (const auto& [layer, requests] : by_layer) {
    HF_ASSIGN_OR_RETURN(const Stats one,
                        layer->step.checkpoint->ReadInto(requests, options));
    AddTo(one, stats);
  }
  return Status();
}

// Applies all steps to the chunk, and compares the hash of the result.
Status DeltaArrays::MakeChunk(ChunkWork& work, ChunkDelta& delta) const {
  const WantedChunk& chunk = *work.wanted;
  const LeafInfo& leaf = infos_[chunk.leaf];
  const uint64_t bytes = ChunkBytes(chunk, *leaf.dtype);
  const std::span<char> words(work.words, bytes);
  const auto in_words = [&](size_t step) {
    return origins_[chunk.leaf].steps[step].layer->place.path() + ": leaf " +
           leaf.name + ", chunk " + std::to_string(chunk.number);
  };
  const WordKind kind = WordKindOf(*leaf.dtype);
  const size_t step_count = work.deltas.size();
  for (size_t i = 0; i < step_count; ++i) {
    const Status applied = delta.Apply(kind, work.deltas[i].view(), words);
    if (!applied.ok()) return applied.WithContext(in_words(i));
  }
  const uint64_t got = ChunkHash({words.data(), words.size()});
  if (got != chunk.heads->of_steps.back()[chunk.number].result_hash) {
    return DataLossError(in_words(step_count - 1) +
                         ": what its delta makes of the base does not have "
                         "the hash that was saved");
  }
  const ArrayView whole{
      *leaf.dtype, words.data(), chunk.box.shape,
      ContiguousStrides(chunk.box.shape, DTypeBytes(*leaf.dtype))};
  if (work.scratch.size() == 0) return Status();
  for (const ReadRequest* request : chunk.requests) {
    const auto common =
        Intersect(chunk.box, Box{request->origin, request->target.shape});
    if (!common) continue;
    ConvertStrided(
        Subview(ConstArrayView(whole), Relative(*common, chunk.box.origin)),
        Subview(request->target, Relative(*common, request->origin)));
  }
  return Status();
}

Status DeltaArrays::ReadBatch(std::span<const WantedChunk> chunks, Run& run,
                              const RunOptions& options, Stats& stats) const {
  std::vector<ChunkWork> works(chunks.size());
  for (size_t i = 0; i < works.size(); ++i) works[i].wanted = &chunks[i];
  HF_RETURN_IF_ERROR(FetchBatch(works, options, stats));
  WorkerDeltas deltas(run.executor().thread_count());
  return run.executor().ParallelFor(
      works.size(),
      [&](size_t i, int worker) -> Status {
        HF_RETURN_IF_ERROR(MakeChunk(works[i], deltas.Of(worker)));
        const uint64_t bytes =
            ChunkBytes(chunks[i], *infos_[chunks[i].leaf].dtype);
        run.AddDone(bytes);
        return Status();
      },
      &run.cancel());
}

Result<std::unique_ptr<Layer>> MakeLayer(const Place& place, OpenedStep step) {
  auto layer = std::make_unique<Layer>();
  layer->place = place;
  layer->step = std::move(step);
  std::unordered_map<std::string_view, size_t> leaves;
  const std::vector<LeafInfo>& stored = layer->step.checkpoint->leaves();
  for (size_t i = 0; i < stored.size(); ++i) leaves.emplace(stored[i].name, i);
  size_t array = 0;
  for (const SidecarLeaf& leaf : layer->step.delta->tree.leaves) {
    if (leaf.stored.empty()) continue;
    Layer::Stored& of = layer->arrays[leaf.stored];
    of.state = layer->step.delta->states[array++];
    of.dtype = *leaf.dtype;
    of.shape = leaf.shape;
    if (of.state == ArrayState::kSame) continue;
    const auto found = leaves.find(leaf.stored);
    if (found == leaves.end()) {
      return DataLossError(place.path() + ": the delta's array " + leaf.stored +
                           " is not there");
    }
    of.leaf = found->second;
    const LeafInfo& info = stored[of.leaf];
    HF_RETURN_IF_ERROR(info.problem);
    if (info.dtype != DType::kUint8 || info.shape.size() != 1) {
      return DataLossError(place.path() + ": the delta's array " + leaf.stored +
                           " is not a uint8 array of one axis");
    }
  }
  return layer;
}

bool IsBase(const BaseRecord& record, const std::string& result_id,
            const std::string& content_hash) {
  if (!record.id.empty() && result_id == record.id) return true;
  return content_hash == record.content_hash;
}

// Checks that the step at `place` is the one from which the delta was made.
Status CheckBase(const Place& place, const OpenedStep& step,
                 const Layer& layer) {
  const BaseRecord& record = layer.step.delta->base;
  const std::string& id =
      step.delta ? step.delta->id : step.checkpoint->info().result_id;
  if (IsBase(record, id, "")) return Status();
  HF_ASSIGN_OR_RETURN(const std::string hash, ContentHash(place));
  if (IsBase(record, id, hash)) return Status();
  return FailedPreconditionError(layer.place.path() + ": its base " +
                                 place.path() +
                                 " is not the step that this delta was made "
                                 "from: it was written again, or "
                                 "is of another run");
}

struct FoundBase {
  Place place;
  OpenedStep step;
};

// Returns the base from the first of its possible places that has it. Otherwise
// returns the failure at the likeliest place that holds anything.
Result<FoundBase> FindBase(const Layer& layer, const OpenStepFn& open_step) {
  const DeltaInfo& info = *layer.step.delta;
  Status failure =
      info.base.path.empty()
          ? DataLossError(layer.place.path() + ": it names no base")
          : NotFoundError(layer.place.path() + ": its base, the step " +
                          info.base.path + ", is no longer next to it");
  bool has_tried = false;
  for (const Place& place : PlacesOfBase(layer.place, info.base)) {
    Result<OpenedStep> step = open_step(place, info.item);
    Status found =
        step.ok() ? CheckBase(place, *step, layer)
                  : step.status().WithContext(layer.place.path() +
                                              ": a delta whose base is needed");
    if (found.ok()) return FoundBase{place, *std::move(step)};
    if (found.code() == StatusCode::kCancelled) return found;
    const bool tells_more = failure.code() == StatusCode::kNotFound &&
                            found.code() != StatusCode::kNotFound;
    if (!has_tried || tells_more) failure = std::move(found);
    has_tried = true;
  }
  return failure;
}

}  // namespace

Result<std::unique_ptr<Checkpoint>> OpenDelta(const Place& place,
                                              OpenedStep step,
                                              const OpenStepFn& open_step,
                                              std::optional<GivenStep> given) {
  std::vector<std::unique_ptr<Layer>> layers;
  std::set<std::string> seen;
  Place at = place.Absolute();
  while (step.delta) {
    if (!seen.insert(at.path()).second || seen.size() > kChainLengthMax) {
      return DataLossError(place.path() + ": its chain of bases comes to " +
                           at.path() + " again");
    }
    HF_ASSIGN_OR_RETURN(auto layer, MakeLayer(at, std::move(step)));
    layers.push_back(std::move(layer));
    const BaseRecord& record = layers.back()->step.delta->base;
    if (given && IsBase(record, given->checkpoint->info().result_id,
                        given->content_hash)) {
      at = Place(given->checkpoint->info().path);
      step = OpenedStep();
      step.checkpoint = std::move(given->checkpoint);
      break;
    }
    HF_ASSIGN_OR_RETURN(FoundBase base, FindBase(*layers.back(), open_step));
    at = base.place;
    step = std::move(base.step);
  }
  const TreeSidecar tree = layers[0]->step.delta->tree;
  return WithSidecar(std::make_unique<DeltaArrays>(
                         std::move(layers), std::move(step.checkpoint), at),
                     tree);
}

}  // namespace holdfast
