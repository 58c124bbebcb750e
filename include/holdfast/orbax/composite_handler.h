// CompositeCheckpointHandler: several items in one checkpoint, each in a
// directory of its own name, with a handler of its own.
//
//   CompositeCheckpointHandler handler;
//   CompositeArgs save;
//   save.items["state"] = std::make_shared<StandardSave>(state);
//   save.items["meta"] = std::make_shared<JsonSave>(meta);
//   handler.Save(directory, save);
//
// The handler of an item is, in this order: the registry's for the item and its
// args, the registry's for the args and any item, the globally registered one
// for the args. Items are saved and restored in the order of their names.
// Every item has a marker of its own, written by Finalize; the item's directory
// lies in one that is not visible yet, so it needs no temporary name.
//
// Thread-safety, ownership: as checkpoint_handler.h.
// Units: nanoseconds since 1970-01-01 UTC.
// Errors: those of the items' handlers, with the item's name in front; and in
// Orbax's words what features a composite refuses (see Restore).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "holdfast/export.h"
#include "holdfast/orbax/checkpoint_handler.h"
#include "holdfast/orbax/pytree_checkpoint_handler.h"

namespace holdfast HOLDFAST_EXPORT {

// The item that a manager saves when it was told of no items.
inline constexpr std::string_view kDefaultItemName = "default";

struct CompositeArgs : CheckpointArgs {
  std::map<std::string, std::shared_ptr<const CheckpointArgs>> items;
};
// The result of Restore, item by item.
using CompositeResults = std::map<std::string, Tree>;

// `_CHECKPOINT_METADATA`, and what the handlers know about their items.
struct StepMetadata {
  // Null (monostate), the type string of a checkpoint that is one item, or one
  // (or none) an item.
  using ItemTypes = std::map<std::string, std::optional<std::string>>;
  std::variant<std::monostate, std::string, ItemTypes> item_handlers;
  // A checkpoint that is one item has it under the name "". Absent where no
  // handler can tell.
  std::map<std::string, std::optional<Tree>> item_metadata;
  std::string metrics = "{}";  // JSON objects
  std::string performance_metrics = "{}";
  std::string custom_metadata = "{}";
  std::optional<int64_t> init_timestamp_ns;
  std::optional<int64_t> commit_timestamp_ns;
};

struct CompositeOptions {
  MultiprocessingOptions multiprocessing_options;
  // Permissions of the items' directories; absent: 0777 less the umask.
  std::optional<uint32_t> directory_mode;
  // Null: only what is registered globally. Copied.
  const CheckpointHandlerRegistry* registry = nullptr;
  // Handlers by item name, as CreateDefaultHandlerRegistry enters them.
  std::map<std::string, std::shared_ptr<CheckpointHandler>> handlers;
  // When given, only these items (and those of `handlers`) may be saved.
  std::optional<std::vector<std::string>> item_names;
};

class CompositeCheckpointHandler : public CheckpointHandler {
 public:
  // InvalidArgument for a handler whose TypeStr has no registered args.
  static Result<std::shared_ptr<CompositeCheckpointHandler>> Make(
      CompositeOptions options = {});

  // "orbax.checkpoint...CompositeCheckpointHandler"; a checkpoint records
  // ItemTypes instead.
  std::string TypeStr() const override = 0;
  // REQUIRES of all: args are CompositeArgs, else InvalidArgument.
  // A Dict of the items. InvalidArgument where an item's handler is not known:
  // `Item "j" was found in the checkpoint, but could not be restored. Please
  // provide a `CheckpointHandlerRegistry`, or call `restore` with an
  // appropriate `CheckpointArgs` subclass.`; NotFound for an item that is not
  // there: `Item "x" was not found in the checkpoint. Available items: [...]`.
  Result<Tree> Restore(const std::string& directory,
                       const CheckpointArgs* args) override = 0;
  // The same, item by item. Null or no items: everything.
  virtual Result<CompositeResults> RestoreItems(const std::string& directory,
                                                const CompositeArgs* args) = 0;
  // A null type where the handler is not known. NotFound without a directory.
  virtual Result<StepMetadata> ReadStepMetadata(
      const std::string& directory) = 0;
  // The items of the last Save or AsyncSave, by name, with their handlers'
  // TypeStr; what `_CHECKPOINT_METADATA` is to record.
  virtual StepMetadata::ItemTypes SavedItemTypes() const = 0;
};

// Only a directory's `_CHECKPOINT_METADATA`, without item_metadata; defaults
// where it is missing or makes no sense, as in Orbax. DataLoss when it is not
// what was saved, by the checkpoint's checksums.
Result<StepMetadata> ReadStepMetadataFile(const std::string& directory);

// The layout of a step directory, for a manager that was told of no items: it
// holds an item directory "default" (kDefaultItem), it is an item itself
// (kFlat), or it has items by name (kComposite). `_CHECKPOINT_METADATA`
// decides, else the names in the directory. NotFound when there is no
// directory.
enum class StepLayout : uint8_t { kDefaultItem, kFlat, kComposite };
Result<StepLayout> GetStepLayout(const std::string& directory);

}  // namespace holdfast
