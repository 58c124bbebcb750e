// Opens a manager, and answers queries about its steps.
#include "holdfast/orbax/checkpoint_manager.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/commit/layout.h"
#include "engine/commit/replaceable.h"
#include "engine/steps/step_scan.h"
#include "ground/base/clock.h"
#include "ground/base/status_macros.h"
#include "holdfast/detail/commit.h"
#include "holdfast/orbax/item_handlers.h"
#include "orbax/manager/manager.h"
#include "orbax/manager/manager_options.h"
#include "orbax/manager/root_metadata.h"
#include "stores/place/directory_ops.h"
#include "stores/place/look.h"
#include "stores/place/make_directories.h"
#include "stores/place/step_address.h"
#include "stores/storage/url_path.h"

namespace holdfast {
namespace {

constexpr std::string_view kMetricsItemName = "metrics";

CheckpointerOptions CheckpointerOptionsOf(
    const CheckpointManagerOptions& options) {
  CheckpointerOptions checkpointer;
  checkpointer.multiprocessing_options = options.multiprocessing_options;
  checkpointer.commit_mode = options.committed_by.mode;
  checkpointer.directory_mode = options.directory_mode;
  checkpointer.sync = options.sync;
  checkpointer.write_digests = options.write_digests;
  checkpointer.now_ns = options.now_ns;
  checkpointer.warn = options.warn;
  return checkpointer;
}

bool HasDefaultItem(const std::string& step_directory) {
  return IsThere(Place(step_directory + "/" + std::string(kDefaultItemName)));
}

}  // namespace

Manager::Manager(std::string directory, CheckpointManagerOptions options,
                 PreservationPolicy preservation_policy)
    : directory_(std::move(directory)),
      options_(std::move(options)),
      format_(NameFormatOf(options_)),
      save_policy_(SavePolicyOf(options_)),
      preservation_policy_(std::move(preservation_policy)),
      disposal_(directory_, options_) {}

Manager::~Manager() { (void)Close(); }

bool Manager::is_shared() const {
  return processes().group != nullptr && processes().group->size() > 1;
}

bool Manager::is_primary() const {
  if (!is_shared() || !processes().primary_host) return true;
  return processes().group->rank() == *processes().primary_host;
}

Status Manager::Agree(std::string_view phase, const Status& mine) const {
  if (!is_shared()) return mine;
  return processes().group->Agree({phase, directory_}, mine);
}

int64_t Manager::NowNs() const {
  return options_.now_ns ? static_cast<int64_t>(options_.now_ns())
                         : SystemNowNs();
}

Status Manager::OpenRoot(const std::string& metadata) {
  if (options_.create && processes().active_processes) {
    return UnimplementedError(
        "Option `create=True` with `active_processes` set is not supported. "
        "Please create the root directory yourself.");
  }
  const auto prepare = [&]() -> Status {
    if (!is_primary()) return Status();
    HF_RETURN_IF_ERROR(CheckMayHoldSteps(directory_));
    if (options_.read_only) return Status();
    if (options_.create) {
      HF_RETURN_IF_ERROR(CheckNamesNoStep(Place(directory_)));
      HF_RETURN_IF_ERROR(MakeDirectories(directory_, options_.directory_mode));
    }
    HF_ASSIGN_OR_RETURN(const PathKind kind, GetPathKind(Place(directory_)));
    // In an object store, the first file creates the directory.
    const bool will_be_there = Place(directory_).is_remote() && options_.create;
    if (kind == PathKind::kMissing && !will_be_there) return Status();
    if (options_.cleanup_tmp_directories && kind != PathKind::kMissing) {
      HF_ASSIGN_OR_RETURN(
          const CleanupResult cleaned,
          CleanupTemporaryPaths(directory_, options_.committed_by.mode));
    }
    disposal_.RemoveLeftovers();
    if (!options_.save_root_metadata || metadata.empty()) return Status();
    return WriteRootMetadata(directory_, metadata);
  };
  HF_RETURN_IF_ERROR(Agree("open the root", prepare()));
  if (options_.read_only && !metadata.empty()) {
    HF_ASSIGN_OR_RETURN(const auto stored, ReadRootMetadata(directory_));
    if (!stored) root_metadata_ = metadata;
  }
  return Load(!options_.lightweight_initialize);
}

Status Manager::MakeCheckpointer(const ManagerItems& items) {
  CompositeOptions composite;
  composite.multiprocessing_options = options_.multiprocessing_options;
  composite.directory_mode = options_.directory_mode;
  composite.registry = items.handler_registry;
  composite.handlers = items.item_handlers;
  composite.item_names = items.item_names;
  const bool has_metrics_handler =
      composite.handlers.contains(std::string(kMetricsItemName)) ||
      (items.handler_registry != nullptr &&
       items.handler_registry->Has(std::string(kMetricsItemName),
                                   typeid(JsonSave)));
  if (!has_metrics_handler) {
    JsonHandlerOptions json;
    json.filename = kMetricsItemName;
    json.multiprocessing_options = options_.multiprocessing_options;
    composite.handlers[std::string(kMetricsItemName)] = MakeJsonHandler(json);
  }
  if (items.default_item_handler != nullptr) {
    composite.handlers[std::string(kDefaultItemName)] =
        items.default_item_handler;
    is_default_item_ = true;
  } else if (items.item_names || !items.item_handlers.empty()) {
    is_default_item_ = false;
  }
  HF_ASSIGN_OR_RETURN(handler_, CompositeCheckpointHandler::Make(composite));
  const CheckpointerOptions checkpointer = CheckpointerOptionsOf(options_);
  if (options_.enable_async_checkpointing) {
    HF_ASSIGN_OR_RETURN(
        auto async, AsyncCheckpointer::Make(handler_, options_.async_options,
                                            checkpointer));
    async_ = async.get();
    checkpointer_ = std::move(async);
    return Status();
  }
  if (options_.async_options.post_finalization_callback) {
    return InvalidArgumentError(
        "AsyncOptions.post_finalization_callback is only supported with "
        "AsyncCheckpointer.");
  }
  HF_ASSIGN_OR_RETURN(checkpointer_,
                      Checkpointer::Make(handler_, checkpointer));
  return Status();
}

Status Manager::Load(bool with_metadata) {
  HF_ASSIGN_OR_RETURN(const std::vector<FoundStep> found,
                      format_->FindAll(directory_, processes().group));
  std::vector<ScannedStep> steps;
  for (const FoundStep& step : found) {
    steps.push_back({step.step, step.name, true});
  }
  if (with_metadata) {
    HF_RETURN_IF_ERROR(
        DescribeSteps(Place(directory_), format_->committed_by(), 0, steps));
  }
  const bool is_marked = !Place(directory_).can_rename();
  list_.steps.clear();
  for (const ScannedStep& step : steps) {
    if (!step.committed) continue;
    // A directory with a step's name may not be a checkpoint. In the list, it
    // could be kept in place of a step, or be removed. In an object store, the
    // marker has already decided.
    if (!is_marked) {
      HF_ASSIGN_OR_RETURN(const bool is_checkpoint,
                          HoldsCheckpoint(directory_ + "/" + step.name));
      if (!is_checkpoint) continue;
    }
    list_.steps.push_back({RecordOf(step), step.name});
  }
  std::stable_sort(list_.steps.begin(), list_.steps.end(),
                   [](const KnownStep& a, const KnownStep& b) {
                     return a.record.step < b.record.step;
                   });
  has_metadata_ = with_metadata;
  ApplyFinishing();
  return Status();
}

Status Manager::EnsureMetadata() {
  if (has_metadata_) return Status();
  return Load(/*with_metadata=*/true);
}

Status Manager::Reload() {
  HF_RETURN_IF_ERROR(CheckOpen());
  return Load(!options_.lightweight_initialize);
}

std::optional<int64_t> Manager::BestStep() {
  if (!options_.best_fn) return LatestStep();
  if (!EnsureMetadata().ok()) return std::nullopt;
  const std::vector<StepRecord> records = list_.Records();
  const std::vector<size_t> sorted =
      SortedByMetric(options_.best_fn, options_.best_mode == "min", records);
  if (sorted.empty()) return std::nullopt;
  const StepRecord& best = records[sorted.back()];
  if (std::isnan(options_.best_fn(*best.metrics))) return std::nullopt;
  return best.step;
}

bool Manager::ReachedPreemption(int64_t step) {
  return options_.reached_preemption && options_.reached_preemption(step);
}

Result<std::string> Manager::ReadDirectoryOf(int64_t step,
                                             const std::string& root) const {
  if (options_.step_name_format == nullptr) {
    return BuildStepPath(root, *format_, step);
  }
  HF_ASSIGN_OR_RETURN(const FoundStep found, format_->FindStep(root, step));
  return root + "/" + found.name;
}

Result<std::optional<Metrics>> Manager::StepMetrics(int64_t step) {
  HF_ASSIGN_OR_RETURN(const std::string path,
                      ReadDirectoryOf(step, directory_));
  const size_t slash = path.rfind('/');
  std::vector<ScannedStep> steps = {{step, path.substr(slash + 1)}};
  HF_RETURN_IF_ERROR(DescribeSteps(Place(path.substr(0, slash)),
                                   format_->committed_by(), 1, steps));
  if (steps.empty()) return std::optional<Metrics>();
  return RecordOf(steps[0]).metrics;
}

Result<StepMetadata> Manager::Metadata(int64_t step) {
  HF_RETURN_IF_ERROR(WaitUntilFinished());
  HF_ASSIGN_OR_RETURN(const std::string path,
                      ReadDirectoryOf(step, directory_));
  HF_ASSIGN_OR_RETURN(StepMetadata metadata, checkpointer_->Metadata(path));
  if (!is_default_item_) is_default_item_ = HasDefaultItem(path);
  HF_ASSIGN_OR_RETURN(const auto metrics, StepMetrics(step));
  if (metrics) metadata.metrics = metrics->json;
  return metadata;
}

Result<std::string> Manager::RootMetadata() {
  if (!root_metadata_) {
    HF_ASSIGN_OR_RETURN(const auto stored, ReadRootMetadata(directory_));
    root_metadata_ = stored.value_or("{}");
  }
  return *root_metadata_;
}

// Adds to an error of damage which step to restore instead. Other errors stay
// unchanged.
Status Manager::LatestStepError(int64_t step, const std::string& path,
                                const Status& why) const {
  const std::string name = path.substr(path.rfind('/') + 1);
  const bool is_damage = why.code() == StatusCode::kDataLoss;
  std::vector<FoundStep> known;
  for (const KnownStep& other : list_.steps) {
    known.push_back({other.record.step, other.name});
  }
  const Status damage =
      CheckNewestStep(directory_, {step, name}, is_damage ? why.message() : "",
                      std::move(known));
  return damage.ok() ? why : damage;
}

Result<Tree> Manager::Restore(std::optional<int64_t> step,
                              const CheckpointArgs* args,
                              const std::string& directory) {
  HF_RETURN_IF_ERROR(WaitUntilFinished());
  const std::string root =
      directory.empty() ? directory_ : AbsolutePath(directory);
  const bool is_latest = !step && directory.empty();
  if (is_latest) step = LatestStep();
  if (!step && !directory.empty()) {
    HF_ASSIGN_OR_RETURN(const auto others, ScanSteps(root));
    if (!others.empty()) step = others.back().step;
  }
  if (!step) return NotFoundError("No steps found in " + root + ".");
  HF_ASSIGN_OR_RETURN(const std::string path, ReadDirectoryOf(*step, root));
  if (!is_default_item_) is_default_item_ = HasDefaultItem(path);
  if (args != nullptr) HF_RETURN_IF_ERROR(CheckArgs(*args));
  const CompositeArgs whole =
      args == nullptr ? CompositeArgs() : WholeArgs(*args);
  Result<Tree> read = checkpointer_->Restore(path, &whole);
  if (!read.ok() && is_latest)
    return LatestStepError(*step, path, read.status());
  HF_ASSIGN_OR_RETURN(Tree restored, std::move(read));
  if (!*is_default_item_) return restored;
  const Tree* item = restored.FindPath({std::string(kDefaultItemName)});
  if (item != nullptr) return *item;
  return InvalidArgumentError(
      "Unable to retrieve default item. Please ensure that a handler for the "
      "default item is registered using `handler_registry` when initializing "
      "the `CheckpointManager`.");
}

Result<std::unique_ptr<CheckpointManager>> CheckpointManager::Make(
    const std::string& directory, CheckpointManagerOptions options,
    const ManagerItems& items, const std::string& metadata) {
  HF_ASSIGN_OR_RETURN(
      CheckpointManagerOptions resolved,
      ResolveOptions(AbsolutePath(directory), std::move(options)));
  HF_ASSIGN_OR_RETURN(PreservationPolicy kept, PreservationPolicyOf(resolved));
  HF_RETURN_IF_ERROR(CheckItems(items));
  auto manager = std::make_unique<Manager>(
      AbsolutePath(directory), std::move(resolved), std::move(kept));
  HF_RETURN_IF_ERROR(manager->MakeCheckpointer(items));
  HF_RETURN_IF_ERROR(manager->OpenRoot(metadata));
  return std::unique_ptr<CheckpointManager>(std::move(manager));
}

}  // namespace holdfast
