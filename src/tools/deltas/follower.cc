// Follower: new data is first read, built and checked in other memory, and then
// copied into the caller's arrays.
#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "engine/references/content_hash.h"
#include "engine/restore/leaf_request.h"
#include "foreign/chain/delta_checkpoint.h"
#include "ground/base/executor.h"
#include "ground/base/no_throw.h"
#include "ground/base/status_macros.h"
#include "ground/record/call_record.h"
#include "ground/run/run.h"
#include "ground/tensor/copy.h"
#include "holdfast/delta.h"
#include "holdfast/steps/steps.h"
#include "tools/deltas/array_patches.h"
#include "tools/deltas/memory_checkpoint.h"

namespace holdfast {
namespace {

// Returns the elements of a chunk, which is a contiguous range of the array.
char* ChunkIn(const ArrayView& memory, const Box& box) {
  return Subview(memory, box).data;
}

void WritePatch(const ChunkPatch& patch, const ArrayView& memory) {
  const size_t element_bytes = DTypeBytes(memory.dtype);
  char* const chunk = ChunkIn(memory, patch.box);
  const char* from = patch.values.data();
  for (const uint32_t place : patch.places) {
    std::memcpy(chunk + place * element_bytes, from, element_bytes);
    from += element_bytes;
  }
}

Status CheckTarget(const Follower::Target& target) {
  if (!IsContiguous(target.memory)) {
    return InvalidArgumentError("follow: the memory of " + target.name +
                                " is not contiguous");
  }
  if (reinterpret_cast<uintptr_t>(target.memory.data) %
          DTypeBytes(target.memory.dtype) !=
      0) {
    return InvalidArgumentError("follow: the memory of " + target.name +
                                " is not aligned for its elements");
  }
  return Status();
}

struct FollowedMemory {
  using Target = Follower::Target;
  struct Update : Follower::Update {
    std::string result_id;
  };

  std::string root;
  std::vector<Target> targets;
  RunOptions run;
  // The number of the step in memory.
  std::optional<int64_t> step;
  std::string path;
  std::string result_id;     // or empty
  std::string content_hash;  // differs in another save of the step

  // Returns the leaf for each target.
  Result<std::vector<size_t>> FindLeaves(const Checkpoint& checkpoint) const {
    std::vector<size_t> leaves;
    for (const Target& target : targets) {
      HF_ASSIGN_OR_RETURN(const size_t leaf, checkpoint.Find(target.name));
      const LeafInfo& info = checkpoint.leaves()[leaf];
      HF_RETURN_IF_ERROR(info.problem);
      if (info.dtype != target.memory.dtype ||
          info.shape != target.memory.shape) {
        return InvalidArgumentError(
            checkpoint.info().path + ": leaf " + target.name + " is " +
            (info.dtype ? std::string(DTypeName(*info.dtype)) : "no array ") +
            ShapeToString(info.shape) + ", the memory for it is " +
            std::string(DTypeName(target.memory.dtype)) +
            ShapeToString(target.memory.shape));
      }
      leaves.push_back(leaf);
    }
    return leaves;
  }

  Status ApplyChain(const Checkpoint& checkpoint, Update& update) const {
    HF_ASSIGN_OR_RETURN(const std::vector<size_t> leaves,
                        FindLeaves(checkpoint));
    std::vector<PatchedArray> arrays;
    std::vector<size_t> target_of;
    for (size_t i = 0; i < targets.size(); ++i) {
      if (checkpoint.leaves()[leaves[i]].codecs == kUnchangedCodecs) continue;
      const ArrayView& memory = targets[i].memory;
      target_of.push_back(i);
      arrays.push_back({leaves[i], [&memory](const Box& box, Buffer&) {
                          const size_t bytes =
                              static_cast<size_t>(ElementCount(box.shape)) *
                              DTypeBytes(memory.dtype);
                          return Result<std::string_view>(
                              std::string_view(ChunkIn(memory, box), bytes));
                        }});
    }
    Stats stats;
    std::vector<ChunkPatch> patches;
    HF_RETURN_IF_ERROR(
        FindPatches(checkpoint, arrays, run, stats, [&](ChunkPatch patch) {
          patches.push_back(std::move(patch));
          return Status();
        }));
    // Nothing fails from here on.
    Run writing(run);
    const Status written = writing.executor().ParallelFor(
        patches.size(), [&](size_t i, int) -> Status {
          WritePatch(patches[i], targets[target_of[patches[i].array]].memory);
          return Status();
        });
    for (const ChunkPatch& patch : patches) {
      const std::string& name = targets[target_of[patch.array]].name;
      if (update.changed.empty() || update.changed.back() != name) {
        update.changed.push_back(name);
      }
    }
    update.read_bytes = stats.stored_bytes;
    return written;
  }

  Status ReadWhole(const Checkpoint& checkpoint, Update& update) const {
    HF_ASSIGN_OR_RETURN(const std::vector<size_t> leaves,
                        FindLeaves(checkpoint));
    std::vector<Array> arrays;
    std::vector<ReadRequest> requests;
    for (size_t i = 0; i < targets.size(); ++i) {
      const ArrayView& memory = targets[i].memory;
      HF_ASSIGN_OR_RETURN(Array array,
                          Array::Allocate(memory.dtype, memory.shape));
      requests.push_back(
          {leaves[i], Shape(memory.shape.size(), 0), array.mutable_view()});
      arrays.push_back(std::move(array));
    }
    HF_ASSIGN_OR_RETURN(const Stats stats, checkpoint.ReadInto(requests, run));
    for (size_t i = 0; i < targets.size(); ++i) {
      CopyStrided(arrays[i].view(), targets[i].memory);
      update.changed.push_back(targets[i].name);
    }
    update.read_bytes = stats.stored_bytes;
    return Status();
  }

  static OpenOptions HowToOpen() {
    OpenOptions open;
    open.stored_sizes = false;
    return open;
  }

  // Returns nullopt if the chain does not contain the step in memory, or if
  // applying its deltas to memory does not yield what was saved.
  Result<std::optional<Update>> TryChain(const std::string& at) const {
    std::optional<Update> none;
    if (!step) return none;
    GivenStep memory{
        std::make_unique<MemoryCheckpoint>(targets, path, result_id),
        content_hash};
    const auto over = OpenOver(at, std::move(memory), HowToOpen());
    if (over.status().code() == StatusCode::kCancelled) return over.status();
    // The step in memory may have been deleted or replaced on disk.
    if (!over.ok()) return none;
    const CheckpointInfo& info = (*over)->info();
    if (info.bases.empty() || info.bases.back() != path) return none;
    Update update;
    update.delta_count = info.bases.size();
    const Status applied = ApplyChain(**over, update);
    if (IsDamage(applied)) return none;
    HF_RETURN_IF_ERROR(applied);
    update.path = info.path;
    update.result_id = info.result_id;
    return std::optional(std::move(update));
  }

  Result<Update> BringTo(const std::string& at) const {
    HF_ASSIGN_OR_RETURN(std::optional<Update> applied, TryChain(at));
    if (applied) return *std::move(applied);
    HF_ASSIGN_OR_RETURN(const auto checkpoint, Open(at, HowToOpen()));
    Update update;
    update.path = checkpoint->info().path;
    update.result_id = checkpoint->info().result_id;
    HF_RETURN_IF_ERROR(ReadWhole(*checkpoint, update));
    return update;
  }

  Result<std::optional<Follower::Update>> Poll() {
    for (const Target& target : targets)
      HF_RETURN_IF_ERROR(CheckTarget(target));
    ScanOptions scan;
    scan.read_metadata = false;
    HF_ASSIGN_OR_RETURN(const std::vector<ScannedStep> steps,
                        ScanSteps(root, scan));
    const auto newest =
        std::find_if(steps.rbegin(), steps.rend(),
                     [](const ScannedStep& found) { return found.committed; });
    if (newest == steps.rend()) return std::optional<Follower::Update>();
    const std::string at = root + "/" + newest->name;
    // The hash is computed before the step is read, so the next call notices
    // files that are written in between.
    HF_ASSIGN_OR_RETURN(std::string hash, ContentHash(Place(at)));
    if (newest->step == step && hash == content_hash) {
      return std::optional<Follower::Update>();
    }
    HF_ASSIGN_OR_RETURN(Update update, BringTo(at));
    step = update.step = newest->step;
    path = update.path;
    result_id = std::move(update.result_id);
    content_hash = std::move(hash);
    return std::optional<Follower::Update>(std::move(update));
  }
};

}  // namespace

struct Follower::Impl {
  FollowedMemory memory;
};

Follower::Follower(std::string root, std::vector<Target> arrays, RunOptions run)
    : impl_(std::make_unique<Impl>(
          Impl{{std::move(root), std::move(arrays), run, {}, "", "", ""}})) {}
Follower::~Follower() = default;
Follower::Follower(Follower&&) noexcept = default;

Result<std::optional<Follower::Update>> Follower::Poll() {
  return InCall(CallKind::kLoad, impl_->memory.root, [&] {
    return CatchBadAlloc([&] { return impl_->memory.Poll(); });
  });
}

std::optional<int64_t> Follower::step() const { return impl_->memory.step; }

}  // namespace holdfast
