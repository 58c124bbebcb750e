#include "tools/convert/target_layout.h"

#include <map>
#include <nlohmann/json.hpp>
#include <variant>

#include "engine/format/checkpoint_metadata.h"
#include "engine/format/own_documents.h"
#include "ground/base/status_macros.h"

namespace holdfast {
namespace {

constexpr std::string_view kMetricsItem = "metrics";

Result<ItemHandlers> SourceHandlers(const CheckpointInfo& source) {
  if (source.checkpoint_metadata.empty()) return ItemHandlers();
  HF_ASSIGN_OR_RETURN(CheckpointMetadata metadata,
                      ParseCheckpointMetadata(source.checkpoint_metadata));
  return std::move(metadata.item_handlers);
}

// Returns the handler that the source records for the item, or "" without one.
std::string HandlerOf(const ItemHandlers& handlers, const std::string& name) {
  if (const auto* one = std::get_if<std::string>(&handlers)) {
    return name.empty() ? *one : "";
  }
  const auto* composite = std::get_if<CompositeHandlers>(&handlers);
  if (composite == nullptr) return "";
  for (const auto& [item, handler] : *composite) {
    if (item == name) return handler.value_or("");
  }
  return "";
}

bool IsTreeHandler(std::string_view handler) {
  return handler.empty() || handler == kPyTreeHandlerTypestr ||
         handler == kStandardHandlerTypestr ||
         handler == kV1PyTreeHandlerTypestr ||
         handler == kV1StatefulHandlerTypestr;
}

// Returns the handler of a tree in the new checkpoint. A handler that the new
// format has too is kept: Standard stays Standard.
std::string TreeHandler(const std::string& handler, bool is_v1) {
  const bool is_kept =
      handler == (is_v1 ? kV1StatefulHandlerTypestr : kStandardHandlerTypestr);
  if (is_kept) return handler;
  return std::string(is_v1 ? kV1PyTreeHandlerTypestr : kPyTreeHandlerTypestr);
}

std::string JsonHandler(const std::string& name, bool is_v1) {
  if (!is_v1) return std::string(kJsonHandlerTypestr);
  return std::string(name == kMetricsItem ? kV1MetricsHandlerTypestr
                                          : kV1JsonHandlerTypestr);
}

// Returns the file name that the new format's handler looks for.
std::string JsonFile(const SourceItem& item, bool is_v1, bool was_v1) {
  if (is_v1 == was_v1 && !item.json_file.empty()) return item.json_file;
  if (item.name == kMetricsItem) return std::string(kMetricsItem);
  return is_v1 ? "data.json" : "metadata";
}

}  // namespace

Result<TargetLayout> MakeTargetLayout(const CheckpointInfo& source,
                                      const std::vector<SourceItem>& items,
                                      Format format) {
  HF_ASSIGN_OR_RETURN(const ItemHandlers handlers, SourceHandlers(source));
  const bool is_v1 = format == Format::kOrbaxV1;
  const bool was_v1 = source.format == "orbax-v1";
  TargetLayout layout;
  nlohmann::ordered_json composite = nlohmann::ordered_json::object();
  for (const SourceItem& item : items) {
    TargetItem& target = layout.items.emplace_back();
    target.name = item.name;
    // v1 has no item at the root itself, so a tree there goes to "state". In
    // the other direction, a single tree goes to the root.
    if (is_v1 && item.name.empty()) target.name = "state";
    const bool is_one_tree = items.size() == 1 && !item.is_json;
    if (!is_v1 && was_v1 && is_one_tree) target.name.clear();
    const std::string handler = HandlerOf(handlers, item.name);
    std::string new_handler;
    if (item.is_json) {
      target.json_file = JsonFile(item, is_v1, was_v1);
      new_handler = JsonHandler(target.name, is_v1);
    } else {
      if (!item.name.empty() && !IsTreeHandler(handler)) {
        return UnimplementedError("convert: item " + item.name + " of " +
                                  source.path + " is one of " + handler +
                                  ", neither a tree nor JSON; leave it out");
      }
      new_handler = TreeHandler(handler, is_v1);
    }
    if (target.name.empty()) {
      layout.root.item_handlers_json =
          nlohmann::ordered_json(new_handler).dump();
    } else {
      composite[target.name] = new_handler;
    }
  }
  if (!composite.empty()) layout.root.item_handlers_json = composite.dump();
  const SplitMetadata split = SplitOwnDocuments(source.custom_metadata);
  layout.root.custom_metadata = split.users;
  layout.root.documents = split.documents;
  layout.root.is_v1 = is_v1;
  return layout;
}

}  // namespace holdfast
