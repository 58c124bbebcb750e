#include "pytree/rich_types.h"

#include <map>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>

#include "base/status_macros.h"
#include "checkpoint/format/json_text.h"
#include "tree/value_type.h"

namespace holdfast {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kLeafClass = "ValueMetadataEntry";
constexpr std::string_view kEmptyNamedTupleModule =
    "orbax.checkpoint._src.metadata.empty_values";
constexpr std::string_view kEmptyNamedTupleName = "OrbaxEmptyNamedTuple";

class Writer {
 public:
  explicit Writer(const SavePlan& plan) {
    for (const FlatLeaf& leaf : plan.leaves) leaves_[leaf.leaf].flat = &leaf;
    for (const PlannedArray& array : plan.arrays) {
      const FlatLeaf& flat = plan.leaves[array.leaf];
      if (flat.value_type != kValueTypeJaxArray) continue;
      leaves_[flat.leaf].write_shape = &array.layout->write_shape;
    }
  }

  void Write(const Tree& node) {
    if (node.size() == 0) return WriteLeaf(node);
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
  struct Leaf {
    const FlatLeaf* flat = nullptr;
    const Shape* write_shape = nullptr;
  };

  void WriteLeaf(const Tree& node) {
    const Leaf& leaf = leaves_.at(&node);
    Json data = {{"value_type", leaf.flat->value_type},
                 {"skip_deserialize", IsEmptyValueType(leaf.flat->value_type)}};
    if (leaf.write_shape != nullptr) data["write_shape"] = *leaf.write_shape;
    AppendPythonJson(text_, {{"category", "custom"},
                             {"clazz", kLeafClass},
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

  // In order of sorted keys, as jax flattens dicts.
  void WriteDict(const Tree& node) {
    std::map<std::string_view, size_t> order;
    for (size_t i = 0; i < node.size(); ++i) order[node.keys()[i]] = i;
    const char* before = "{";
    for (const auto& [key, i] : order) {
      text_ += before;
      AppendPythonJsonString(text_, key);
      text_ += ": ";
      Write(node.children()[i]);
      before = ", ";
    }
    text_ += '}';
  }

  std::string text_;
  std::unordered_map<const Tree*, Leaf> leaves_;
};

Status MalformedError(const KeyPath& path, std::string_view why) {
  return DataLossError("value_metadata_tree: " + KeyPathRepr(path) + ": " +
                       std::string(why));
}

class Parser {
 public:
  explicit Parser(const RichLeafFn& leaf) : leaf_(leaf) {}

  Result<Tree> Parse(const nlohmann::json& node) {
    if (path_.size() > kTreeDepthMax) return Malformed("too deep");
    if (node.is_array()) return ParseItems(node, Tree::List());
    if (!node.is_object()) return Malformed("want an object or a list");
    const auto category = node.find("category");
    if (category == node.end()) return ParseDict(node);
    if (*category == "namedtuple") return ParseNamedTuple(node);
    if (*category != "custom") return ParseDict(node);
    const auto clazz = node.find("clazz");
    if (clazz != node.end() && *clazz == kLeafClass) return ParseLeaf(node);
    const auto entries = node.find("entries");
    const bool is_tuple = clazz != node.end() && *clazz == "tuple" &&
                          entries != node.end() && entries->is_array();
    if (!is_tuple) return Malformed("Unsupported \"custom\" object");
    return ParseItems(*entries, Tree::Tuple());
  }

 private:
  Status Malformed(std::string_view why) const {
    return MalformedError(path_, why);
  }

  Result<Tree> ParseChild(KeyElement element, const nlohmann::json& node) {
    path_.push_back(std::move(element));
    Result<Tree> child = Parse(node);
    path_.pop_back();
    return child;
  }

  Result<Tree> ParseItems(const nlohmann::json& items, Tree container) {
    for (size_t i = 0; i < items.size(); ++i) {
      HF_ASSIGN_OR_RETURN(Tree child,
                          ParseChild({std::to_string(i), true}, items[i]));
      container.Append(std::move(child));
    }
    return container;
  }

  Result<Tree> ParseDict(const nlohmann::json& node) {
    Tree dict = Tree::Dict();
    for (const auto& [key, value] : node.items()) {
      HF_ASSIGN_OR_RETURN(Tree child, ParseChild({key, false}, value));
      dict.Add(key, std::move(child));
    }
    return dict;
  }

  Result<Tree> ParseNamedTuple(const nlohmann::json& node) {
    HF_ASSIGN_OR_RETURN(const std::string module, Text(node, "module"));
    HF_ASSIGN_OR_RETURN(const std::string name, Text(node, "clazz"));
    const auto entries = node.find("entries");
    if (entries == node.end() || !entries->is_array()) {
      return Malformed("a namedtuple without entries");
    }
    Tree tuple = Tree::NamedTuple(module, name);
    for (const nlohmann::json& entry : *entries) {
      HF_ASSIGN_OR_RETURN(const std::string key, Text(entry, "key"));
      const auto value = entry.find("value");
      if (value == entry.end()) return Malformed("an entry without a value");
      HF_ASSIGN_OR_RETURN(Tree child, ParseChild({key, false}, *value));
      tuple.Add(key, std::move(child));
    }
    return tuple;
  }

  Result<Tree> ParseLeaf(const nlohmann::json& node) {
    const auto data = node.find("data");
    if (data == node.end()) return Malformed("an entry without data");
    HF_ASSIGN_OR_RETURN(const std::string type, Text(*data, "value_type"));
    if (type == kValueTypeNone) return Tree::None();
    if (type == kValueTypeDict) return Tree::Dict();
    if (type == kValueTypeList) return Tree::List();
    if (type == kValueTypeTuple) return Tree::Tuple();
    if (type == kValueTypeNamedTuple) {
      return Tree::NamedTuple(std::string(kEmptyNamedTupleModule),
                              std::string(kEmptyNamedTupleName));
    }
    return leaf_(path_);
  }

  Result<std::string> Text(const nlohmann::json& node,
                           const char* member) const {
    if (node.is_object()) {
      const auto found = node.find(member);
      if (found != node.end() && found->is_string()) {
        return found->get<std::string>();
      }
    }
    return Malformed(std::string("want a text \"") + member + "\"");
  }

  const RichLeafFn& leaf_;
  KeyPath path_;
};

}  // namespace

std::string RichTreeJson(const Tree& tree, const SavePlan& plan) {
  Writer writer(plan);
  writer.Write(tree);
  return writer.TakeText();
}

Result<Tree> ParseRichTree(std::string_view text, const RichLeafFn& leaf) {
  // Sorted members, which are found fast in dicts of any width.
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (json.is_discarded()) return MalformedError({}, "is no JSON");
  return Parser(leaf).Parse(json);
}

}  // namespace holdfast
