// StandardCheckpointHandler: refuses unsupported leaves, and derives restore
// arguments from a target.
#include "engine/format/checkpoint_metadata.h"
#include "ground/base/status_macros.h"
#include "ground/tree/flatten.h"
#include "ground/tree/rebuild.h"
#include "orbax/checkpointer/args.h"
#include "orbax/checkpointer/pytree_items.h"

namespace holdfast {
namespace {

bool IsNumber(const Tree& leaf) {
  return leaf.leaf_kind() == LeafKind::kScalar;
}

bool IsArrayLeaf(const Tree& leaf) {
  return leaf.leaf_kind() == LeafKind::kArray;
}

// Returns true for int, float, np.number, np.ndarray and jax.Array.
bool IsStandard(const Tree& leaf) {
  if (IsArrayLeaf(leaf)) return true;
  if (!IsNumber(leaf)) return false;
  return !leaf.scalar().is_python || leaf.scalar().dtype != DType::kComplex128;
}

Status CheckStandardLeaves(const Tree& item) {
  HF_ASSIGN_OR_RETURN(const std::vector<FlatLeaf> leaves, Flatten(item));
  for (const FlatLeaf& flat : leaves) {
    const Tree& leaf = *flat.leaf;
    if (!leaf.is_leaf() || leaf.is_none() || IsStandard(leaf)) continue;
    return InvalidArgumentError("Unsupported type: " + PythonClassText(leaf) +
                                " for key: " + TreePathRepr(flat.path) + ".");
  }
  return Status();
}

Status CheckSave(const StandardSave& save) {
  if (save.item.is_none()) {
    return InvalidArgumentError("Must provide item to save.");
  }
  if (save.item.is_leaf() &&
      (IsNumber(save.item) ||
       (IsArrayLeaf(save.item) && save.item.array_kind() == ArrayKind::kJax))) {
    return InvalidArgumentError(
        "StandardCheckpointHandler / StandardSave does not support single "
        "arrays or scalars. Use ArrayCheckpointHandler / ArraySave");
  }
  for (const auto& [name, args] : save.save_args) {
    if (!args.aggregate) continue;
    return InvalidArgumentError(
        "Unsupported option `aggregate` for key: " + name + ".");
  }
  return CheckStandardLeaves(save.item);
}

// Returns the item with an array without dimensions for each np.number, as
// which it is saved.
Tree WithArraysForNumbers(const Tree& item) {
  return MapLeaves(item, [](const KeyPath&, const Tree& leaf) -> Tree {
    if (!leaf.is_leaf() || !IsNumber(leaf) || leaf.scalar().is_python) {
      return leaf;
    }
    return Array::FromBytes(leaf.scalar().dtype, {},
                            leaf.scalar().bytes.data());
  });
}

Result<AnyRestoreArgs> RestoreArgsOf(const Tree& leaf, bool strict) {
  if (!leaf.is_leaf() || leaf.is_none()) return AnyRestoreArgs(RestoreArgs());
  if (!IsArrayLeaf(leaf)) {
    const DType dtype = leaf.scalar().dtype;
    RestoreArgs args;
    if (leaf.scalar().is_python) {
      args.restore_type = dtype == DType::kBool      ? RestoreType::kBool
                          : dtype == DType::kFloat64 ? RestoreType::kFloat
                                                     : RestoreType::kInt;
    } else {
      args = {RestoreType::kNumpy, dtype};
    }
    return AnyRestoreArgs(args);
  }
  if (leaf.array_kind() == ArrayKind::kNumpy) {
    return AnyRestoreArgs(RestoreArgs{RestoreType::kNumpy, leaf.array_dtype()});
  }
  ArrayRestoreArgs args;
  args.dtype = leaf.array_dtype();
  args.strict = strict;
  if (leaf.array_traits().prng_impl.empty()) {
    args.global_shape = leaf.array_shape();
  }
  if (!leaf.sharding_json().empty()) {
    HF_ASSIGN_OR_RETURN(args.sharding, ShardingFromJson(leaf.sharding_json()));
  }
  return AnyRestoreArgs(std::move(args));
}

Result<PyTreeRestoreArgs> PyTreeArgsOf(const StandardRestore* restore) {
  PyTreeRestoreArgs args;
  if (restore == nullptr || !restore->item) return args;
  HF_RETURN_IF_ERROR(CheckStandardLeaves(*restore->item));
  HF_ASSIGN_OR_RETURN(const std::vector<FlatLeaf> leaves,
                      Flatten(*restore->item));
  args.item = restore->item;
  args.restore_args.emplace();
  for (const FlatLeaf& flat : leaves) {
    HF_ASSIGN_OR_RETURN(AnyRestoreArgs leaf_args,
                        RestoreArgsOf(*flat.leaf, restore->strict));
    args.restore_args->emplace(ParamName(flat.path), std::move(leaf_args));
  }
  return args;
}

class StandardItemHandler final : public TreeItemHandler {
 public:
  StandardItemHandler() : TreeItemHandler(kStandardHandlerTypestr) {}

  Result<Tree> Restore(const std::string& directory,
                       const CheckpointArgs* args) override {
    HF_ASSIGN_OR_RETURN(const StandardRestore* restore,
                        OptionalArgsAs<StandardRestore>(TypeStr(), args));
    HF_ASSIGN_OR_RETURN(const PyTreeRestoreArgs pytree, PyTreeArgsOf(restore));
    return tree().Restore(directory, pytree);
  }

 private:
  Result<const PyTreeSaveArgs*> SaveArgsOf(const CheckpointArgs& args,
                                           PyTreeSaveArgs& pytree) override {
    HF_ASSIGN_OR_RETURN(const StandardSave* save,
                        ArgsAs<StandardSave>(TypeStr(), args));
    HF_RETURN_IF_ERROR(CheckSave(*save));
    pytree.item = WithArraysForNumbers(save->item);
    pytree.save_args = save->save_args;
    pytree.custom_metadata = save->custom_metadata;
    return &pytree;
  }
};

}  // namespace

Result<std::shared_ptr<CheckpointHandler>> MakeStandardHandler(
    PyTreeCheckpointHandlerOptions options) {
  return OpenItems(std::make_shared<StandardItemHandler>(), std::move(options));
}

}  // namespace holdfast
