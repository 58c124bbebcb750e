#include "holdfast/pytree_checkpoint_handler.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <mutex>
#include <system_error>
#include <utility>

#include "base/no_throw.h"
#include "base/status_macros.h"
#include "checkpoint/format/directory_names.h"
#include "pytree/base_restore.h"
#include "pytree/legacy_restore.h"
#include "pytree/legacy_structure.h"
#include "pytree/messages.h"
#include "pytree/read_metadata.h"
#include "pytree/save_item.h"
#include "pytree/settings.h"
#include "pytree/snapshot.h"
#include "pytree/validate_array_metadatas.h"
#include "storage/directory_ops.h"

namespace holdfast {
namespace {

CommitFuture ReadyFuture(Status status) {
  std::promise<Status> promise;
  promise.set_value(std::move(status));
  return promise.get_future().share();
}

// A thread of its own, or this one where none can be had.
CommitFuture WriteInBackground(PreparedSave prepared,
                               std::vector<CommitFuture> futures) {
  auto write = [prepared = std::move(prepared), futures = std::move(futures)] {
    return CatchBadAlloc([&] { return WritePrepared(prepared, futures); });
  };
  try {
    return std::async(std::launch::async, write).share();
  } catch (const std::system_error&) {
    return ReadyFuture(write());
  }
}

bool Exists(const std::string& path) {
  const Result<PathKind> kind = GetPathKind(path);
  return kind.ok() && *kind != PathKind::kMissing;
}

// The standard implementation: the engine, and the handlers of a registry.
class EngineHandler final : public BasePyTreeCheckpointHandler {
 public:
  explicit EngineHandler(const PyTreeSettings& settings)
      : settings_(settings) {}
  ~EngineHandler() override { Close(); }

  Result<std::vector<CommitFuture>> AsyncSave(
      const std::string& directory, const PyTreeSaveArgs& args) override {
    return CatchBadAlloc([&]() -> Result<std::vector<CommitFuture>> {
      HF_ASSIGN_OR_RETURN(PreparedSave prepared,
                          PrepareSave(settings_, directory, args));
      HF_ASSIGN_OR_RETURN(std::vector<CommitFuture> futures,
                          SerializeGroups(prepared));
      const std::optional<int64_t> bytes_max = TransferBytesMax(settings_);
      const uint64_t byte_count = ArrayBytes(prepared.parts.tree);
      if (bytes_max && byte_count > static_cast<uint64_t>(*bytes_max)) {
        return std::vector{ReadyFuture(WritePrepared(prepared, futures))};
      }
      Result<Tree> copy = Snapshot(prepared.parts.tree,
                                   settings_.options.is_prioritized_key_fn);
      if (!copy.ok()) {
        for (const CommitFuture& future : futures) future.wait();
        return copy.status();
      }
      prepared.parts.tree = std::move(copy).value();
      return std::vector{
          Remember(WriteInBackground(std::move(prepared), std::move(futures)))};
    });
  }

  Status Save(const std::string& directory,
              const PyTreeSaveArgs& args) override {
    return CatchBadAlloc([&]() -> Status {
      HF_ASSIGN_OR_RETURN(const PreparedSave prepared,
                          PrepareSave(settings_, directory, args));
      HF_ASSIGN_OR_RETURN(const std::vector<CommitFuture> futures,
                          SerializeGroups(prepared));
      return WritePrepared(prepared, futures);
    });
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
    if (!settings_.options.multiprocessing_options.primary_host) {
      return Status();  // each process is for itself
    }
    return CatchBadAlloc([&]() -> Status {
      HF_ASSIGN_OR_RETURN(const ArrayMetadatasByProcess metadatas,
                          ReadArrayMetadatas(directory));
      if (metadatas.empty()) return Status();
      return settings_.options.array_metadata_validator(metadatas);
    });
  }

  void Close() override {
    const std::lock_guard lock(mutex_);
    for (const CommitFuture& future : begun_) future.wait();
    begun_.clear();
  }

 private:
  CommitFuture Remember(CommitFuture future) {
    const std::lock_guard lock(mutex_);
    std::erase_if(begun_, [](const CommitFuture& begun) {
      return begun.wait_for(std::chrono::seconds(0)) ==
             std::future_status::ready;
    });
    begun_.push_back(future);
    return future;
  }

  const PyTreeSettings settings_;
  std::mutex mutex_;
  std::vector<CommitFuture> begun_;  // that may be running
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
    if (!Exists(directory)) {
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
  // The tree is recorded, nothing is to change, and no value lies in the
  // msgpack file.
  Result<bool> IsPlain(const std::string& directory,
                       const PyTreeRestoreArgs& args) const {
    return CatchBadAlloc([&]() -> Result<bool> {
      HF_ASSIGN_OR_RETURN(const std::optional<Tree> aggregate,
                          ReadAggregate(settings_, directory));
      return !args.transforms && !args.legacy_transform_fn &&
             Exists(directory + "/" + std::string(kTreeMetadataFile)) &&
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
