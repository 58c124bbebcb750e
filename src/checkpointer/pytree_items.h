// A PyTreeCheckpointHandler that can be told to stop, and what the handlers of
// trees and arrays have in common.
//
// Thread-safety: as checkpoint_handler.h. Ownership: owns the handler.
// Errors: those of PyTreeCheckpointHandler.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "holdfast/orbax/item_handlers.h"
#include "holdfast/orbax/pytree_checkpoint_handler.h"

namespace holdfast {

class StoppablePyTree {
 public:
  static Result<std::unique_ptr<StoppablePyTree>> Make(
      PyTreeCheckpointHandlerOptions options);

  Status Save(const std::string& directory, const PyTreeSaveArgs& args);
  Result<std::vector<CommitFuture>> AsyncSave(const std::string& directory,
                                              const PyTreeSaveArgs& args);
  Result<Tree> Restore(const std::string& directory,
                       const PyTreeRestoreArgs& args) {
    return handler_->Restore(directory, args);
  }
  // Leaves are objects: ValueMetadata; None and empty containers themselves.
  Result<Tree> Metadata(const std::string& directory);
  Status Finalize(const std::string& directory) {
    return handler_->Finalize(directory);
  }
  void Close() { handler_->Close(); }
  void Cancel() { is_cancelled_ = true; }
  // As CheckpointHandler::SyncedItems.
  std::vector<std::string> SyncedItems() const;

 private:
  StoppablePyTree() = default;

  std::atomic<bool> is_cancelled_ = false;
  bool is_synced_ = false;
  std::unique_ptr<PyTreeCheckpointHandler> handler_;  // goes first
};

// Common to the handlers of items that are trees; only the meaning of their
// args differs.
class TreeItemHandler : public CheckpointHandler {
 public:
  TreeItemHandler(std::unique_ptr<StoppablePyTree> tree,
                  std::string_view typestr)
      : tree_(std::move(tree)), typestr_(typestr) {}

  std::string TypeStr() const override { return typestr_; }
  Status Finalize(const std::string& directory) override {
    return tree_->Finalize(directory);
  }
  void Close() override { tree_->Close(); }
  void Cancel() override { tree_->Cancel(); }
  std::vector<std::string> SyncedItems() const override {
    return tree_->SyncedItems();
  }

 protected:
  const std::unique_ptr<StoppablePyTree> tree_;

 private:
  const std::string typestr_;
};

}  // namespace holdfast
