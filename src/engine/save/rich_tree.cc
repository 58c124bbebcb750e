#include "engine/save/rich_tree.h"

#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "ground/json/text.h"

namespace holdfast {
namespace {

using Json = nlohmann::ordered_json;

class RichTreeWriter {
 public:
  RichTreeWriter(const std::vector<FlatLeaf>& leaves,
                 const TreeMetadata& metadata) {
    for (size_t i = 0; i < leaves.size(); ++i) {
      entries_[leaves[i].leaf] = &metadata.entries[i];
    }
  }

  void Write(const Tree& node) {
    if (node.size() == 0) return WriteLeaf(node);
    if (node.is_other_class()) return WriteOtherClass(node);
    switch (node.kind()) {
      case NodeKind::kList:
        return WriteItems(node);
      case NodeKind::kTuple:
        text_ += R"({"category": "custom", "clazz": "tuple", "entries": )";
        WriteItems(node);
        text_ += '}';
        return;
      case NodeKind::kNamedTuple:
        return WriteNamedTuple(node);
      default:
        return WriteDict(node);
    }
  }

  std::string TakeText() { return std::move(text_); }

 private:
  void WriteLeaf(const Tree& node) {
    const TreeMetadataEntry& entry = *entries_.at(&node);
    Json data = {{"value_type", entry.value_type},
                 {"skip_deserialize", entry.skip_deserialize}};
    if (entry.write_shape) data["write_shape"] = *entry.write_shape;
    AppendPythonJson(text_, {{"category", "custom"},
                             {"clazz", "ValueMetadataEntry"},
                             {"data", std::move(data)}});
  }

  void WriteItems(const Tree& node) {
    text_ += '[';
    for (size_t i = 0; i < node.size(); ++i) {
      if (i > 0) text_ += ", ";
      Write(node.children()[i]);
    }
    text_ += ']';
  }

  void WriteNamedTuple(const Tree& node) {
    text_ += R"({"category": "namedtuple", "module": )";
    AppendPythonJsonString(text_, node.type_module());
    text_ += R"(, "clazz": )";
    AppendPythonJsonString(text_, node.type_name());
    text_ += R"(, "entries": [)";
    for (size_t i = 0; i < node.size(); ++i) {
      text_ += i > 0 ? R"(, {"key": )" : R"({"key": )";
      AppendPythonJsonString(text_, node.keys()[i]);
      text_ += R"(, "value": )";
      Write(node.children()[i]);
      text_ += '}';
    }
    text_ += "]}";
  }

  // Writes a dict in the order of its sorted keys, as jax flattens dicts.
  void WriteDict(const Tree& node) {
    std::map<std::string_view, size_t> order;
    for (size_t i = 0; i < node.size(); ++i) order[node.keys()[i]] = i;
    const char* before = "{";
    for (const auto& [key, i] : order) {
      WriteMember(before, key, node.children()[i]);
      before = ", ";
    }
    text_ += '}';
  }

  // Writes any other node as a dict, in its own order, since Orbax has no other
  // form.
  void WriteOtherClass(const Tree& node) {
    for (size_t i = 0; i < node.size(); ++i) {
      WriteMember(i > 0 ? ", " : "{",
                  node.is_sequence() ? std::to_string(i) : node.keys()[i],
                  node.children()[i]);
    }
    text_ += '}';
  }

  void WriteMember(const char* before, std::string_view key,
                   const Tree& value) {
    text_ += before;
    AppendPythonJsonString(text_, key);
    text_ += ": ";
    Write(value);
  }

  std::string text_;
  std::unordered_map<const Tree*, const TreeMetadataEntry*> entries_;
};

}  // namespace

std::string RichTreeJson(const Tree& tree, const std::vector<FlatLeaf>& leaves,
                         const TreeMetadata& metadata) {
  RichTreeWriter writer(leaves, metadata);
  writer.Write(tree);
  return writer.TakeText();
}

}  // namespace holdfast
