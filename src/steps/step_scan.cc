#include "steps/step_scan.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/executor.h"
#include "base/status_macros.h"
#include "checkpoint/check/checked_files.h"
#include "checkpoint/commit/layout.h"
#include "checkpoint/format/checkpoint_metadata.h"
#include "checkpoint/format/directory_names.h"
#include "place/directory_ops.h"
#include "place/look.h"
#include "storage/errno_status.h"
#include "storage/file_calls.h"
#include "storage/unique_fd.h"

namespace holdfast {
namespace {

constexpr std::string_view kMetricsFile = "metrics/metrics";
// A larger file is neither metrics nor our metadata; its step has none.
constexpr int64_t kStepFileBytesMax = int64_t{64} << 20;
// Reading fewer steps than this costs less than a thread.
constexpr size_t kStepsAThread = 128;
constexpr size_t kThreadCountMax = 8;

bool IsAbsence(int error) {
  return error == ENOENT || error == ENOTDIR || error == ELOOP ||
         error == EACCES;
}

// nullopt for a missing file, or one that may not be read.
Result<std::optional<std::string>> ReadStepFile(int directory,
                                                const std::string& step_path,
                                                std::string_view name) {
  const std::string path(name);
  UniqueFd fd(
      ::openat(directory, path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info;
  if (!fd.valid() || ::fstat(fd.get(), &info) != 0) {
    if (IsAbsence(errno)) return std::optional<std::string>();
    return ErrnoStatus(errno, "read", step_path + "/" + path);
  }
  if (!S_ISREG(info.st_mode) || info.st_size > kStepFileBytesMax) {
    return std::optional<std::string>();
  }
  std::string text(static_cast<size_t>(info.st_size), '\0');
  size_t done = 0;
  const int error =
      FileCalls().ReadFull(fd.get(), 0, {text.data(), text.size()}, path, done);
  if (error != 0) return ErrnoStatus(error, "read", step_path + "/" + path);
  text.resize(done);
  return std::optional<std::string>(std::move(text));
}

// Metrics that differ from the saved ones would choose the wrong steps.
void DropDamagedMetrics(const Place& place, ScannedStep& step) {
  if (!step.metrics_json) return;
  const auto checked = ReadChecked(place / kMetricsFile);
  if (checked.status().code() == StatusCode::kDataLoss) {
    step.metrics_json.reset();
  }
}

// Takes the times from `_CHECKPOINT_METADATA`.
Status TakeTimes(const Place& place, const std::optional<std::string>& text,
                 ScannedStep& step) {
  const auto metadata = text ? ParseCheckpointMetadata(*text)
                             : Result<CheckpointMetadata>(NotFoundError(""));
  if (!metadata.ok()) return Status();
  if (metadata->commit_timestamp_nsecs) {
    step.commit_time_ns = *metadata->commit_timestamp_nsecs;
  } else if (metadata->init_timestamp_nsecs && step.committed) {
    // The save began and never finished, unless the marker says otherwise.
    HF_ASSIGN_OR_RETURN(step.committed,
                        LeadsToAnything(place / kCommitMarkerFile));
  }
  return Status();
}

// As ReadStepFile, for an object store.
Result<std::optional<std::string>> ReadStepObject(Store& store,
                                                  std::string_view name) {
  const Result<Bytes> text = store.Read(name);
  if (text.ok()) return std::optional<std::string>(text->ToString());
  const bool is_absent = text.status().code() == StatusCode::kNotFound ||
                         text.status().code() == StatusCode::kPermissionDenied;
  if (is_absent) return std::optional<std::string>();
  return text.status();
}

// Objects have no directory whose time could stand in for the commit's.
Result<bool> DescribeRemoteStep(const Place& at, const CommittedBy& rule,
                                ScannedStep& step) {
  const LookScope scope(at);
  const Place& place = scope.place();
  const std::shared_ptr<Store> store = place.OpenStore();
  HF_ASSIGN_OR_RETURN(step.committed, CheckPlaceFinalized(place, rule));
  HF_ASSIGN_OR_RETURN(step.metrics_json, ReadStepObject(*store, kMetricsFile));
  DropDamagedMetrics(place, step);
  HF_ASSIGN_OR_RETURN(const auto text,
                      ReadStepObject(*store, kCheckpointMetadataFile));
  HF_RETURN_IF_ERROR(TakeTimes(place, text, step));
  if (step.committed || text) return true;
  return LeadsToDirectory(place);
}

// Returns false when the step is gone.
Result<bool> DescribeStep(const Place& place, const CommittedBy& rule,
                          ScannedStep& step) {
  if (place.is_remote()) return DescribeRemoteStep(place, rule, step);
  const std::string& path = place.path();
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat info;
  if (!fd.valid() || ::fstat(fd.get(), &info) != 0) {
    if (IsAbsence(errno)) return false;
    return ErrnoStatus(errno, "open", path);
  }
  HF_ASSIGN_OR_RETURN(step.committed, CheckPlaceFinalized(place, rule));
  step.commit_time_ns = int64_t{info.st_mtim.tv_sec} * kNsASecond;
  HF_ASSIGN_OR_RETURN(step.metrics_json,
                      ReadStepFile(fd.get(), path, kMetricsFile));
  DropDamagedMetrics(place, step);
  HF_ASSIGN_OR_RETURN(const auto text,
                      ReadStepFile(fd.get(), path, kCheckpointMetadataFile));
  HF_RETURN_IF_ERROR(TakeTimes(place, text, step));
  return true;
}

// The step that a directory's name stands for; nullopt when it is not wanted.
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

}  // namespace

StepRecord RecordOf(const ScannedStep& step) {
  StepRecord record{step.step, step.commit_time_ns, std::nullopt};
  if (step.metrics_json) record.metrics = MetricsOfJson(*step.metrics_json);
  return record;
}

Status DescribeSteps(const Place& root, const CommittedBy& rule,
                     int thread_count, std::vector<ScannedStep>& steps) {
  const size_t steps_a_thread = root.is_remote() ? 1 : kStepsAThread;
  const size_t suitable =
      std::min(steps.size() / steps_a_thread + 1, kThreadCountMax);
  Executor executor(thread_count > 0 ? thread_count
                                     : static_cast<int>(suitable));
  std::vector<uint8_t> is_there(steps.size());
  // Each step has a Look of its own: one for all would fetch step after step.
  const Place bare = root.WithLook(nullptr);
  HF_RETURN_IF_ERROR(executor.ParallelFor(steps.size(), [&](size_t i, int) {
    HF_ASSIGN_OR_RETURN(const bool is_here,
                        DescribeStep(bare / steps[i].name, rule, steps[i]));
    is_there[i] = is_here ? 1 : 0;
    return Status();
  }));
  size_t next = 0;
  std::erase_if(steps,
                [&](const ScannedStep&) { return is_there[next++] == 0; });
  return Status();
}

Result<std::vector<ScannedStep>> ScanSteps(const std::string& root,
                                           const ScanOptions& options) {
  const LookScope scope(Place(root).Absolute());
  const Place& place = scope.place();
  const CommittedBy rule =
      options.format ? options.format->committed_by() : CommittedBy();
  std::vector<ScannedStep> steps;
  HF_ASSIGN_OR_RETURN(const bool has_root, LeadsToDirectory(place));
  if (!has_root) return steps;
  HF_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                      ListDirectory(place));
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
    HF_RETURN_IF_ERROR(DescribeSteps(place, rule, options.thread_count, steps));
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

bool IsRootOfSteps(const std::string& path) {
  const LookScope scope(Place(path).Absolute());
  const Result<bool> is_root = IsManagerRoot(scope.place());
  return is_root.ok() && *is_root;
}

}  // namespace holdfast
