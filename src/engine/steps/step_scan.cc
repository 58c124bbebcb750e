#include "engine/steps/step_scan.h"

#include <sys/stat.h>

#include <algorithm>

#include "engine/check/checked_files.h"
#include "engine/commit/layout.h"
#include "engine/commit/unfinished.h"
#include "engine/format/checkpoint_metadata.h"
#include "engine/format/directory_names.h"
#include "ground/base/executor.h"
#include "ground/base/status_macros.h"
#include "ground/json/text.h"
#include "stores/place/directory_ops.h"
#include "stores/place/look.h"

namespace holdfast {
namespace {

constexpr std::string_view kMetricsItem = "metrics";
// Reading fewer steps than this costs less than starting a thread.
constexpr size_t kStepsAThread = 128;
constexpr size_t kThreadCountMax = 8;

// Returns a store that does not use the Look. The Look tells which files exist,
// but reading through its store would fetch every small object of the step, and
// only two or three of them are needed.
std::shared_ptr<Store> BareStore(const Place& place) {
  return place.WithLook(nullptr).OpenStore();
}

// Returns the file's text; nullopt if the file is missing, damaged or not
// readable, since one bad step must not stop a run.
Result<std::optional<std::string>> TextOf(const Result<Bytes>& file) {
  if (file.ok()) return std::optional<std::string>(file->ToString());
  switch (file.status().code()) {
    case StatusCode::kNotFound:
    case StatusCode::kPermissionDenied:
    case StatusCode::kInvalidArgument:
    case StatusCode::kDataLoss:
      return std::optional<std::string>();
    default:
      return file.status();
  }
}

// Reads the step's metrics. Damaged metrics would select the wrong steps, so
// they count as absent.
Result<std::optional<std::string>> ReadMetrics(const Place& step,
                                               const CheckedFiles& files) {
  const Place item = step / kMetricsItem;
  HF_ASSIGN_OR_RETURN(const bool is_there, LeadsToDirectory(item));
  if (!is_there) return std::optional<std::string>();
  const Result<CheckedFiles> own = files.Below(kMetricsItem, BareStore(item));
  HF_ASSIGN_OR_RETURN(
      std::optional<std::string> text,
      TextOf(own.ok() ? own->Read(kMetricsItem) : Result<Bytes>(own.status())));
  if (text && !ParseJsonText(*text).ok()) text.reset();
  return text;
}

// Sets the times from `_CHECKPOINT_METADATA`.
Status TakeTimes(const Place& place, const std::optional<std::string>& text,
                 ScannedStep& step) {
  const auto metadata = text ? ParseCheckpointMetadata(*text)
                             : Result<CheckpointMetadata>(NotFoundError(""));
  if (!metadata.ok()) return Status();
  if (metadata->commit_timestamp_nsecs) {
    step.commit_time_ns = *metadata->commit_timestamp_nsecs;
  } else if (metadata->init_timestamp_nsecs && step.committed) {
    // The save began and never finished, unless the marker exists.
    HF_ASSIGN_OR_RETURN(step.committed,
                        LeadsToAnything(place / kCommitMarkerFile));
  }
  return Status();
}

// Reads the step's own metadata files.
Status DescribeFiles(const Place& place, ScannedStep& step) {
  const Result<CheckedFiles> files =
      CheckedFiles::OfDirectory(BareStore(place));
  if (!files.ok()) {
    // No file can be checked.
    return TextOf(Result<Bytes>(files.status())).status();
  }
  HF_ASSIGN_OR_RETURN(step.metrics_json, ReadMetrics(place, *files));
  HF_ASSIGN_OR_RETURN(const auto text,
                      TextOf(files->Read(kCheckpointMetadataFile)));
  return TakeTimes(place, text, step);
}

// Returns false if the step no longer exists.
Result<bool> DescribeStep(const Place& at, const CommittedBy& rule,
                          ScannedStep& step) {
  const LookScope scope(at, LookFor::kStep);
  const Place& place = scope.place();
  HF_ASSIGN_OR_RETURN(const bool is_there, LeadsToDirectory(place));
  if (!is_there) return false;
  // Directories in object stores have no time that could replace the commit's.
  struct stat info = {};
  if (!place.is_remote() && ::stat(place.path().c_str(), &info) == 0) {
    step.commit_time_ns = int64_t{info.st_mtim.tv_sec} * kNsASecond;
  }
  HF_ASSIGN_OR_RETURN(step.committed, CheckPlaceFinalized(place, rule));
  HF_RETURN_IF_ERROR(DescribeFiles(place, step));
  return true;
}

// Returns the step that a directory name means; nullopt if it is not wanted.
std::optional<int64_t> WantedStep(const std::string& name,
                                  const ScanOptions& options) {
  const std::optional<std::string> final_name = FinalName(name);
  if (final_name && !options.include_uncommitted) return std::nullopt;
  const std::string bare = final_name.value_or(name);
  if (options.format) return options.format->StepOf(bare);
  if (bare.empty() || bare.back() < '0' || bare.back() > '9') {
    return std::nullopt;
  }
  const auto step = StepFromCheckpointName(bare);
  if (!step.ok()) return std::nullopt;
  return *step;
}

// Sets everything except step and name, and leaves out steps that no longer
// exist.
Status DescribePlaces(const std::vector<Place>& places, const CommittedBy& rule,
                      int thread_count, std::vector<ScannedStep>& steps) {
  if (steps.empty()) return Status();
  const size_t steps_a_thread = places[0].is_remote() ? 1 : kStepsAThread;
  const size_t suitable =
      std::min(steps.size() / steps_a_thread + 1, kThreadCountMax);
  Executor executor(thread_count > 0 ? thread_count
                                     : static_cast<int>(suitable));
  // Bytes, not bits, since threads write to neighboring elements concurrently.
  std::vector<uint8_t> is_there(steps.size());
  HF_RETURN_IF_ERROR(executor.ParallelFor(steps.size(), [&](size_t i, int) {
    HF_ASSIGN_OR_RETURN(const bool is_here,
                        DescribeStep(places[i], rule, steps[i]));
    is_there[i] = is_here ? 1 : 0;
    return Status();
  }));
  size_t next = 0;
  std::erase_if(steps,
                [&](const ScannedStep&) { return is_there[next++] == 0; });
  return Status();
}

}  // namespace

StepRecord RecordOf(const ScannedStep& step) {
  StepRecord record{step.step, step.commit_time_ns, std::nullopt};
  if (step.metrics_json) record.metrics = MetricsOfJson(*step.metrics_json);
  return record;
}

Status DescribeSteps(const Place& root, const CommittedBy& rule,
                     int thread_count, std::vector<ScannedStep>& steps) {
  // Each step has its own Look: a shared one would fetch step after step.
  const Place bare = root.WithLook(nullptr);
  std::vector<Place> places;
  for (const ScannedStep& step : steps) places.push_back(bare / step.name);
  return DescribePlaces(places, rule, thread_count, steps);
}

Result<std::vector<ScannedStep>> DescribeSteps(
    const std::vector<std::string>& paths) {
  const std::vector<Place> places(paths.begin(), paths.end());
  std::vector<ScannedStep> steps;
  for (const std::string& path : paths) steps.push_back({0, path});
  HF_RETURN_IF_ERROR(DescribePlaces(places, {}, 0, steps));
  return steps;
}

Result<std::vector<ScannedStep>> ScanSteps(const std::string& root,
                                           const ScanOptions& options) {
  return ScanStepsIn(Place(root).Absolute(), options);
}

Result<std::vector<ScannedStep>> ScanStepsIn(const Place& root,
                                             const ScanOptions& options) {
  const LookScope scope(root);
  const Place& place = scope.place();
  const CommittedBy rule =
      options.format ? options.format->committed_by() : CommittedBy();
  std::vector<ScannedStep> steps;
  HF_ASSIGN_OR_RETURN(const bool has_root, LeadsToDirectory(place));
  if (!has_root) return steps;
  HF_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                      ListBroughtBack(place));
  for (const std::string& name : names) {
    const std::optional<int64_t> step = WantedStep(name, options);
    if (!step) continue;
    const Place below = place / name;
    HF_ASSIGN_OR_RETURN(const bool is_step, LeadsToDirectory(below));
    if (!is_step) continue;
    HF_ASSIGN_OR_RETURN(const bool committed, CheckPlaceFinalized(below, rule));
    steps.push_back({*step, name, committed});
  }
  if (options.read_metadata) {
    HF_RETURN_IF_ERROR(DescribeSteps(place, rule, options.threads, steps));
  }
  if (!options.include_uncommitted) {
    std::erase_if(steps, [](const ScannedStep& s) { return !s.committed; });
  }
  std::sort(steps.begin(), steps.end(),
            [](const ScannedStep& a, const ScannedStep& b) {
              return a.step != b.step ? a.step < b.step : a.name < b.name;
            });
  return steps;
}

}  // namespace holdfast
