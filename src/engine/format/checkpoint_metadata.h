// `_CHECKPOINT_METADATA`: the description of a checkpoint in its root
// directory.
//
// Source: orbax-checkpoint 0.12.8,
// _src/metadata/step_metadata_serialization.py.
// Thread-safety: pure functions.
// Units: nanoseconds since the Unix epoch.
// Errors: DataLoss for text that is not such a file. (Orbax then behaves as if
// the file did not exist; the caller decides whether to do so.)
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "holdfast/status.h"

namespace holdfast {

// Values of item_handlers: stock Orbax selects its handlers by these names.
inline constexpr std::string_view kPyTreeHandlerTypestr =
    "orbax.checkpoint._src.handlers.pytree_checkpoint_handler."
    "PyTreeCheckpointHandler";
inline constexpr std::string_view kStandardHandlerTypestr =
    "orbax.checkpoint._src.handlers.standard_checkpoint_handler."
    "StandardCheckpointHandler";
inline constexpr std::string_view kJsonHandlerTypestr =
    "orbax.checkpoint._src.handlers.json_checkpoint_handler."
    "JsonCheckpointHandler";
inline constexpr std::string_view kArrayHandlerTypestr =
    "orbax.checkpoint._src.handlers.array_checkpoint_handler."
    "ArrayCheckpointHandler";
inline constexpr std::string_view kProtoHandlerTypestr =
    "orbax.checkpoint._src.handlers.proto_checkpoint_handler."
    "ProtoCheckpointHandler";
inline constexpr std::string_view kJaxRandomKeyHandlerTypestr =
    "orbax.checkpoint._src.handlers.random_key_checkpoint_handler."
    "JaxRandomKeyCheckpointHandler";
inline constexpr std::string_view kNumpyRandomKeyHandlerTypestr =
    "orbax.checkpoint._src.handlers.random_key_checkpoint_handler."
    "NumpyRandomKeyCheckpointHandler";
inline constexpr std::string_view kV1PyTreeHandlerTypestr =
    "orbax.checkpoint.experimental.v1._src.handlers.pytree_handler."
    "PyTreeHandler";
inline constexpr std::string_view kV1JsonHandlerTypestr =
    "orbax.checkpoint.experimental.v1._src.handlers.json_handler.JsonHandler";
inline constexpr std::string_view kV1MetricsHandlerTypestr =
    "orbax.checkpoint.experimental.v1._src.handlers.json_handler."
    "MetricsHandler";
inline constexpr std::string_view kV1ProtoHandlerTypestr =
    "orbax.checkpoint.experimental.v1._src.handlers.proto_handler."
    "ProtoHandler";
inline constexpr std::string_view kV1StatefulHandlerTypestr =
    "orbax.checkpoint.experimental.v1._src.handlers."
    "stateful_checkpointable_handler.StatefulCheckpointableHandler";

// The type of item that a handler reads, whichever of its names is used.
enum class ItemType : uint8_t {
  kUnknown,
  kPyTree,
  kStandard,
  kJson,
  kArray,
  kProto,
  kJaxRandomKey,
  kNumpyRandomKey,
  kStateful,
};
// Returns the type for a handler name. Also accepts the
// `orbax.checkpoint.v0._src.` spelling of the names above.
ItemType ItemTypeFromTypestr(std::string_view typestr);

// Item name and typestr, in file order; nullopt for a null typestr.
using CompositeHandlers =
    std::vector<std::pair<std::string, std::optional<std::string>>>;
// Null, the typestr of a bare item, or one typestr per item.
using ItemHandlers =
    std::variant<std::monostate, std::string, CompositeHandlers>;
// Accepts null, a string, or an object of strings and nulls; DataLoss for
// anything else.
Result<ItemHandlers> ItemHandlersOf(const nlohmann::ordered_json& json);

struct CheckpointMetadata {
  ItemHandlers item_handlers;
  nlohmann::ordered_json metrics = nlohmann::ordered_json::object();
  // Only floats are read and written.
  nlohmann::ordered_json performance_metrics = nlohmann::ordered_json::object();
  std::optional<int64_t> init_timestamp_nsecs;
  std::optional<int64_t> commit_timestamp_nsecs;
  nlohmann::ordered_json custom_metadata = nlohmann::ordered_json::object();
};

// Returns the text byte for byte as Orbax 0.12.8 writes it.
std::string SerializeCheckpointMetadata(const CheckpointMetadata& metadata);

// Parses the file. Adds unknown members to custom_metadata; as in Orbax,
// returns DataLoss if custom_metadata already has members of its own.
Result<CheckpointMetadata> ParseCheckpointMetadata(std::string_view text);

// `metadata/_ROOT_METADATA` of a manager's root.
struct RootMetadata {
  nlohmann::ordered_json internal_metadata = nlohmann::ordered_json::object();
  nlohmann::ordered_json custom_metadata = nlohmann::ordered_json::object();
};

std::string SerializeRootMetadata(const RootMetadata& metadata);
Result<RootMetadata> ParseRootMetadata(std::string_view text);

}  // namespace holdfast
