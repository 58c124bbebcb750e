#include "holdfast/orbax/composite_handler.h"

#include <algorithm>
#include <set>

#include "engine/commit/layout.h"
#include "engine/format/directory_names.h"
#include "ground/base/status_macros.h"
#include "ground/base/type_name.h"
#include "ground/tree/python_repr.h"
#include "orbax/checkpointer/args.h"
#include "orbax/checkpointer/primary.h"
#include "stores/place/directory_ops.h"
#include "stores/place/place.h"

namespace holdfast {
namespace {

constexpr std::string_view kCompositeTypestr =
    "orbax.checkpoint._src.handlers.composite_checkpoint_handler."
    "CompositeCheckpointHandler";

using HandlerPtr = std::shared_ptr<CheckpointHandler>;

Status CannotRestoreError(const std::string& item) {
  return InvalidArgumentError(
      "Item \"" + item +
      "\" was found in the checkpoint, but could not be restored. Please "
      "provide a `CheckpointHandlerRegistry`, or call `restore` with an "
      "appropriate `CheckpointArgs` subclass.");
}

Status NullArgsError(const std::string& item) {
  return InvalidArgumentError(
      "Provided `None` for `CheckpointArgs`, and the `CheckpointHandler` for "
      "item \"" +
      item + "\" was not configured. If saving, this indicates that \"" + item +
      "\" was saved with `None` (an instance of `CheckpointArgs` was "
      "expected). "
      "If restoring, providing `None` for the item is valid, but only if the "
      "`CheckpointHandler` was already configured. Provide a `CheckpointArgs` "
      "subclass so that `CompositeCheckpointHandler` will know how to restore "
      "the item.");
}

std::string ListText(const std::vector<std::string>& names) {
  std::string text = "[";
  for (const std::string& name : names) {
    if (text.size() > 1) text += ", ";
    AppendPythonRepr(text, name);
  }
  return text + "]";
}

// Checks a name that becomes a directory next to the checkpoint's own files.
Status CheckItemName(const std::string& name) {
  if (name.empty() || name.starts_with("__") || IsTemporaryName(name) ||
      name.find('/') != std::string::npos) {
    return InvalidArgumentError("item name \"" + name +
                                "\": want a name without \"/\", which is not "
                                "empty, not temporary and does not start with "
                                "\"__\"");
  }
  return CheckDirectoryParamName(name).WithContext("item name");
}

// Makes the directory of an item. Every process does this, so that no process
// has to wait for another.
Status MakeItemDirectory(const Place& place,
                         const std::optional<uint32_t>& mode) {
  if (place.is_remote()) return Status();
  const Status made = CreateDirectoryNew(place);
  if (made.code() == StatusCode::kAlreadyExists) return Status();
  HF_RETURN_IF_ERROR(made);
  // The owner keeps all permissions until the commit, because otherwise the
  // save could not write.
  return mode ? SetPermissions(place, *mode | 0700) : Status();
}

// Returns the names of the items: all directories, except those that an
// interrupted save of Orbax left behind.
Result<std::vector<std::string>> ExistingItems(const std::string& directory) {
  HF_ASSIGN_OR_RETURN(const PathKind root, GetPathKind(Place(directory)));
  if (root == PathKind::kMissing) {
    return NotFoundError("Directory does not exist: " + directory);
  }
  HF_ASSIGN_OR_RETURN(std::vector<std::string> names,
                      ListDirectory(Place(directory)));
  std::erase_if(names, [&](const std::string& name) {
    const Result<PathKind> kind = GetPathKind(Place(directory + "/" + name));
    return !kind.ok() || *kind != PathKind::kDirectory || IsTemporaryName(name);
  });
  return names;
}

class CompositeHandler final : public CompositeCheckpointHandler {
 public:
  CompositeHandler(CheckpointHandlerRegistry registry, CompositeOptions options)
      : registry_(std::move(registry)), options_(std::move(options)) {}

  std::string TypeStr() const override {
    return std::string(kCompositeTypestr);
  }

  Status Save(const std::string& directory,
              const CheckpointArgs& args) override {
    return SaveEach(
        directory, args,
        [](CheckpointHandler& handler, const std::string& path,
           const CheckpointArgs& item) { return handler.Save(path, item); });
  }

  Result<std::vector<CommitFuture>> AsyncSave(
      const std::string& directory, const CheckpointArgs& args) override {
    std::vector<CommitFuture> futures;
    const Status begun =
        SaveEach(directory, args,
                 [&](CheckpointHandler& handler, const std::string& path,
                     const CheckpointArgs& item) -> Status {
                   HF_ASSIGN_OR_RETURN(const std::vector<CommitFuture> more,
                                       handler.AsyncSave(path, item));
                   futures.insert(futures.end(), more.begin(), more.end());
                   return Status();
                 });
    if (begun.ok()) return futures;
    // No handler may still write into a directory that is abandoned.
    Cancel();
    for (const CommitFuture& future : futures) future.wait();
    return begun;
  }

  Result<Tree> Restore(const std::string& directory,
                       const CheckpointArgs* args) override {
    HF_ASSIGN_OR_RETURN(const CompositeArgs* composite,
                        OptionalArgsAs<CompositeArgs>(TypeStr(), args));
    HF_ASSIGN_OR_RETURN(CompositeResults items,
                        RestoreItems(directory, composite));
    std::vector<Tree::Member> members;
    for (auto& [name, item] : items)
      members.emplace_back(name, std::move(item));
    return Tree::Dict(std::move(members));
  }

  Result<CompositeResults> RestoreItems(const std::string& directory,
                                        const CompositeArgs* args) override {
    HF_ASSIGN_OR_RETURN(const std::vector<std::string> existing,
                        ExistingItems(directory));
    if (args == nullptr || args->items.empty()) {
      return RestoreAll(directory, existing);
    }
    CompositeResults results;
    for (const auto& [name, item_args] : args->items) {
      if (std::find(existing.begin(), existing.end(), name) == existing.end()) {
        return NotFoundError("Item \"" + name +
                             "\" was not found in the checkpoint. Available "
                             "items: " +
                             ListText(existing));
      }
      HF_ASSIGN_OR_RETURN(const HandlerPtr handler,
                          HandlerOf(name, item_args.get()));
      HF_ASSIGN_OR_RETURN(results[name], RestoreOne(*handler, directory, name,
                                                    item_args.get()));
    }
    return results;
  }

  Result<Tree> Metadata(const std::string& directory) override {
    HF_ASSIGN_OR_RETURN(const StepMetadata metadata,
                        ReadStepMetadata(directory));
    std::vector<Tree::Member> members;
    for (const auto& [name, item] : metadata.item_metadata) {
      members.emplace_back(name, item.value_or(Tree::None()));
    }
    return Tree::Dict(std::move(members));
  }

  Result<StepMetadata> ReadStepMetadata(const std::string& directory) override {
    HF_ASSIGN_OR_RETURN(const std::vector<std::string> existing,
                        ExistingItems(directory));
    HF_ASSIGN_OR_RETURN(StepMetadata metadata, ReadStepMetadataFile(directory));
    if (std::holds_alternative<std::string>(metadata.item_handlers)) {
      return InvalidArgumentError(
          "StepMetadata.item_handlers must be a dict, but is a <class 'str'>. "
          "This likely indicates that the checkpoint was saved using a "
          "non-composite handler.");
    }
    StepMetadata::ItemTypes types;
    if (auto* saved =
            std::get_if<StepMetadata::ItemTypes>(&metadata.item_handlers)) {
      types = std::move(*saved);
    }
    for (const std::string& name : existing) {
      HandlerPtr handler = FindByName(name);
      std::optional<std::string>& type = types[name];
      if (handler != nullptr && !type) type = handler->TypeStr();
      if (handler == nullptr && type) handler = MakeOfType(*type);
      metadata.item_metadata[name] =
          ItemMetadata(handler, directory + "/" + name);
    }
    metadata.item_handlers = std::move(types);
    return metadata;
  }

  StepMetadata::ItemTypes SavedItemTypes() const override {
    StepMetadata::ItemTypes types;
    for (const auto& [name, handler] : saved_) types[name] = handler->TypeStr();
    return types;
  }

  Status Finalize(const std::string& directory) override {
    if (saved_.empty()) {
      return InvalidArgumentError(
          "finalize() called before any items were saved.");
    }
    for (const auto& [name, handler] : saved_) {
      const std::string path = directory + "/" + name;
      HF_RETURN_IF_ERROR(handler->Finalize(path).WithContext("item " + name));
      HF_RETURN_IF_ERROR(WriteMarker(path));
    }
    return Status();
  }

  void Close() override {
    for (CheckpointHandler* handler : Handlers()) handler->Close();
  }

  void Cancel() override {
    for (CheckpointHandler* handler : Handlers()) handler->Cancel();
  }

  std::vector<std::string> SyncedItems() const override {
    std::vector<std::string> all;
    for (const auto& [name, handler] : saved_) {
      for (const std::string& below : handler->SyncedItems()) {
        all.push_back(below.empty() ? name : name + "/" + below);
      }
    }
    return all;
  }

 private:
  using SaveFn = std::function<Status(
      CheckpointHandler&, const std::string& path, const CheckpointArgs&)>;

  Status SaveEach(const std::string& directory, const CheckpointArgs& args,
                  const SaveFn& save) {
    HF_ASSIGN_OR_RETURN(const CompositeArgs* composite,
                        ArgsAs<CompositeArgs>(TypeStr(), args));
    saved_.clear();
    // Refuses everything that can be refused before anything is written.
    std::map<std::string, HandlerPtr> handlers;
    for (const auto& [name, item] : composite->items) {
      HF_RETURN_IF_ERROR(CheckItemName(name));
      if (item == nullptr) return NullArgsError(name);
      HF_ASSIGN_OR_RETURN(handlers[name], HandlerOf(name, item.get()));
    }
    for (const auto& [name, item] : composite->items) {
      const std::string path = directory + "/" + name;
      HF_RETURN_IF_ERROR(
          MakeItemDirectory(Place(path), options_.directory_mode));
      HF_RETURN_IF_ERROR(
          save(*handlers[name], path, *item).WithContext("item " + name));
    }
    saved_ = std::move(handlers);
    return Status();
  }

  // Returns the handler that is registered for the item with these args, for
  // the args, or by default. Registers it for the item.
  Result<HandlerPtr> HandlerOf(const std::string& name,
                               const CheckpointArgs* args) {
    if (args == nullptr) {
      HandlerPtr handler = FindByName(name);
      if (handler != nullptr) return handler;
      return NullArgsError(name);
    }
    const std::type_index type = typeid(*args);
    if (registry_.Has(name, type)) return registry_.Get(name, type);
    if (registry_.Has(std::nullopt, type)) {
      HF_ASSIGN_OR_RETURN(HandlerPtr handler,
                          registry_.Get(std::nullopt, type));
      HF_RETURN_IF_ERROR(registry_.Add(name, type, handler));
      return handler;
    }
    HF_ASSIGN_OR_RETURN(const CheckpointHandlerType handler_type,
                        RegisteredHandlerType(type));
    if (!MayRegister(name) || !handler_type.make) {
      return InvalidArgumentError("Item \"" + name + "\" and args \"" +
                                  CppTypeName(type) +
                                  "\" does not match with any registered "
                                  "handler! Registered handlers: " +
                                  EntriesText());
    }
    HandlerPtr handler = handler_type.make();
    HF_RETURN_IF_ERROR(Remember(name, handler, type));
    return handler;
  }

  // Returns whether a handler may be registered for the item. An item has only
  // one handler. If the options list items, only these items may have one.
  bool MayRegister(const std::string& name) const {
    if (FindByName(name) != nullptr) return false;
    if (!options_.item_names) return true;
    const std::vector<std::string>& names = *options_.item_names;
    return std::find(names.begin(), names.end(), name) != names.end();
  }

  // Registers the handler for `type`, and for the args that are registered with
  // the handler's own type.
  Status Remember(const std::string& name, const HandlerPtr& handler,
                  std::type_index type) {
    const Result<RegisteredArgs> args = RegisteredArgsOf(handler->TypeStr());
    std::set<std::type_index> types = {type};
    if (args.ok()) types.insert({args->save.type, args->restore.type});
    for (const std::type_index& each : types) {
      HF_RETURN_IF_ERROR(registry_.Add(name, each, handler));
    }
    return Status();
  }

  HandlerPtr FindByName(const std::string& name) const {
    for (const auto& [key, handler] : registry_.entries()) {
      if (key.first == name) return handler;
    }
    return nullptr;
  }

  // Returns a new handler; null for an unknown type, or a type that cannot be
  // made by default.
  static HandlerPtr MakeOfType(const std::string& typestr) {
    const Result<CheckpointHandlerType> type = HandlerTypeOf(typestr);
    return type.ok() && type->make ? type->make() : nullptr;
  }

  Result<CompositeResults> RestoreAll(
      const std::string& directory, const std::vector<std::string>& existing) {
    HF_ASSIGN_OR_RETURN(const StepMetadata metadata,
                        ReadStepMetadataFile(directory));
    const auto* types =
        std::get_if<StepMetadata::ItemTypes>(&metadata.item_handlers);
    if (types != nullptr) {
      HF_RETURN_IF_ERROR(CheckNoneIsGone(directory, *types, existing));
    }
    std::map<std::string, HandlerPtr> handlers;
    for (const std::string& name : existing) {
      HandlerPtr handler = FindByName(name);
      if (handler == nullptr && types != nullptr && types->contains(name) &&
          types->at(name)) {
        handler = MakeOfType(*types->at(name));
      }
      if (handler == nullptr) return CannotRestoreError(name);
      handlers[name] = std::move(handler);
    }
    CompositeResults results;
    for (const auto& [name, handler] : handlers) {
      HF_ASSIGN_OR_RETURN(results[name],
                          RestoreOne(*handler, directory, name, nullptr));
    }
    return results;
  }

  static Status CheckNoneIsGone(const std::string& directory,
                                const StepMetadata::ItemTypes& types,
                                const std::vector<std::string>& existing) {
    for (const auto& [name, type] : types) {
      if (std::find(existing.begin(), existing.end(), name) == existing.end()) {
        return MissingItemError(directory, name);
      }
    }
    return Status();
  }

  static Result<Tree> RestoreOne(CheckpointHandler& handler,
                                 const std::string& directory,
                                 const std::string& name,
                                 const CheckpointArgs* args) {
    Result<Tree> tree = handler.Restore(directory + "/" + name, args);
    if (tree.ok()) return tree;
    return tree.status().WithContext("item " + name);
  }

  static std::optional<Tree> ItemMetadata(const HandlerPtr& handler,
                                          const std::string& path) {
    if (handler == nullptr) return std::nullopt;
    Result<Tree> metadata = handler->Metadata(path);
    if (!metadata.ok()) return std::nullopt;
    return std::move(metadata).value();
  }

  // Writes a commit marker, as a separate save would, although the directory
  // already has its final name.
  Status WriteMarker(const std::string& path) const {
    if (!IsPrimaryHost(options_.multiprocessing_options)) return Status();
    const std::shared_ptr<Store> store = Place(path).OpenStore();
    HF_RETURN_IF_ERROR(store->Write(
        kCommitMarkerFile, CommitMarkerText(path, /*has_digests=*/false),
        {.sync = false, .atomic = false}));
    return store->Flush();
  }

  std::set<CheckpointHandler*> Handlers() const {
    std::set<CheckpointHandler*> handlers;
    for (const auto& [key, handler] : registry_.entries()) {
      handlers.insert(handler.get());
    }
    return handlers;
  }

  std::string EntriesText() const {
    std::string text;
    for (const auto& [key, handler] : registry_.entries()) {
      if (!text.empty()) text += ", ";
      text += "(" + key.first.value_or("None") + ", " +
              CppTypeName(key.second) + "): " + handler->TypeStr();
    }
    return "{" + text + "}";
  }

  CheckpointHandlerRegistry registry_;
  const CompositeOptions options_;
  std::map<std::string, HandlerPtr> saved_;  // of the last save
};

}  // namespace

Result<std::shared_ptr<CompositeCheckpointHandler>>
CompositeCheckpointHandler::Make(CompositeOptions options) {
  HF_ASSIGN_OR_RETURN(CheckpointHandlerRegistry registry,
                      CreateDefaultHandlerRegistry(options.handlers));
  if (options.registry != nullptr) {
    for (const auto& [key, handler] : options.registry->entries()) {
      HF_RETURN_IF_ERROR(registry.Add(key.first, key.second, handler));
    }
    options.registry = nullptr;  // used only by the caller
  }
  return std::shared_ptr<CompositeCheckpointHandler>(
      std::make_shared<CompositeHandler>(std::move(registry),
                                         std::move(options)));
}

}  // namespace holdfast
