// The handlers of random keys. A key is a composite of two items: the key's
// data, and a string about them.
#include "engine/format/checkpoint_metadata.h"
#include "ground/base/status_macros.h"
#include "ground/tree/rebuild.h"
#include "holdfast/orbax/composite_handler.h"
#include "holdfast/orbax/item_handlers.h"
#include "orbax/checkpointer/args.h"

namespace holdfast {
namespace {

// jax.random.wrap_key_data assumes this implementation for key data.
constexpr std::string_view kDefaultPrngImpl = "threefry2x32";

Status UnsupportedType(const Tree& item) {
  return InvalidArgumentError("Unsupported type: " + PythonClassText(item) +
                              ".");
}

// Returns the item with `impl` as its implementation. If `impl` is empty, the
// item is only the key's data.
Tree WithPrngImpl(const Tree& item, std::string_view impl) {
  auto traits = std::make_shared<ArrayTraits>(item.array_traits());
  traits->prng_impl = impl;
  if (!item.is_sharded()) return Tree::JaxArray(item.array(), traits);
  return Tree::ShardedArray(item.array_dtype(), item.array_shape(),
                            item.shards(), traits);
}

bool IsTrue(const Tree& metadata, std::string_view key) {
  const Tree* value = metadata.Find(key);
  return value != nullptr && value->is_leaf() &&
         value->leaf_kind() == LeafKind::kScalar &&
         value->scalar().dtype == DType::kBool && value->scalar().As<bool>();
}

class RandomKeyHandler : public CheckpointHandler {
 public:
  RandomKeyHandler(std::shared_ptr<CompositeCheckpointHandler> items,
                   std::string key_name)
      : items_(std::move(items)),
        key_name_(std::move(key_name)),
        metadata_name_(key_name_ + "_metadata") {}

  Status Save(const std::string& directory,
              const CheckpointArgs& args) override {
    HF_ASSIGN_OR_RETURN(const CompositeArgs save, SaveItemsOf(args));
    return items_->Save(directory, save);
  }
  Result<std::vector<CommitFuture>> AsyncSave(
      const std::string& directory, const CheckpointArgs& args) override {
    HF_ASSIGN_OR_RETURN(const CompositeArgs save, SaveItemsOf(args));
    return items_->AsyncSave(directory, save);
  }
  Result<Tree> Restore(const std::string& directory,
                       const CheckpointArgs* args) override {
    CompositeArgs restore;
    HF_ASSIGN_OR_RETURN(restore.items[key_name_], KeyRestoreArgs(args));
    restore.items[metadata_name_] = std::make_shared<JsonRestore>();
    HF_ASSIGN_OR_RETURN(const CompositeResults items,
                        items_->RestoreItems(directory, &restore));
    return KeyOf(items.at(key_name_), items.at(metadata_name_));
  }
  Status Finalize(const std::string& directory) override {
    return items_->Finalize(directory);
  }
  void Close() override { items_->Close(); }
  void Cancel() override { items_->Cancel(); }
  std::vector<std::string> SyncedItems() const override {
    return items_->SyncedItems();
  }

 protected:
  struct KeyItem {
    std::shared_ptr<const CheckpointArgs> key;
    Tree metadata;
  };
  virtual Result<KeyItem> KeySaveArgs(const CheckpointArgs& args) const = 0;
  virtual Result<std::shared_ptr<const CheckpointArgs>> KeyRestoreArgs(
      const CheckpointArgs* args) const = 0;
  virtual Result<Tree> KeyOf(const Tree& item, const Tree& metadata) const = 0;

 private:
  Result<CompositeArgs> SaveItemsOf(const CheckpointArgs& args) const {
    HF_ASSIGN_OR_RETURN(KeyItem item, KeySaveArgs(args));
    CompositeArgs save;
    save.items[key_name_] = std::move(item.key);
    save.items[metadata_name_] =
        std::make_shared<JsonSave>(std::move(item.metadata));
    return save;
  }

  const std::shared_ptr<CompositeCheckpointHandler> items_;
  const std::string key_name_;
  const std::string metadata_name_;
};

class JaxRandomKeyHandler final : public RandomKeyHandler {
 public:
  using RandomKeyHandler::RandomKeyHandler;
  std::string TypeStr() const override {
    return std::string(kJaxRandomKeyHandlerTypestr);
  }

 private:
  Result<KeyItem> KeySaveArgs(const CheckpointArgs& args) const override {
    HF_ASSIGN_OR_RETURN(const JaxRandomKeySave* save,
                        ArgsAs<JaxRandomKeySave>(TypeStr(), args));
    const Tree& item = save->item;
    if (!item.is_leaf() || item.leaf_kind() != LeafKind::kArray ||
        item.array_kind() != ArrayKind::kJax || item.reader() != nullptr) {
      return UnsupportedType(item);
    }
    const bool is_typed = !item.array_traits().prng_impl.empty();
    auto key = std::make_shared<ArraySave>(WithPrngImpl(item, ""));
    key->save_args = save->save_args;
    return KeyItem{std::move(key), Tree::Dict({{"typed", is_typed}})};
  }

  Result<std::shared_ptr<const CheckpointArgs>> KeyRestoreArgs(
      const CheckpointArgs* args) const override {
    HF_ASSIGN_OR_RETURN(const JaxRandomKeyRestore* restore,
                        OptionalArgsAs<JaxRandomKeyRestore>(TypeStr(), args));
    auto key = std::make_shared<ArrayRestore>();
    if (restore != nullptr) key->restore_args = restore->restore_args;
    return std::shared_ptr<const CheckpointArgs>(std::move(key));
  }

  Result<Tree> KeyOf(const Tree& item, const Tree& metadata) const override {
    if (!IsTrue(metadata, "typed") || item.leaf_kind() != LeafKind::kArray) {
      return item;
    }
    return WithPrngImpl(item, kDefaultPrngImpl);
  }
};

class NumpyRandomKeyHandler final : public RandomKeyHandler {
 public:
  using RandomKeyHandler::RandomKeyHandler;
  std::string TypeStr() const override {
    return std::string(kNumpyRandomKeyHandlerTypestr);
  }

 private:
  Result<KeyItem> KeySaveArgs(const CheckpointArgs& args) const override {
    HF_ASSIGN_OR_RETURN(const NumpyRandomKeySave* save,
                        ArgsAs<NumpyRandomKeySave>(TypeStr(), args));
    const NodeKind kind = save->item.kind();
    if (kind != NodeKind::kDict && kind != NodeKind::kTuple &&
        kind != NodeKind::kNamedTuple) {
      return UnsupportedType(save->item);
    }
    const bool is_legacy = kind != NodeKind::kDict;
    return KeyItem{std::make_shared<PyTreeSave>(save->item),
                   Tree::Dict({{"legacy", is_legacy}})};
  }

  Result<std::shared_ptr<const CheckpointArgs>> KeyRestoreArgs(
      const CheckpointArgs* args) const override {
    HF_RETURN_IF_ERROR(
        OptionalArgsAs<NumpyRandomKeyRestore>(TypeStr(), args).status());
    return std::shared_ptr<const CheckpointArgs>(
        std::make_shared<PyTreeRestore>());
  }

  Result<Tree> KeyOf(const Tree& item, const Tree& metadata) const override {
    if (!IsTrue(metadata, "legacy") || item.is_leaf()) return item;
    return Tree::Tuple(item.children());
  }
};

// Makes a `Handler` for the two items of a key. The handlers of both items use
// the same processes.
template <typename Handler>
Result<std::shared_ptr<CheckpointHandler>> MakeHandler(
    const std::string& key_name, const MultiprocessingOptions& processes,
    Result<std::shared_ptr<CheckpointHandler>> key) {
  HF_RETURN_IF_ERROR(key.status());
  CompositeOptions composite;
  composite.multiprocessing_options = processes;
  composite.handlers[key_name] = *std::move(key);
  composite.handlers[key_name + "_metadata"] =
      MakeJsonHandler({.multiprocessing_options = processes});
  HF_ASSIGN_OR_RETURN(auto items,
                      CompositeCheckpointHandler::Make(std::move(composite)));
  return std::shared_ptr<CheckpointHandler>(
      std::make_shared<Handler>(std::move(items), key_name));
}

}  // namespace

Result<std::shared_ptr<CheckpointHandler>> MakeJaxRandomKeyHandler(
    RandomKeyHandlerOptions options) {
  if (options.key_name.empty()) options.key_name = "jax_random_key";
  const MultiprocessingOptions& processes = options.multiprocessing_options;
  return MakeHandler<JaxRandomKeyHandler>(
      options.key_name, processes,
      MakeArrayHandler({.multiprocessing_options = processes}));
}

Result<std::shared_ptr<CheckpointHandler>> MakeNumpyRandomKeyHandler(
    RandomKeyHandlerOptions options) {
  if (options.key_name.empty()) options.key_name = "np_random_key";
  const MultiprocessingOptions& processes = options.multiprocessing_options;
  return MakeHandler<NumpyRandomKeyHandler>(
      options.key_name, processes,
      MakePyTreeHandler({.multiprocessing_options = processes}));
}

}  // namespace holdfast
