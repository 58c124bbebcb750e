// The common part of the handlers of trees and arrays: a
// PyTreeCheckpointHandler that can be told to stop.
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

// A subclass says what its args mean; the rest is here.
class TreeItemHandler : public CheckpointHandler {
 public:
  explicit TreeItemHandler(std::string_view typestr) : typestr_(typestr) {}
  // Once, before all others.
  Status Open(PyTreeCheckpointHandlerOptions options);

  std::string TypeStr() const override { return typestr_; }
  Status Save(const std::string& directory,
              const CheckpointArgs& args) override;
  Result<std::vector<CommitFuture>> AsyncSave(
      const std::string& directory, const CheckpointArgs& args) override;
  // Leaves are objects: ValueMetadata; None and empty containers themselves.
  Result<Tree> Metadata(const std::string& directory) override;
  Status Finalize(const std::string& directory) override {
    return tree_->Finalize(directory);
  }
  void Close() override { tree_->Close(); }
  void Cancel() override { is_cancelled_ = true; }
  std::vector<std::string> SyncedItems() const override;

 protected:
  // The args' own, or `made` of them.
  virtual Result<const PyTreeSaveArgs*> SaveArgsOf(const CheckpointArgs& args,
                                                   PyTreeSaveArgs& made) = 0;
  PyTreeCheckpointHandler& tree() { return *tree_; }

 private:
  const std::string typestr_;
  std::atomic<bool> is_cancelled_ = false;
  bool is_synced_ = false;
  std::unique_ptr<PyTreeCheckpointHandler> tree_;  // goes first
};

// `handler` for trees that are saved as `options` say.
Result<std::shared_ptr<CheckpointHandler>> OpenItems(
    std::shared_ptr<TreeItemHandler> handler,
    PyTreeCheckpointHandlerOptions options);

}  // namespace holdfast
