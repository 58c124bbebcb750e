#include "orbax/checkpointer/pytree_items.h"

#include "engine/format/checkpoint_metadata.h"
#include "ground/base/status_macros.h"
#include "ground/tree/rebuild.h"
#include "orbax/checkpointer/args.h"

namespace holdfast {
namespace {

// Replaces the index at each leaf with the value that has this index.
Tree WithValues(const Tree& structure,
                const std::vector<ValueMetadata>& values) {
  return MapLeaves(structure, [&](const KeyPath&, const Tree& leaf) {
    const bool is_index =
        leaf.is_leaf() && leaf.leaf_kind() == LeafKind::kScalar;
    return is_index ? Tree::Object(values[leaf.scalar().As<int64_t>()]) : leaf;
  });
}

class PyTreeItemHandler final : public TreeItemHandler {
 public:
  PyTreeItemHandler() : TreeItemHandler(kPyTreeHandlerTypestr) {}

  Result<Tree> Restore(const std::string& directory,
                       const CheckpointArgs* args) override {
    HF_ASSIGN_OR_RETURN(const PyTreeRestore* restore,
                        OptionalArgsAs<PyTreeRestore>(TypeStr(), args));
    return tree().Restore(
        directory, restore == nullptr ? PyTreeRestoreArgs() : restore->args);
  }

 private:
  Result<const PyTreeSaveArgs*> SaveArgsOf(const CheckpointArgs& args,
                                           PyTreeSaveArgs& /*made*/) override {
    HF_ASSIGN_OR_RETURN(const PyTreeSave* save,
                        ArgsAs<PyTreeSave>(TypeStr(), args));
    return &save->args;
  }
};

}  // namespace

Status TreeItemHandler::Open(PyTreeCheckpointHandlerOptions options) {
  if (options.cancel == nullptr) options.cancel = &is_cancelled_;
  is_synced_ = options.sync && options.handler_impl == nullptr;
  HF_ASSIGN_OR_RETURN(tree_, PyTreeCheckpointHandler::Make(std::move(options)));
  return Status();
}

Status TreeItemHandler::Save(const std::string& directory,
                             const CheckpointArgs& args) {
  PyTreeSaveArgs made;
  HF_ASSIGN_OR_RETURN(const PyTreeSaveArgs* save, SaveArgsOf(args, made));
  is_cancelled_ = false;
  return tree_->Save(directory, *save);
}

Result<std::vector<CommitFuture>> TreeItemHandler::AsyncSave(
    const std::string& directory, const CheckpointArgs& args) {
  PyTreeSaveArgs made;
  HF_ASSIGN_OR_RETURN(const PyTreeSaveArgs* save, SaveArgsOf(args, made));
  is_cancelled_ = false;
  return tree_->AsyncSave(directory, *save);
}

Result<Tree> TreeItemHandler::Metadata(const std::string& directory) {
  HF_ASSIGN_OR_RETURN(const PyTreeMetadata metadata,
                      tree_->Metadata(directory));
  return WithValues(metadata.structure, metadata.values);
}

std::vector<std::string> TreeItemHandler::SyncedItems() const {
  return is_synced_ ? std::vector<std::string>{""} : std::vector<std::string>();
}

Result<std::shared_ptr<CheckpointHandler>> OpenItems(
    std::shared_ptr<TreeItemHandler> handler,
    PyTreeCheckpointHandlerOptions options) {
  HF_RETURN_IF_ERROR(handler->Open(std::move(options)));
  return std::shared_ptr<CheckpointHandler>(std::move(handler));
}

Result<std::shared_ptr<CheckpointHandler>> MakePyTreeHandler(
    PyTreeCheckpointHandlerOptions options) {
  return OpenItems(std::make_shared<PyTreeItemHandler>(), std::move(options));
}

}  // namespace holdfast
