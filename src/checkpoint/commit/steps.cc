// ListSteps: the step directories of a manager root.
#include <algorithm>

#include "base/executor.h"
#include "base/status_macros.h"
#include "checkpoint/commit/layout.h"
#include "checkpoint/format/checkpoint_metadata.h"
#include "checkpoint/format/directory_names.h"
#include "holdfast/tools/checked_file.h"
#include "place/directory_ops.h"
#include "place/file_walk.h"

namespace holdfast {
namespace {

uint64_t BytesBelow(const Place& directory) {
  uint64_t byte_count = 0;
  // A directory that disappears meanwhile is not counted.
  (void)WalkFiles(directory, [&](const WalkedFile& file) {
    byte_count += file.byte_count;
  });
  return byte_count;
}

// The metrics of a step, as its JSON item holds them.
std::string MetricsText(const std::string& step_path) {
  const auto text = ReadCheckedFile(step_path + "/metrics/metrics");
  return text.ok() ? *text : "";
}

// Ok when nothing says when the step was committed.
Status ReadCommitTime(StepInfo& step) {
  const std::string path =
      step.path + "/" + std::string(kCheckpointMetadataFile);
  const auto text = ReadCheckedFile(path);
  if (text.status().code() == StatusCode::kNotFound) return Status();
  HF_RETURN_IF_ERROR(text.status());
  const Result<CheckpointMetadata> metadata = ParseCheckpointMetadata(*text);
  if (!metadata.ok()) return metadata.status().WithContext(path);
  step.commit_timestamp_ns = metadata->commit_timestamp_nsecs;
  return Status();
}

StepInfo DescribeStep(const Place& place, CommitMode mode) {
  const std::string name = place.name();
  StepInfo step;
  step.name = name;
  step.path = place.path();
  step.step = StepOfName(FinalName(name).value_or(name));
  step.bytes = BytesBelow(place);
  step.metrics = MetricsText(step.path);
  const Status time = ReadCommitTime(step);
  if (IsTemporaryName(name)) {
    step.why_not = "temporary directory: a save is running or was interrupted";
    return step;
  }
  const Result<FoundCheckpoint> found =
      FindCheckpoint(place, {.commit_mode = mode});
  Status damage = found.ok() ? found->damage : found.status();
  if (damage.ok() && time.code() == StatusCode::kDataLoss) damage = time;
  // A committed step stays a step, even when it is damaged.
  step.committed = damage.ok() || IsDamagedStep(place, damage);
  (step.committed ? step.damage : step.why_not) = damage.message();
  if (!found.ok()) return step;
  for (const ItemPlace& item : found->items) step.items.push_back(item.name);
  return step;
}

}  // namespace

Result<std::vector<StepInfo>> ListSteps(const std::string& root,
                                        CommitMode mode) {
  const Place place = Place(root).Absolute();
  HF_ASSIGN_OR_RETURN(const PathKind kind, GetPathKind(place));
  if (kind == PathKind::kMissing) {
    return NotFoundError("Checkpoint at " + place.path() + " not found.");
  }
  HF_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                      ListDirectory(place));
  std::vector<std::string> step_names;
  for (const std::string& name : names) {
    if (!StepOfName(FinalName(name).value_or(name))) continue;
    HF_ASSIGN_OR_RETURN(const PathKind child, GetPathKind(place / name));
    if (child == PathKind::kDirectory) step_names.push_back(name);
  }
  std::vector<StepInfo> steps(step_names.size());
  Executor executor;
  HF_RETURN_IF_ERROR(executor.ParallelFor(steps.size(), [&](size_t i, int) {
    steps[i] = DescribeStep(place / step_names[i], mode);
    return Status();
  }));
  if (steps.empty()) {
    return NotFoundError("no steps in " + place.path() +
                         ": looked for directories named as numbers, with or "
                         "without a prefix and \"_\"");
  }
  std::stable_sort(steps.begin(), steps.end(),
                   [](const StepInfo& a, const StepInfo& b) {
                     const bool a_temporary = IsTemporaryName(a.name);
                     const bool b_temporary = IsTemporaryName(b.name);
                     if (a_temporary != b_temporary) return b_temporary;
                     return a.step < b.step;
                   });
  return steps;
}

}  // namespace holdfast
