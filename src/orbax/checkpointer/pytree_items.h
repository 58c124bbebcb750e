// The common part of the handlers for trees and arrays: a
// PyTreeCheckpointHandler that can be canceled.
//
// Thread-safety: as checkpoint_handler.h. Ownership: owns the handler.
// Errors: those of PyTreeCheckpointHandler.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/orbax/item_handlers.h"
#include "holdfast/orbax/pytree_checkpoint_handler.h"

namespace holdfast {

// A subclass interprets its arguments. This class does everything else.
class TreeItemHandler : public CheckpointHandler {
 public:
  explicit TreeItemHandler(std::string_view typestr) : typestr_(typestr) {}
  // Must be called once, before all other methods.
  Status Open(PyTreeCheckpointHandlerOptions options);

  std::string TypeStr() const override { return typestr_; }
  Status Save(const std::string& directory,
              const CheckpointArgs& args) override;
  Result<std::vector<CommitFuture>> AsyncSave(
      const std::string& directory, const CheckpointArgs& args) override;
  // Returns a tree of objects (ValueMetadata). None and empty containers are
  // themselves in it.
  Result<Tree> Metadata(const std::string& directory) override;
  Status Finalize(const std::string& directory) override {
    return tree_->Finalize(directory);
  }
  void Close() override { tree_->Close(); }
  void Cancel() override { is_cancelled_ = true; }
  std::vector<std::string> SyncedItems() const override;

 protected:
  // Returns `args` itself, or fills in `made` from it and returns that.
  virtual Result<const PyTreeSaveArgs*> SaveArgsOf(const CheckpointArgs& args,
                                                   PyTreeSaveArgs& made) = 0;
  PyTreeCheckpointHandler& tree() { return *tree_; }

 private:
  const std::string typestr_;
  std::atomic<bool> is_cancelled_ = false;
  bool is_synced_ = false;
  std::unique_ptr<PyTreeCheckpointHandler> tree_;  // destroyed first
};

// Opens `handler` for trees that are saved as `options` says.
Result<std::shared_ptr<CheckpointHandler>> OpenItems(
    std::shared_ptr<TreeItemHandler> handler,
    PyTreeCheckpointHandlerOptions options);

}  // namespace holdfast
