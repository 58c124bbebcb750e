// CompositeCheckpointHandler: several items in one checkpoint, each in a
// directory with its name, and each with its own handler.
//
//   CompositeCheckpointHandler handler;
//   CompositeArgs save;
//   save.items["state"] = std::make_shared<StandardSave>(state);
//   save.items["meta"] = std::make_shared<JsonSave>(meta);
//   handler.Save(directory, save);
//
// An item's handler is the first of these that exists: the registry's handler
// for the item and its args, the registry's handler for the args and any item,
// the globally registered handler for the args. Items are saved and restored in
// the order of their names. Every item has its own marker, which Finalize
// writes. An item's directory needs no temporary name, because the directory
// around it is not visible yet.
//
// Thread-safety, ownership: as in checkpoint_handler.h.
// Units: nanoseconds since 1970-01-01 UTC.
// Errors: those of the items' handlers, with the item's name in front; and
// Orbax's messages for what a composite refuses (see Restore).
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

// The item that a manager saves when it was given no item names.
inline constexpr std::string_view kDefaultItemName = "default";

struct CompositeArgs : CheckpointArgs {
  std::map<std::string, std::shared_ptr<const CheckpointArgs>> items;
};
// The result of Restore by item.
using CompositeResults = std::map<std::string, Tree>;

// `_CHECKPOINT_METADATA`, and what the handlers report about their items.
struct StepMetadata {
  // Null (monostate), the type string of a checkpoint that is a single item, or
  // one optional type string per item.
  using ItemTypes = std::map<std::string, std::optional<std::string>>;
  std::variant<std::monostate, std::string, ItemTypes> item_handlers;
  // By item name; a checkpoint that is a single item has the name "". Absent if
  // no handler can read the item's metadata.
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
  // Null: use only the globally registered handlers. Copied.
  const CheckpointHandlerRegistry* registry = nullptr;
  // Handlers by item name, to be registered as CreateDefaultHandlerRegistry
  // does.
  std::map<std::string, std::shared_ptr<CheckpointHandler>> handlers;
  // If set, only these items (and those in `handlers`) may be saved.
  std::optional<std::vector<std::string>> item_names;
};

class CompositeCheckpointHandler : public CheckpointHandler {
 public:
  // InvalidArgument for a handler whose TypeStr has no registered args.
  static Result<std::shared_ptr<CompositeCheckpointHandler>> Make(
      CompositeOptions options = {});

  // Returns "orbax.checkpoint...CompositeCheckpointHandler", although a
  // checkpoint records ItemTypes instead.
  std::string TypeStr() const override = 0;
  // Returns a Dict of the items. All calls fail with InvalidArgument if args
  // are not CompositeArgs. InvalidArgument for an item whose handler is not
  // known: `Item "j" was found in the checkpoint, but could not be restored.
  // Please provide a `CheckpointHandlerRegistry`, or call `restore` with an
  // appropriate `CheckpointArgs` subclass.` NotFound for an item that does not
  // exist: `Item "x" was not found in the checkpoint. Available items: [...]`
  Result<Tree> Restore(const std::string& directory,
                       const CheckpointArgs* args) override = 0;
  // The same, but returns a map by item name. Restores all items if args is
  // null or has no items.
  virtual Result<CompositeResults> RestoreItems(const std::string& directory,
                                                const CompositeArgs* args) = 0;
  // Reads the metadata of a step. The type of an item whose handler is not
  // known is null. NotFound if the directory does not exist.
  virtual Result<StepMetadata> ReadStepMetadata(
      const std::string& directory) = 0;
  // Returns the items of the last Save or AsyncSave by name, with their
  // handlers' TypeStr, which `_CHECKPOINT_METADATA` records.
  virtual StepMetadata::ItemTypes SavedItemTypes() const = 0;
};

// Reads only the `_CHECKPOINT_METADATA` of a directory, and so no
// item_metadata. Returns defaults if that file is missing or invalid, as Orbax
// does. DataLoss if it differs from its recorded checksum.
Result<StepMetadata> ReadStepMetadataFile(const std::string& directory);

// The layout of a step directory, for a manager without item names: the
// directory contains an item directory "default" (kDefaultItem), is itself an
// item (kFlat), or has named items (kComposite).
enum class StepLayout : uint8_t { kDefaultItem, kFlat, kComposite };
// Returns the layout that `_CHECKPOINT_METADATA` shows, or else the names in
// the directory. NotFound if the directory does not exist.
Result<StepLayout> GetStepLayout(const std::string& directory);

}  // namespace holdfast
