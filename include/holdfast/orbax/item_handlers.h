// The handlers for Orbax's item types, and the arguments that each accepts.
// Type strings, files and error messages are Orbax's. All handlers are
// registered globally.
//
//   auto handler = MakeJsonHandler();
//   handler->Save(directory, JsonSave(Tree::Dict({{"epoch", 3}})));
//   auto json = handler->Restore(directory, nullptr);
//
// Trees of JSON values are dicts, lists (tuples are written as lists), strings,
// Python numbers, bools and None.
//
// Thread-safety, ownership: as in checkpoint_handler.h.
// Units: bytes.
// Errors: as in checkpoint_handler.h; InvalidArgument for args of another type.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "holdfast/export.h"
#include "holdfast/orbax/checkpoint_handler.h"
#include "holdfast/orbax/pytree_checkpoint_handler.h"
#include "holdfast/restore_args.h"
#include "holdfast/tree.h"

namespace holdfast HOLDFAST_EXPORT {

// PyTreeCheckpointHandler (pytree_checkpoint_handler.h) as an item.
struct PyTreeSave : CheckpointArgs {
  PyTreeSave() = default;
  explicit PyTreeSave(PyTreeSaveArgs a) : args(std::move(a)) {}
  explicit PyTreeSave(Tree item) { args.item = std::move(item); }
  PyTreeSaveArgs args;
};
struct PyTreeRestore : CheckpointArgs {
  PyTreeRestore() = default;
  explicit PyTreeRestore(PyTreeRestoreArgs a) : args(std::move(a)) {}
  PyTreeRestoreArgs args;
};
// InvalidArgument as in PyTreeCheckpointHandler::Make.
Result<std::shared_ptr<CheckpointHandler>> MakePyTreeHandler(
    PyTreeCheckpointHandlerOptions options = {});

// A pytree with only arrays and scalars, restored into the shapes, dtypes and
// shardings of the leaves of `item`.
struct StandardSave : CheckpointArgs {
  StandardSave() = default;
  explicit StandardSave(Tree i) : item(std::move(i)) {}
  Tree item;
  // By parameter name, as in PyTreeSaveArgs.
  std::map<std::string, SaveArgs> save_args;
  std::string custom_metadata;  // a JSON object for `_METADATA`, or empty
};
struct StandardRestore : CheckpointArgs {
  StandardRestore() = default;
  explicit StandardRestore(Tree i) : item(std::move(i)) {}
  std::optional<Tree> item;  // absent: restore the item as it was saved
  // If false, arrays are padded or truncated to the shapes of `item`.
  bool strict = true;
};
Result<std::shared_ptr<CheckpointHandler>> MakeStandardHandler(
    PyTreeCheckpointHandlerOptions options = {});

// One JSON document, in a file in the directory.
struct JsonSave : CheckpointArgs {
  JsonSave() = default;
  explicit JsonSave(Tree i) : item(std::move(i)) {}
  Tree item;
};
struct JsonRestore : CheckpointArgs {};
struct JsonHandlerOptions {
  std::string filename = "metadata";
  MultiprocessingOptions multiprocessing_options;
};
std::shared_ptr<CheckpointHandler> MakeJsonHandler(
    JsonHandlerOptions options = {});
// Returns the text that Python's json.dumps writes. InvalidArgument for a leaf
// that JSON cannot represent.
Result<std::string> JsonTextOf(const Tree& value);
// Parses JSON text. DataLoss for text that is not JSON.
Result<Tree> TreeOfJsonText(std::string_view text);

// One array or scalar.
struct ArraySave : CheckpointArgs {
  ArraySave() = default;
  explicit ArraySave(Tree i) : item(std::move(i)) {}
  Tree item;
  std::optional<SaveArgs> save_args;
};
struct ArrayRestore : CheckpointArgs {
  std::optional<AnyRestoreArgs> restore_args;
};
struct ArrayHandlerOptions {
  std::string checkpoint_name = "checkpoint";
  MultiprocessingOptions multiprocessing_options;
};
Result<std::shared_ptr<CheckpointHandler>> MakeArrayHandler(
    ArrayHandlerOptions options = {});

// A protocol buffer, which the caller has converted to text. It is restored as
// a string leaf.
struct ProtoSave : CheckpointArgs {
  ProtoSave() = default;
  explicit ProtoSave(std::string t) : text(std::move(t)) {}
  std::string text;
};
struct ProtoRestore : CheckpointArgs {};
struct ProtoHandlerOptions {
  std::string filename = "proto.pbtxt";
  MultiprocessingOptions multiprocessing_options;
};
std::shared_ptr<CheckpointHandler> MakeProtoHandler(
    ProtoHandlerOptions options = {});

// A JAX random key: a jax array, typed (ArrayTraits::prng_impl) or not. A typed
// key is restored with the default implementation, as in Orbax.
struct JaxRandomKeySave : CheckpointArgs {
  JaxRandomKeySave() = default;
  explicit JaxRandomKeySave(Tree i) : item(std::move(i)) {}
  Tree item;
  std::optional<SaveArgs> save_args;
};
struct JaxRandomKeyRestore : CheckpointArgs {
  std::optional<AnyRestoreArgs> restore_args;
};
// numpy.random's state: a dict, or the legacy tuple.
struct NumpyRandomKeySave : CheckpointArgs {
  NumpyRandomKeySave() = default;
  explicit NumpyRandomKeySave(Tree i) : item(std::move(i)) {}
  Tree item;
};
struct NumpyRandomKeyRestore : CheckpointArgs {};
struct RandomKeyHandlerOptions {
  std::string key_name;  // empty: "jax_random_key", "np_random_key"
  MultiprocessingOptions multiprocessing_options;
};
Result<std::shared_ptr<CheckpointHandler>> MakeJaxRandomKeyHandler(
    RandomKeyHandlerOptions options = {});
Result<std::shared_ptr<CheckpointHandler>> MakeNumpyRandomKeyHandler(
    RandomKeyHandlerOptions options = {});

}  // namespace holdfast
