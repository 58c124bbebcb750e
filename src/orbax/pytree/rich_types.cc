#include "orbax/pytree/rich_types.h"

#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "ground/base/status_macros.h"
#include "ground/tree/flatten.h"
#include "holdfast/checkpoint.h"
#include "holdfast/pytree_metadata.h"

namespace holdfast {
namespace {

constexpr std::string_view kLeafClass = "ValueMetadataEntry";

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
      HF_ASSIGN_OR_RETURN(
          Tree child,
          ParseChild({std::to_string(i), KeyKind::kIndex}, items[i]));
      container.Append(std::move(child));
    }
    return container;
  }

  Result<Tree> ParseDict(const nlohmann::json& node) {
    Tree dict = Tree::Dict();
    for (const auto& [key, value] : node.items()) {
      HF_ASSIGN_OR_RETURN(Tree child, ParseChild({key}, value));
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
      HF_ASSIGN_OR_RETURN(Tree child, ParseChild({key}, *value));
      tuple.Add(key, std::move(child));
    }
    return tuple;
  }

  Result<Tree> ParseLeaf(const nlohmann::json& node) {
    const auto data = node.find("data");
    if (data == node.end()) return Malformed("an entry without data");
    HF_RETURN_IF_ERROR(Text(*data, "value_type").status());
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
    return Malformed(std::string("want a string \"") + member + "\"");
  }

  const RichLeafFn& leaf_;
  KeyPath path_;
};

}  // namespace

Result<Tree> ParseRichTree(std::string_view text, const RichLeafFn& leaf) {
  // The members of this JSON type are sorted, so lookups are fast in dicts of
  // any size.
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (json.is_discarded()) return MalformedError({}, "is not JSON");
  return Parser(leaf).Parse(json);
}

Result<Tree> RecordedContainers(const Checkpoint& checkpoint) {
  std::map<std::string_view, size_t> index_of;
  const std::vector<LeafInfo>& leaves = checkpoint.leaves();
  for (size_t i = 0; i < leaves.size(); ++i) index_of[leaves[i].name] = i;
  return ParseRichTree(checkpoint.info().value_metadata_tree,
                       [&](const KeyPath& path) -> Result<Tree> {
                         const auto found = index_of.find(ParamName(path));
                         if (found == index_of.end()) {
                           return MalformedError(path,
                                                 "is not in tree_metadata");
                         }
                         return Tree(static_cast<int64_t>(found->second));
                       });
}

}  // namespace holdfast
