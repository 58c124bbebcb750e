// CheckpointHandler: writes one item of a checkpoint into a directory and reads
// it back; and the registries that find the handler for an item.
//
//   struct TableSave : CheckpointArgs { Table table; };
//   struct TableRestore : CheckpointArgs {};
//   class TableHandler : public CheckpointHandler { ... };
//   const CheckpointHandlerType type = {"acme.TableHandler", [] {
//     return std::make_shared<TableHandler>(); }};
//   RegisterCheckpointArgs(CheckpointArgsType::Of<TableSave>(), type,
//                          /*for_save=*/true, /*for_restore=*/false);
//   RegisterCheckpointArgs(CheckpointArgsType::Of<TableRestore>(), type, false,
//                          true);
//
// A handler writes files, without markers and without atomicity; a Checkpointer
// (checkpointer.h) makes the checkpoint appear atomically. The handlers for
// Orbax's item types are in item_handlers.h, the handler for several items in
// composite_handler.h.
//
// Thread-safety: a handler is called by one thread at a time, but not always by
// the same thread: an AsyncCheckpointer calls Finalize on its own thread, and
// Cancel on any. A CheckpointHandlerRegistry is a value; the global
// registrations may be read from any thread while nobody adds to them.
// Ownership: arguments are borrowed for the call.
// Units: none.
// Errors: the handler's own. Registries fail as in Orbax, with Orbax's
// messages: ValueError is InvalidArgument (AlreadyExists for an existing
// entry), KeyError and FileNotFoundError are NotFound.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeindex>
#include <typeinfo>
#include <utility>
#include <vector>

#include "holdfast/export.h"
#include "holdfast/orbax/type_handlers.h"
#include "holdfast/status.h"
#include "holdfast/tree.h"

namespace holdfast HOLDFAST_EXPORT {

// The values to save, or how to restore them. Each item type has its own
// derived structs.
struct CheckpointArgs {
  virtual ~CheckpointArgs() = default;
};

class CheckpointHandler {
 public:
  virtual ~CheckpointHandler() = default;

  // Returns the name that `_CHECKPOINT_METADATA` records. Stock Orbax selects
  // its own class by this name.
  virtual std::string TypeStr() const = 0;
  // Writes the item into `directory`, which is absolute and exists. With
  // several processes, every process calls this.
  virtual Status Save(const std::string& directory,
                      const CheckpointArgs& args) = 0;
  // Begins a save. Copies what it needs from `args` before it returns, because
  // the caller may change the values afterwards. Waiting for all futures
  // completes the work. By default calls Save, and returns no futures.
  virtual Result<std::vector<CommitFuture>> AsyncSave(
      const std::string& directory, const CheckpointArgs& args);
  // Reads the item. Null args restore it as it was saved.
  virtual Result<Tree> Restore(const std::string& directory,
                               const CheckpointArgs* args) = 0;
  // Returns the tree that Restore would return, without its values. By default
  // Unimplemented.
  virtual Result<Tree> Metadata(const std::string& directory);
  // Completes the item. Called after all futures are done, before the directory
  // counts as complete.
  virtual Status Finalize(const std::string& directory);
  // Waits for the work that AsyncSave began.
  virtual void Close();
  // Asks the work that AsyncSave began to stop soon; its futures then fail with
  // Cancelled. May be called from any thread. The request has an effect until
  // the next Save or AsyncSave.
  virtual void Cancel();
  // Returns the directories, relative to the item's ("" is the item's own),
  // that contain items which SaveItem or FinishItem of pending_save.h have
  // already synced. The Checkpointer neither syncs nor reads these again; it
  // syncs everything else.
  virtual std::vector<std::string> SyncedItems() const;
};

// A kind of handler, identified by its TypeStr.
struct CheckpointHandlerType {
  std::string typestr;
  // Makes a handler. Empty if that needs arguments.
  std::function<std::shared_ptr<CheckpointHandler>()> make;
};

// A struct derived from CheckpointArgs.
struct CheckpointArgsType {
  std::type_index type = typeid(CheckpointArgs);
  // Makes default args. Empty if the struct has no default constructor.
  std::function<std::shared_ptr<const CheckpointArgs>()> make;

  template <typename Args>
  static CheckpointArgsType Of() {
    static_assert(std::is_base_of_v<CheckpointArgs, Args>);
    CheckpointArgsType args{typeid(Args), {}};
    if constexpr (std::is_default_constructible_v<Args>) {
      args.make = [] { return std::make_shared<const Args>(); };
    }
    return args;
  }
};

// Sets which kind of handler serves these args, unless a registry says
// otherwise. A later registration of the same args wins, as in Orbax.
// InvalidArgument "`for_save` and `for_restore` cannot both be False."; also
// for a typestr that belongs to another kind of handler.
Status RegisterCheckpointArgs(const CheckpointArgsType& args,
                              const CheckpointHandlerType& handler,
                              bool for_save, bool for_restore);
// Returns the kind of handler that is registered for the args. InvalidArgument
// "Unable to find registered `CheckpointHandler` for X. Use
// `register_with_handler`."
Result<CheckpointHandlerType> RegisteredHandlerType(std::type_index args);
// Finds the handler by its TypeStr, or by the names that older and newer
// releases of Orbax write. NotFound.
Result<CheckpointHandlerType> HandlerTypeOf(std::string_view typestr);
// The args that were registered first, for saves and for restores, with one
// kind of handler.
struct RegisteredArgs {
  CheckpointArgsType save;
  CheckpointArgsType restore;
};
// Returns the args for handlers with this TypeStr. InvalidArgument "Unable to
// find registered `CheckpointArgs` for save for X."
Result<RegisteredArgs> RegisteredArgsOf(std::string_view typestr);

// Maps an item and the type of its args to the handler that serves it.
class CheckpointHandlerRegistry {
 public:
  // Without an item, the key matches any item that has no entry of its own.
  using Key = std::pair<std::optional<std::string>, std::type_index>;
  using Entries =
      std::vector<std::pair<Key, std::shared_ptr<CheckpointHandler>>>;

  // Adds an entry. If the handler is null, makes the globally registered
  // handler for the args. AlreadyExists "Entry for item=I and args_type=T
  // already exists in the registry."; InvalidArgument "Provided a `None`
  // `CheckpointHandler` when registering item=I and args_type=T. ..."
  Status Add(std::optional<std::string> item, std::type_index args,
             std::shared_ptr<CheckpointHandler> handler = nullptr);
  // Returns the entry's handler. NotFound "No entry for item=I and args_ty=T in
  // the registry."
  Result<std::shared_ptr<CheckpointHandler>> Get(
      const std::optional<std::string>& item, std::type_index args) const;
  bool Has(const std::optional<std::string>& item, std::type_index args) const;
  // Returns the entries in the order in which they were added.
  const Entries& entries() const { return entries_; }

 private:
  Entries entries_;
};

// Makes a registry that has each handler under its item's name, for the args
// that are registered for its TypeStr.
Result<CheckpointHandlerRegistry> CreateDefaultHandlerRegistry(
    const std::map<std::string, std::shared_ptr<CheckpointHandler>>& items);

}  // namespace holdfast
