// ArrayCheckpointHandler: a tree with one leaf, without OCDBT.
#include "engine/format/checkpoint_metadata.h"
#include "engine/format/directory_names.h"
#include "ground/base/status_macros.h"
#include "ground/tree/rebuild.h"
#include "orbax/checkpointer/args.h"
#include "orbax/checkpointer/pytree_items.h"

namespace holdfast {
namespace {

bool IsArrayOrScalar(const Tree& item) {
  return item.is_leaf() && (item.leaf_kind() == LeafKind::kArray ||
                            item.leaf_kind() == LeafKind::kScalar);
}

class ArrayItemHandler final : public TreeItemHandler {
 public:
  explicit ArrayItemHandler(std::string name)
      : TreeItemHandler(kArrayHandlerTypestr), name_(std::move(name)) {}

  Result<Tree> Restore(const std::string& directory,
                       const CheckpointArgs* args) override {
    HF_ASSIGN_OR_RETURN(const ArrayRestore* restore,
                        OptionalArgsAs<ArrayRestore>(TypeStr(), args));
    PyTreeRestoreArgs pytree;
    if (restore != nullptr && restore->restore_args) {
      pytree.restore_args.emplace();
      pytree.restore_args->emplace(name_, *restore->restore_args);
    }
    HF_ASSIGN_OR_RETURN(const Tree tree, tree().Restore(directory, pytree));
    const Tree* leaf = tree.Find(name_);
    if (leaf != nullptr) return *leaf;
    return NotFoundError(directory + ": no array named " + name_);
  }
  Result<Tree> Metadata(const std::string& directory) override {
    return CheckpointHandler::Metadata(directory);  // as in Orbax, it has none
  }

 private:
  Result<const PyTreeSaveArgs*> SaveArgsOf(const CheckpointArgs& args,
                                           PyTreeSaveArgs& pytree) override {
    HF_ASSIGN_OR_RETURN(const ArraySave* save,
                        ArgsAs<ArraySave>(TypeStr(), args));
    if (!IsArrayOrScalar(save->item)) {
      return InvalidArgumentError(
          "Unsupported type: " + PythonClassText(save->item) + ".");
    }
    pytree.item = Tree::Dict({{name_, save->item}});
    if (save->save_args) pytree.save_args[name_] = *save->save_args;
    return &pytree;
  }

  const std::string name_;
};

}  // namespace

Result<std::shared_ptr<CheckpointHandler>> MakeArrayHandler(
    ArrayHandlerOptions options) {
  PyTreeCheckpointHandlerOptions pytree;
  pytree.use_ocdbt = false;
  pytree.multiprocessing_options = options.multiprocessing_options;
  const std::string name = options.checkpoint_name.empty()
                               ? std::string(kAggregateFile)
                               : options.checkpoint_name;
  return OpenItems(std::make_shared<ArrayItemHandler>(name), std::move(pytree));
}

}  // namespace holdfast
