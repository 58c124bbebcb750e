#include "checkpointer/pytree_items.h"

#include "base/status_macros.h"
#include "checkpoint/format/checkpoint_metadata.h"
#include "checkpointer/args.h"

namespace holdfast {
namespace {

// Replaces the index at each leaf by the value that it stands for.
Tree WithValues(const Tree& structure,
                const std::vector<ValueMetadata>& values) {
  if (structure.is_leaf()) {
    if (structure.leaf_kind() != LeafKind::kScalar) return structure;
    const auto index = static_cast<size_t>(structure.scalar().As<int64_t>());
    return Tree::Object(values[index]);
  }
  Tree tree = structure;
  for (size_t i = 0; i < tree.size(); ++i) {
    tree.mutable_child(i) = WithValues(structure.children()[i], values);
  }
  return tree;
}

class PyTreeItemHandler final : public TreeItemHandler {
 public:
  explicit PyTreeItemHandler(std::unique_ptr<StoppablePyTree> tree)
      : TreeItemHandler(std::move(tree), kPyTreeHandlerTypestr) {}

  Status Save(const std::string& directory,
              const CheckpointArgs& args) override {
    HF_ASSIGN_OR_RETURN(const PyTreeSave* save,
                        ArgsAs<PyTreeSave>(TypeStr(), args));
    return tree_->Save(directory, save->args);
  }
  Result<std::vector<CommitFuture>> AsyncSave(
      const std::string& directory, const CheckpointArgs& args) override {
    HF_ASSIGN_OR_RETURN(const PyTreeSave* save,
                        ArgsAs<PyTreeSave>(TypeStr(), args));
    return tree_->AsyncSave(directory, save->args);
  }
  Result<Tree> Restore(const std::string& directory,
                       const CheckpointArgs* args) override {
    HF_ASSIGN_OR_RETURN(const PyTreeRestore* restore,
                        OptionalArgsAs<PyTreeRestore>(TypeStr(), args));
    return tree_->Restore(
        directory, restore == nullptr ? PyTreeRestoreArgs() : restore->args);
  }
  Result<Tree> Metadata(const std::string& directory) override {
    return tree_->Metadata(directory);
  }
};

}  // namespace

Result<std::unique_ptr<StoppablePyTree>> StoppablePyTree::Make(
    PyTreeCheckpointHandlerOptions options) {
  std::unique_ptr<StoppablePyTree> tree(new StoppablePyTree);
  if (options.cancel == nullptr) options.cancel = &tree->is_cancelled_;
  tree->is_synced_ = options.sync && options.handler_impl == nullptr;
  HF_ASSIGN_OR_RETURN(tree->handler_,
                      PyTreeCheckpointHandler::Make(std::move(options)));
  return tree;
}

Status StoppablePyTree::Save(const std::string& directory,
                             const PyTreeSaveArgs& args) {
  is_cancelled_ = false;
  return handler_->Save(directory, args);
}

Result<std::vector<CommitFuture>> StoppablePyTree::AsyncSave(
    const std::string& directory, const PyTreeSaveArgs& args) {
  is_cancelled_ = false;
  return handler_->AsyncSave(directory, args);
}

Result<Tree> StoppablePyTree::Metadata(const std::string& directory) {
  HF_ASSIGN_OR_RETURN(const PyTreeMetadata metadata,
                      handler_->Metadata(directory));
  return WithValues(metadata.structure, metadata.values);
}

std::vector<std::string> StoppablePyTree::SyncedItems() const {
  return is_synced_ ? std::vector<std::string>{""} : std::vector<std::string>();
}

Result<std::shared_ptr<CheckpointHandler>> MakePyTreeHandler(
    PyTreeCheckpointHandlerOptions options) {
  HF_ASSIGN_OR_RETURN(auto tree, StoppablePyTree::Make(std::move(options)));
  return std::shared_ptr<CheckpointHandler>(
      std::make_shared<PyTreeItemHandler>(std::move(tree)));
}

}  // namespace holdfast
