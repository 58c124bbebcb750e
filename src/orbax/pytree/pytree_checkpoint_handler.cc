#include "holdfast/orbax/pytree_checkpoint_handler.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <mutex>
#include <utility>

#include "engine/format/directory_names.h"
#include "ground/base/no_throw.h"
#include "ground/base/status_macros.h"
#include "orbax/handlers/done_future.h"
#include "orbax/pytree/base_restore.h"
#include "orbax/pytree/legacy_restore.h"
#include "orbax/pytree/legacy_structure.h"
#include "orbax/pytree/messages.h"
#include "orbax/pytree/processes.h"
#include "orbax/pytree/read_metadata.h"
#include "orbax/pytree/save_item.h"
#include "orbax/pytree/settings.h"
#include "stores/place/directory_ops.h"

namespace holdfast {
namespace {

// The standard implementation, with the engine and a registry's handlers.
class EngineHandler final : public BasePyTreeCheckpointHandler {
 public:
  explicit EngineHandler(const PyTreeSettings& settings)
      : settings_(settings),
        processes_(settings.options.multiprocessing_options) {}
  ~EngineHandler() override { Close(); }

  Result<std::vector<CommitFuture>> AsyncSave(
      const std::string& directory, const PyTreeSaveArgs& args) override {
    return CatchBadAlloc([&]() -> Result<std::vector<CommitFuture>> {
      HF_ASSIGN_OR_RETURN(const std::shared_ptr<PreparedSave> prepared,
                          PrepareSave(settings_, directory, args, Part(),
                                      /*is_async=*/true));
      HF_ASSIGN_OR_RETURN(std::vector<CommitFuture> futures, Begin(*prepared));
      if (!prepared->is_copy) {
        return std::vector{
            Remember(DoneFuture(WritePrepared(*prepared, futures)))};
      }
      return std::vector{
          Remember(InBackground([prepared, futures = std::move(futures)] {
            return WritePrepared(*prepared, futures);
          }))};
    });
  }

  Status Save(const std::string& directory,
              const PyTreeSaveArgs& args) override {
    const Status written = CatchBadAlloc([&]() -> Status {
      HF_ASSIGN_OR_RETURN(const std::shared_ptr<PreparedSave> prepared,
                          PrepareSave(settings_, directory, args, Part()));
      HF_ASSIGN_OR_RETURN(const std::vector<CommitFuture> futures,
                          Begin(*prepared));
      return WritePrepared(*prepared, futures);
    });
    return processes_.Agree("save", directory, written);
  }

  Result<Tree> Restore(const std::string& directory,
                       const BasePyTreeRestoreArgs& args) override {
    return CatchBadAlloc(
        [&] { return RestoreRecorded(settings_, directory, args); });
  }

  Result<PyTreeMetadata> Metadata(const std::string& directory) override {
    return CatchBadAlloc(
        [&] { return ReadPyTreeMetadata(settings_, directory); });
  }

  Status Finalize(const std::string& directory) override {
    if (processes_.are_many()) {
      HF_RETURN_IF_ERROR(
          processes_.Agree("finalize", directory, WaitForBegun()));
      const Status merged =
          processes_.is_primary()
              ? CatchBadAlloc([&] { return MergeParts(directory); })
              : Status();
      return processes_.Agree("finalize", directory, merged);
    }
    return CatchBadAlloc([&] { return Validate(directory); });
  }

  void Close() override { (void)WaitForBegun(); }

 private:
  // Compares the array metadata that the processes wrote.
  Status Validate(const std::string& directory) const {
    if (!settings_.options.multiprocessing_options.primary_host) {
      return Status();  // each process saves for itself
    }
    HF_ASSIGN_OR_RETURN(const ArrayMetadatasByProcess metadatas,
                        ReadArrayMetadatas(directory));
    if (metadatas.empty()) return Status();
    return settings_.options.array_metadata_validator(metadatas);
  }

  Status MergeParts(const std::string& directory) {
    for (const std::shared_ptr<TypeHandler>& handler : called_) {
      HF_RETURN_IF_ERROR(handler->Finalize(directory));
    }
    FinishItemOptions options;
    options.use_ocdbt = settings_.options.use_ocdbt;
    options.adopt_existing = !called_.empty();
    processes_.Describe(options);
    HF_RETURN_IF_ERROR(Validate(directory));
    return FinishItem(directory, options);
  }

  std::optional<ProcessPart> Part() const {
    if (!processes_.are_many()) return std::nullopt;
    return processes_.part();
  }

  Result<std::vector<CommitFuture>> Begin(const PreparedSave& prepared) {
    called_.clear();
    for (const SaveGroup& group : prepared.parts.groups) {
      called_.push_back(group.handler);
    }
    return SerializeGroups(prepared, processes_.is_primary());
  }

  // Waits for the work that AsyncSave began. Returns its first failure.
  Status WaitForBegun() {
    const std::lock_guard lock(mutex_);
    return WaitForAll(std::exchange(begun_, {}));
  }

  CommitFuture Remember(CommitFuture future) {
    const std::lock_guard lock(mutex_);
    std::erase_if(begun_, [](const CommitFuture& begun) {
      return begun.wait_for(std::chrono::seconds(0)) ==
                 std::future_status::ready &&
             begun.get().ok();
    });
    begun_.push_back(future);
    return future;
  }

  const PyTreeSettings settings_;
  Processes processes_;
  // Handlers of the last save, which must be finalized.
  std::vector<std::shared_ptr<TypeHandler>> called_;
  std::mutex mutex_;
  std::vector<CommitFuture> begun_;  // may be running, or have failed
};

class Handler final : public PyTreeCheckpointHandler {
 public:
  explicit Handler(PyTreeSettings settings)
      : settings_(std::move(settings)), impl_(settings_.options.handler_impl) {
    if (impl_ == nullptr) impl_ = std::make_shared<EngineHandler>(settings_);
  }

  Result<std::vector<CommitFuture>> AsyncSave(
      const std::string& directory, const PyTreeSaveArgs& args) override {
    return impl_->AsyncSave(directory, args);
  }
  Status Save(const std::string& directory,
              const PyTreeSaveArgs& args) override {
    return impl_->Save(directory, args);
  }
  Result<PyTreeMetadata> Metadata(const std::string& directory) override {
    return impl_->Metadata(directory);
  }
  Status Finalize(const std::string& directory) override {
    return impl_->Finalize(directory);
  }
  void Close() override { impl_->Close(); }

  Result<Tree> Restore(const std::string& directory,
                       const PyTreeRestoreArgs& args) override {
    if (!IsThere(Place(directory))) {
      return NotFoundError(
          "Requested directory for restore does not exist at " + directory +
          ".");
    }
    HF_ASSIGN_OR_RETURN(const bool is_plain, IsPlain(directory, args));
    if (is_plain) return impl_->Restore(directory, args);
    return CatchBadAlloc(
        [&] { return RestoreLegacy(settings_, directory, args); });
  }

 private:
  // Returns whether the tree is recorded, nothing is to be changed, and the
  // msgpack file has no values.
  Result<bool> IsPlain(const std::string& directory,
                       const PyTreeRestoreArgs& args) const {
    return CatchBadAlloc([&]() -> Result<bool> {
      HF_ASSIGN_OR_RETURN(const std::optional<Tree> aggregate,
                          ReadAggregate(settings_, directory));
      return !args.transforms && !args.legacy_transform_fn &&
             IsThere(Place(directory + "/" + std::string(kTreeMetadataFile))) &&
             (!aggregate || HasOnlyReferences(*aggregate));
    });
  }

  const PyTreeSettings settings_;
  std::shared_ptr<BasePyTreeCheckpointHandler> impl_;
};

}  // namespace

Result<std::unique_ptr<PyTreeCheckpointHandler>> PyTreeCheckpointHandler::Make(
    PyTreeCheckpointHandlerOptions options) {
  HF_ASSIGN_OR_RETURN(PyTreeSettings settings,
                      MakePyTreeSettings(std::move(options)));
  return std::unique_ptr<PyTreeCheckpointHandler>(
      std::make_unique<Handler>(std::move(settings)));
}

}  // namespace holdfast
