// CheckpointHandler: how one item of a checkpoint is written into a directory
// and read back, and the registries that find the handler of an item.
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
// (checkpointer.h) makes the whole exist at once. The handlers of Orbax's item
// types are in item_handlers.h, the one for several items in
// composite_handler.h.
//
// Thread-safety: a handler is called by one thread at a time, but not always by
// the same one: an AsyncCheckpointer calls Finalize on a thread of its own, and
// Cancel from any. A CheckpointHandlerRegistry is a value; the global
// registrations may be read from any thread while nobody adds to them.
// Ownership: arguments are borrowed for the call.
// Units: none.
// Errors: the handler's own; those of the registries are Orbax's, in Orbax's
// words: ValueError is InvalidArgument (an entry that exists already is
// AlreadyExists), KeyError and FileNotFoundError are NotFound.
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

// The values to save, or how to restore them. Each item type has structs of its
// own.
struct CheckpointArgs {
  virtual ~CheckpointArgs() = default;
};

class CheckpointHandler {
 public:
  virtual ~CheckpointHandler() = default;

  // The name that `_CHECKPOINT_METADATA` records; stock Orbax picks its class
  // by it.
  virtual std::string TypeStr() const = 0;
  // `directory` is absolute and exists; of several processes each calls it.
  virtual Status Save(const std::string& directory,
                      const CheckpointArgs& args) = 0;
  // Takes what it needs of `args` before it returns, as the caller may change
  // its values then. The futures do the rest. By default calls Save, and gives
  // no futures.
  virtual Result<std::vector<CommitFuture>> AsyncSave(
      const std::string& directory, const CheckpointArgs& args);
  // Null: as it was saved.
  virtual Result<Tree> Restore(const std::string& directory,
                               const CheckpointArgs* args) = 0;
  // The tree that Restore would give, without the values. By default
  // Unimplemented.
  virtual Result<Tree> Metadata(const std::string& directory);
  // Called after all futures, before the directory counts as complete.
  virtual Status Finalize(const std::string& directory);
  // Waits for what AsyncSave began.
  virtual void Close();
  // Asks what AsyncSave began to stop soon: its futures then fail with
  // Cancelled. From any thread; until the next Save or AsyncSave.
  virtual void Cancel();
  // Directories, relative to the item's ("" is itself), in which SaveItem or
  // FinishItem of pending_save.h left items that are synced: the Checkpointer
  // need not sync or read them again. It syncs everything else.
  virtual std::vector<std::string> SyncedItems() const;
};

// A kind of handler, known by its TypeStr.
struct CheckpointHandlerType {
  std::string typestr;
  // Empty: it cannot be made without being told how.
  std::function<std::shared_ptr<CheckpointHandler>()> make;
};

// A struct derived from CheckpointArgs.
struct CheckpointArgsType {
  std::type_index type = typeid(CheckpointArgs);
  // Empty: not default constructible.
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

// Says which kind of handler serves these args wherever no registry says
// otherwise. A later registration of the same args wins, as in Orbax.
// InvalidArgument "`for_save` and `for_restore` cannot both be False.", and for
// a typestr that two kinds of handler claim.
Status RegisterCheckpointArgs(const CheckpointArgsType& args,
                              const CheckpointHandlerType& handler,
                              bool for_save, bool for_restore);
// InvalidArgument "Unable to find registered `CheckpointHandler` for X. Use
// `register_with_handler`."
Result<CheckpointHandlerType> RegisteredHandlerType(std::type_index args);
// Finds it by TypeStr, or by the names that older and newer releases of Orbax
// write. NotFound.
Result<CheckpointHandlerType> HandlerTypeOf(std::string_view typestr);
// The args that were registered first for saves, and for restores, of handlers
// of this TypeStr. InvalidArgument "Unable to find registered `CheckpointArgs`
// for save for X."
struct RegisteredArgs {
  CheckpointArgsType save;
  CheckpointArgsType restore;
};
Result<RegisteredArgs> RegisteredArgsOf(std::string_view typestr);

// Which handler serves an item when it comes with args of a type.
class CheckpointHandlerRegistry {
 public:
  // No item: any item that has no entry of its own.
  using Key = std::pair<std::optional<std::string>, std::type_index>;
  using Entries =
      std::vector<std::pair<Key, std::shared_ptr<CheckpointHandler>>>;

  // A null handler: the globally registered one is made. AlreadyExists "Entry
  // for item=I and args_type=T already exists in the registry.";
  // InvalidArgument "Provided a `None` `CheckpointHandler` when registering
  // item=I and args_type=T. ..."
  Status Add(std::optional<std::string> item, std::type_index args,
             std::shared_ptr<CheckpointHandler> handler = nullptr);
  // NotFound "No entry for item=I and args_ty=T in the registry."
  Result<std::shared_ptr<CheckpointHandler>> Get(
      const std::optional<std::string>& item, std::type_index args) const;
  bool Has(const std::optional<std::string>& item, std::type_index args) const;
  // In the order they were added.
  const Entries& entries() const { return entries_; }

 private:
  Entries entries_;
};

// A registry with each handler entered under its item's name, for the args that
// are registered for its TypeStr.
Result<CheckpointHandlerRegistry> CreateDefaultHandlerRegistry(
    const std::map<std::string, std::shared_ptr<CheckpointHandler>>& items);

}  // namespace holdfast
