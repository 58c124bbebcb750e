#include "engine/format/checkpoint_metadata.h"

#include <array>
#include <limits>

#include "engine/format/directory_names.h"
#include "ground/base/status_macros.h"
#include "ground/json/scanner.h"
#include "ground/json/text.h"

namespace holdfast {
namespace {

using nlohmann::ordered_json;

constexpr std::array<std::pair<std::string_view, ItemType>, 12> kTypestrs = {{
    {kPyTreeHandlerTypestr, ItemType::kPyTree},
    {kStandardHandlerTypestr, ItemType::kStandard},
    {kJsonHandlerTypestr, ItemType::kJson},
    {kArrayHandlerTypestr, ItemType::kArray},
    {kProtoHandlerTypestr, ItemType::kProto},
    {kJaxRandomKeyHandlerTypestr, ItemType::kJaxRandomKey},
    {kNumpyRandomKeyHandlerTypestr, ItemType::kNumpyRandomKey},
    {kV1PyTreeHandlerTypestr, ItemType::kPyTree},
    {kV1JsonHandlerTypestr, ItemType::kJson},
    {kV1MetricsHandlerTypestr, ItemType::kJson},
    {kV1ProtoHandlerTypestr, ItemType::kProto},
    {kV1StatefulHandlerTypestr, ItemType::kStateful},
}};

ordered_json TimestampJson(const std::optional<int64_t>& timestamp) {
  return timestamp ? ordered_json(*timestamp) : ordered_json(nullptr);
}

ordered_json HandlersJson(const ItemHandlers& handlers) {
  if (const auto* typestr = std::get_if<std::string>(&handlers)) {
    return *typestr;
  }
  const auto* composite = std::get_if<CompositeHandlers>(&handlers);
  if (composite == nullptr) return nullptr;
  ordered_json items = ordered_json::object();
  for (const auto& [name, typestr] : *composite) {
    items[name] = typestr ? ordered_json(*typestr) : ordered_json(nullptr);
  }
  return items;
}

ordered_json FloatsOnly(const ordered_json& metrics) {
  ordered_json floats = ordered_json::object();
  for (const auto& [name, value] : metrics.items()) {
    if (value.is_number_float()) floats[name] = value;
  }
  return floats;
}

Status WrongType(std::string_view member, std::string_view want,
                 const ordered_json& got) {
  return DataLossError(std::string(member) + ": wrong type (got " +
                       got.type_name() + ", want " + std::string(want) + ")");
}

// Removes and returns the member as an object; an empty one if it is absent or
// null.
Result<ordered_json> TakeObject(ordered_json& document,
                                std::string_view member) {
  const auto found = document.find(member);
  if (found == document.end() || found->is_null()) {
    return ordered_json::object();
  }
  if (!found->is_object()) return WrongType(member, "an object", *found);
  return std::move(*found);
}

Result<std::optional<int64_t>> TakeTimestamp(const ordered_json& document,
                                             std::string_view member) {
  const auto found = document.find(member);
  if (found == document.end() || found->is_null()) {
    return std::optional<int64_t>();
  }
  const bool fits =
      found->is_number_integer() &&
      (!found->is_number_unsigned() ||
       found->get<uint64_t>() <=
           static_cast<uint64_t>(std::numeric_limits<int64_t>::max()));
  if (!fits) return WrongType(member, "a 64-bit integer", *found);
  return std::optional<int64_t>(found->get<int64_t>());
}

// Moves the members that are not in `known` into `custom`.
template <size_t kCount>
Status FoldUnknown(ordered_json& document,
                   const std::array<std::string_view, kCount>& known,
                   ordered_json& custom) {
  const bool has_custom = !custom.empty();
  for (auto& [key, value] : document.items()) {
    bool is_known = false;
    for (std::string_view name : known) is_known |= key == name;
    if (is_known) continue;
    if (has_custom) {
      return DataLossError("unknown member '" + key +
                           "', and custom_metadata has members of its own");
    }
    custom[key] = std::move(value);
  }
  return Status();
}

Result<ordered_json> ParseObject(std::string_view text) {
  HF_ASSIGN_OR_RETURN(ordered_json document, ParseJsonText(text));
  if (!document.is_object()) {
    return DataLossError(std::string("wrong type (got ") +
                         document.type_name() + ", want an object)");
  }
  return document;
}

Result<CheckpointMetadata> ParseCheckpoint(std::string_view text) {
  HF_ASSIGN_OR_RETURN(ordered_json document, ParseObject(text));
  CheckpointMetadata metadata;
  if (const auto found = document.find("item_handlers");
      found != document.end()) {
    HF_ASSIGN_OR_RETURN(metadata.item_handlers, ItemHandlersOf(*found));
  }
  HF_ASSIGN_OR_RETURN(metadata.metrics, TakeObject(document, "metrics"));
  HF_ASSIGN_OR_RETURN(ordered_json performance,
                      TakeObject(document, "performance_metrics"));
  metadata.performance_metrics = FloatsOnly(performance);
  HF_ASSIGN_OR_RETURN(metadata.init_timestamp_nsecs,
                      TakeTimestamp(document, "init_timestamp_nsecs"));
  HF_ASSIGN_OR_RETURN(metadata.commit_timestamp_nsecs,
                      TakeTimestamp(document, "commit_timestamp_nsecs"));
  HF_ASSIGN_OR_RETURN(metadata.custom_metadata,
                      TakeObject(document, "custom_metadata"));
  constexpr std::array<std::string_view, 6> kKnown = {
      "item_handlers",          "metrics",
      "performance_metrics",    "init_timestamp_nsecs",
      "commit_timestamp_nsecs", "custom_metadata"};
  HF_RETURN_IF_ERROR(FoldUnknown(document, kKnown, metadata.custom_metadata));
  return metadata;
}

Result<RootMetadata> ParseRoot(std::string_view text) {
  HF_ASSIGN_OR_RETURN(ordered_json document, ParseObject(text));
  RootMetadata metadata;
  HF_ASSIGN_OR_RETURN(metadata.internal_metadata,
                      TakeObject(document, "internal_metadata"));
  HF_ASSIGN_OR_RETURN(metadata.custom_metadata,
                      TakeObject(document, "custom_metadata"));
  constexpr std::array<std::string_view, 2> kKnown = {"internal_metadata",
                                                      "custom_metadata"};
  HF_RETURN_IF_ERROR(FoldUnknown(document, kKnown, metadata.custom_metadata));
  return metadata;
}

}  // namespace

Result<ItemHandlers> ItemHandlersOf(const ordered_json& json) {
  if (json.is_null()) return ItemHandlers();
  if (json.is_string()) return ItemHandlers(json.get<std::string>());
  if (!json.is_object()) {
    return WrongType("item_handlers", "a string or an object", json);
  }
  CompositeHandlers composite;
  for (const auto& [name, typestr] : json.items()) {
    if (!typestr.is_string() && !typestr.is_null()) {
      return WrongType("item_handlers: " + name, "a string", typestr);
    }
    composite.emplace_back(name, std::nullopt);
    if (typestr.is_string()) {
      composite.back().second = typestr.get<std::string>();
    }
  }
  return ItemHandlers(std::move(composite));
}

ItemType ItemTypeFromTypestr(std::string_view typestr) {
  constexpr std::string_view kV0Prefix = "orbax.checkpoint.v0._src.";
  std::string plain(typestr);
  if (typestr.starts_with(kV0Prefix)) {
    plain = "orbax.checkpoint._src." +
            std::string(typestr.substr(kV0Prefix.size()));
  }
  for (const auto& [name, type] : kTypestrs) {
    if (name == plain) return type;
  }
  return ItemType::kUnknown;
}

std::string SerializeCheckpointMetadata(const CheckpointMetadata& metadata) {
  ordered_json document = ordered_json::object();
  document["item_handlers"] = HandlersJson(metadata.item_handlers);
  document["metrics"] = metadata.metrics;
  document["performance_metrics"] = FloatsOnly(metadata.performance_metrics);
  document["init_timestamp_nsecs"] =
      TimestampJson(metadata.init_timestamp_nsecs);
  document["commit_timestamp_nsecs"] =
      TimestampJson(metadata.commit_timestamp_nsecs);
  document["custom_metadata"] = metadata.custom_metadata;
  return PythonJsonText(document);
}

Result<CheckpointMetadata> ParseCheckpointMetadata(std::string_view text) {
  Result<CheckpointMetadata> metadata = ParseCheckpoint(text);
  if (metadata.ok()) return metadata;
  return metadata.status().WithContext(kCheckpointMetadataFile);
}

std::string SerializeRootMetadata(const RootMetadata& metadata) {
  ordered_json document = ordered_json::object();
  document["internal_metadata"] = metadata.internal_metadata;
  document["custom_metadata"] = metadata.custom_metadata;
  return PythonJsonText(document);
}

Result<RootMetadata> ParseRootMetadata(std::string_view text) {
  Result<RootMetadata> metadata = ParseRoot(text);
  if (metadata.ok()) return metadata;
  return metadata.status().WithContext(kRootMetadataFile);
}

}  // namespace holdfast
