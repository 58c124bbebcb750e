#include "orbax/checkpointer/save_steps.h"

#include <vector>

#include "engine/commit/unfinished.h"
#include "engine/save/pending_saver.h"
#include "ground/base/no_throw.h"
#include "ground/base/status_macros.h"
#include "ground/json/text.h"
#include "orbax/pytree/settings.h"
#include "stores/place/directory_ops.h"

namespace holdfast {
namespace {

// Returns the JSON value of `item_handlers`.
std::string ItemHandlersJson(const CheckpointHandler& handler) {
  const auto* composite =
      dynamic_cast<const CompositeCheckpointHandler*>(&handler);
  nlohmann::ordered_json json = handler.TypeStr();
  if (composite != nullptr) {
    json = nlohmann::ordered_json::object();
    for (const auto& [name, type] : composite->SavedItemTypes()) {
      json[name] = type ? nlohmann::ordered_json(*type) : nullptr;
    }
  }
  return PythonJsonText(json);
}

// Returns ok for a finished checkpoint; otherwise NotFound or
// FailedPrecondition with Orbax's messages.
Status CheckRestorable(const Place& place, CommitMode mode) {
  const Result<bool> is_there = LeadsToAnything(place);
  if (!is_there.ok() || !*is_there) {
    if (place.is_remote()) HF_RETURN_IF_ERROR(is_there.status());
    return NotFoundError("Checkpoint at " + place.path() + " not found.");
  }
  const Result<bool> is_directory = LeadsToDirectory(place);
  if (is_directory.ok() && *is_directory && IsFinished(place, mode)) {
    return Status();
  }
  return IncompleteError(place);
}

}  // namespace

Result<std::shared_ptr<ProcessGroup>> SavingGroup(
    const MultiprocessingOptions& options) {
  PyTreeCheckpointHandlerOptions checked;
  checked.multiprocessing_options = options;
  HF_RETURN_IF_ERROR(MakePyTreeSettings(std::move(checked)).status());
  if (options.group == nullptr || options.group->size() == 1 ||
      !options.primary_host) {
    return std::shared_ptr<ProcessGroup>();
  }
  const auto& active = options.active_processes;
  const int64_t first = active ? *active->begin() : 0;
  if (*options.primary_host != first) {
    return UnimplementedError(
        "multiprocessing_options.primary_host: the first of the processes that "
        "save (got " +
        std::to_string(*options.primary_host) + ", want " +
        std::to_string(first) + ")");
  }
  if (!active) {
    // The pointer does not own the group. The caller owns it, and keeps it
    // longer than the checkpointer.
    return std::shared_ptr<ProcessGroup>(std::shared_ptr<void>(),
                                         options.group);
  }
  return std::shared_ptr<ProcessGroup>(options.group->Subgroup(
      std::vector<int64_t>(active->begin(), active->end()),
      options.barrier_sync_key_prefix.value_or("") + "checkpointer"));
}

Status AgreeWith(ProcessGroup* group, std::string_view phase,
                 const std::string& path, const Status& mine) {
  return group == nullptr ? mine : group->Agree({phase, path}, mine);
}

Result<SaveSteps> SaveSteps::Begin(
    std::shared_ptr<CheckpointHandler> handler,
    std::shared_ptr<ProcessGroup> group, const CheckpointerOptions& options,
    const std::string& path, const CheckpointerSaveOptions& save_options) {
  SaveSteps steps;
  // Invalid metadata is refused before anything is written.
  const Status valid =
      ParseRootRecord({.custom_metadata = save_options.custom_metadata})
          .status();
  HF_RETURN_IF_ERROR(AgreeWith(group.get(), "start", path, valid));
  PendingSaveOptions pending;
  pending.group = group.get();
  pending.overwrite = save_options.force;
  pending.sync = options.sync;
  pending.write_digests = options.write_digests;
  pending.now_ns = options.now_ns;
  pending.commit_mode = options.commit_mode;
  pending.directory_mode = options.directory_mode;
  HF_ASSIGN_OR_RETURN(steps.pending_, PendingSave::Begin(path, pending));
  steps.handler_ = std::move(handler);
  steps.group_ = std::move(group);
  steps.path_ = path;
  steps.custom_metadata_ = save_options.custom_metadata;
  steps.warn_ = options.warn;
  return steps;
}

bool SaveSteps::is_primary() const {
  return group_ == nullptr || group_->rank() == 0;
}

Status SaveSteps::Finalize() const {
  return Agree("finalized", handler_->Finalize(directory()));
}

Status SaveSteps::Commit() {
  for (const std::string& item : handler_->SyncedItems()) {
    HF_RETURN_IF_ERROR(pending_->AdoptItem(item));
  }
  RootRecord root;
  root.item_handlers_json = ItemHandlersJson(*handler_);
  root.custom_metadata = custom_metadata_;
  HF_RETURN_IF_ERROR(pending_->Commit(root));
  for (const std::string& note : pending_->notes()) {
    if (warn_) warn_(note);
  }
  return Status();
}

Result<Tree> RestoreWith(CheckpointHandler& handler, ProcessGroup* group,
                         CommitMode mode, const std::string& path,
                         const CheckpointArgs* args) {
  Result<Tree> tree = CatchBadAlloc([&]() -> Result<Tree> {
    HF_RETURN_IF_ERROR(CheckRestorable(Place(path), mode));
    return handler.Restore(path, args);
  });
  HF_RETURN_IF_ERROR(AgreeWith(group, "restored", path, tree.status()));
  return tree;
}

Result<StepMetadata> ReadMetadataWith(CheckpointHandler& handler,
                                      const std::string& path) {
  if (auto* composite = dynamic_cast<CompositeCheckpointHandler*>(&handler)) {
    return composite->ReadStepMetadata(path);
  }
  HF_ASSIGN_OR_RETURN(StepMetadata metadata, ReadStepMetadataFile(path));
  Result<Tree> item = handler.Metadata(path);
  metadata.item_metadata[""] =
      item.ok() ? std::optional<Tree>(std::move(item).value()) : std::nullopt;
  return metadata;
}

}  // namespace holdfast
