// Implements ListSteps, which lists the step directories of a manager root.
#include <algorithm>
#include <utility>

#include "engine/check/checked_files.h"
#include "engine/commit/layout.h"
#include "engine/commit/place_check.h"
#include "engine/commit/step_list.h"
#include "engine/commit/unfinished.h"
#include "engine/format/checkpoint_metadata.h"
#include "engine/format/directory_names.h"
#include "ground/base/executor.h"
#include "ground/base/status_macros.h"
#include "ground/json/text.h"
#include "holdfast/read_again.h"
#include "stores/place/directory_ops.h"
#include "stores/place/file_walk.h"
#include "stores/place/look.h"

namespace holdfast {
namespace {

uint64_t BytesBelow(const Place& directory) {
  uint64_t byte_count = 0;
  // A directory that disappears in the meantime is ignored.
  (void)WalkFiles(directory, [&](const WalkedFile& file) {
    byte_count += file.byte_count;
  });
  return byte_count;
}

constexpr std::string_view kMetricsItem = "metrics";

// Reads a step's metrics from its JSON item. Returns NotFound if the step has
// none, and DataLoss for malformed text: without checksums, nothing else would
// show the damage.
Status ReadMetrics(const Place& place, const CheckedFiles& files,
                   StepInfo& step) {
  HF_ASSIGN_OR_RETURN(
      const CheckedFiles own,
      files.Below(kMetricsItem, (place / kMetricsItem).OpenStore()));
  HF_ASSIGN_OR_RETURN(const Bytes text, own.Read(kMetricsItem));
  const Status parsed = ParseJsonText(text.ToString()).status();
  if (!parsed.ok()) {
    return DataLossError("metrics of a step: " + std::string(parsed.message()))
        .WithContext((place / kMetricsItem / kMetricsItem).path());
  }
  step.metrics = text.ToString();
  return Status();
}

// Returns the text of `_CHECKPOINT_METADATA`, which FindCheckpoint has already
// read for a found step.
Result<Bytes> MetadataText(const CheckedFiles& files,
                           const Result<FoundCheckpoint>& found) {
  if (!found.ok()) return files.Read(kCheckpointMetadataFile);
  if (!found->metadata_text) return NotFoundError("");
  HF_RETURN_IF_ERROR(
      files.Check(kCheckpointMetadataFile, found->metadata_text->view()));
  return *found->metadata_text;
}

// Sets the times at which the step was begun and committed. Returns ok if no
// file says them.
Status TakeTimesOf(const Result<Bytes>& text, StepInfo& step) {
  if (text.status().code() == StatusCode::kNotFound) return Status();
  HF_RETURN_IF_ERROR(text.status());
  const auto metadata = ParseCheckpointMetadata(text->ToString());
  if (!metadata.ok()) {
    return metadata.status().WithContext(step.path + "/" +
                                         std::string(kCheckpointMetadataFile));
  }
  step.init_timestamp_ns = metadata->init_timestamp_nsecs;
  step.commit_timestamp_ns = metadata->commit_timestamp_nsecs;
  return Status();
}

// Returns DataLoss if the checksums show that part of a found step is missing
// or differs from what was saved.
Status DamageOf(const CheckedFiles& files, CommitMode mode,
                FoundCheckpoint& found) {
  const Status checked = CheckFoundBy(files, {.commit_mode = mode}, found);
  return checked.code() == StatusCode::kDataLoss ? checked : Status();
}

StepInfo LookAtStep(const Place& at, CommitMode mode) {
  const LookScope scope(at, LookFor::kStep);
  const Place& place = scope.place();
  const std::string name = place.name();
  StepInfo step;
  step.name = name;
  step.path = place.path();
  step.step = StepOfName(FinalName(name).value_or(name));
  step.bytes = BytesBelow(place);
  const Result<CheckedFiles> files = CheckedFiles::OfItem(place);
  const Status metrics =
      files.ok() ? ReadMetrics(place, *files, step) : files.status();
  if (IsTemporaryName(name)) {
    // A save that ran out of time may have written only half of the file.
    if (files.ok()) {
      (void)TakeTimesOf(files->Read(kCheckpointMetadataFile), step);
    }
    step.why_not = "temporary directory: a save is running or was interrupted";
    return step;
  }
  Result<FoundCheckpoint> found = FindCheckpoint(place, {.commit_mode = mode});
  const Result<Bytes> text =
      files.ok() ? MetadataText(*files, found) : files.status();
  const Status time = TakeTimesOf(text, step);
  Status damage = found.ok() ? found->damage : found.status();
  for (const Status& read : {time, metrics}) {
    if (damage.ok() && read.code() == StatusCode::kDataLoss) damage = read;
  }
  if (damage.ok() && files.ok()) damage = DamageOf(*files, mode, *found);
  // A committed step stays a step, even when it is damaged.
  step.committed = damage.ok() || IsDamagedStep(place, damage);
  (step.committed ? step.damage : step.why_not) = damage.message();
  if (!found.ok()) return step;
  for (const ItemPlace& item : found->items) step.items.push_back(item.name);
  return step;
}

}  // namespace

StepInfo DescribeStepAt(const Place& at, CommitMode mode) {
  const auto described =
      ReadAgainIfReplaced(at.path(), [&]() -> Result<StepInfo> {
        const std::string id = PlaceId(at);
        StepInfo step = LookAtStep(at, mode);
        const bool is_whole = step.committed && step.damage.empty();
        if (!is_whole && !PlaceId(at).empty()) {
          HF_RETURN_IF_ERROR(CheckSamePlace(at, id));
        }
        return step;
      });
  if (described.ok()) return *described;
  // A step exists at every look, but always a different one.
  StepInfo step;
  step.name = at.name();
  step.path = at.path();
  step.step = StepOfName(step.name);
  step.why_not = described.status().message();
  return step;
}

// Returns true for files that steps and items have, but manager roots never do.
static bool IsFileOfCheckpoint(std::string_view name) {
  constexpr std::string_view kNames[] = {kCheckpointMetadataFile,
                                         "_METADATA",
                                         "manifest.ocdbt",
                                         ".zarray",
                                         "zarr.json",
                                         ".metadata"};
  return std::find(std::begin(kNames), std::end(kNames), name) !=
         std::end(kNames);
}

Status CheckIsNoCheckpoint(const Place& root,
                           const std::vector<std::string>& names) {
  if (std::none_of(names.begin(), names.end(), IsFileOfCheckpoint)) {
    return Status();
  }
  return NotFoundError("no steps in " + root.path() +
                       ": it is a checkpoint itself; list the steps of the "
                       "directory above it");
}

Status CheckMayHoldSteps(const std::string& root) {
  const Place place = Place(root).Absolute();
  HF_ASSIGN_OR_RETURN(const PathKind kind, GetPathKind(place));
  if (kind != PathKind::kDirectory) return Status();
  HF_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                      ListDirectory(place));
  if (CheckIsNoCheckpoint(place, names).ok()) return Status();
  return InvalidArgumentError(
      place.path() +
      ": it is a checkpoint itself, and holds no steps; give the directory "
      "above it, which holds them");
}

namespace {

// Keeps the names with the highest numbers. Among names with the same number,
// those of unfinished saves come first, because ListSteps has them last.
void KeepNewest(size_t count_max, std::vector<std::string>& names) {
  if (count_max == 0 || names.size() <= count_max) return;
  const auto rank = [](const std::string& name) {
    const auto final_name = FinalName(name);
    return std::pair(*StepOfName(final_name.value_or(name)),
                     final_name.has_value());
  };
  std::stable_sort(names.begin(), names.end(),
                   [&](const std::string& a, const std::string& b) {
                     return rank(a) > rank(b);
                   });
  names.resize(count_max);
}

}  // namespace

Result<std::vector<StepInfo>> ListNewestSteps(const std::string& root,
                                              CommitMode mode,
                                              size_t count_max) {
  const Place place = Place(root).Absolute();
  HF_ASSIGN_OR_RETURN(const PathKind kind, GetPathKind(place));
  if (kind == PathKind::kMissing) {
    return NotFoundError("Checkpoint at " + place.path() + " not found.");
  }
  HF_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                      ListBroughtBack(place));
  HF_RETURN_IF_ERROR(CheckIsNoCheckpoint(place, names));
  std::vector<std::string> step_names;
  for (const std::string& name : names) {
    if (!StepOfName(FinalName(name).value_or(name))) continue;
    HF_ASSIGN_OR_RETURN(const PathKind child, GetPathKind(place / name));
    if (child == PathKind::kDirectory) step_names.push_back(name);
  }
  KeepNewest(count_max, step_names);
  std::vector<StepInfo> steps(step_names.size());
  Executor executor;
  HF_RETURN_IF_ERROR(executor.ParallelFor(steps.size(), [&](size_t i, int) {
    steps[i] = DescribeStepAt(place / step_names[i], mode);
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

Result<std::vector<StepInfo>> ListSteps(const std::string& root,
                                        CommitMode mode) {
  return ListNewestSteps(root, mode, 0);
}

}  // namespace holdfast
