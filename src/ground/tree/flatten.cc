#include "ground/tree/flatten.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>

#include "ground/base/status_macros.h"
#include "ground/base/utf8.h"
#include "ground/tree/rebuild.h"
#include "ground/tree/value_type.h"

namespace holdfast {
namespace {

std::string_view LeafValueType(const Tree& leaf) {
  switch (leaf.leaf_kind()) {
    case LeafKind::kArray:
      return leaf.array_kind() == ArrayKind::kJax ? kValueTypeJaxArray
                                                  : kValueTypeNumpy;
    case LeafKind::kScalar:
    case LeafKind::kBytes:  // Orbax's scalar handler saves bytes
      return kValueTypeScalar;
    case LeafKind::kString:
      return kValueTypeString;
    case LeafKind::kNone:
      return kValueTypeNone;
    case LeafKind::kPlaceholder:
      return kValueTypePlaceholder;
    case LeafKind::kExternal:
      return leaf.text();
    case LeafKind::kReference:
    case LeafKind::kObject:
      break;
  }
  return kValueTypeUnknown;
}

}  // namespace

std::string_view ValueTypeOf(const Tree& node, const FlattenOptions& options) {
  const bool is_rich = options.support_rich_types && !node.is_other_class();
  switch (node.kind()) {
    case NodeKind::kDict:
      return kValueTypeDict;
    case NodeKind::kList:
      return kValueTypeList;
    case NodeKind::kTuple:
      return kValueTypeTuple;
    case NodeKind::kNamedTuple:
      return is_rich ? kValueTypeNamedTuple : kValueTypeNone;
    case NodeKind::kLeaf:
      break;
  }
  return LeafValueType(node);
}

std::optional<Tree> EmptyOfValueType(std::string_view value_type,
                                     const FlattenOptions& options) {
  if (value_type == kValueTypeNone) return Tree::None();
  if (value_type == kValueTypeDict) return Tree::Dict();
  if (value_type == kValueTypeList) return Tree::List();
  if (value_type == kValueTypeTuple) return Tree::Tuple();
  if (value_type != kValueTypeNamedTuple) return std::nullopt;
  // The named tuple's original name is not stored.
  if (!options.support_rich_types) return Tree::None();
  return Tree::NamedTuple("orbax.checkpoint._src.metadata.empty_values",
                          "OrbaxEmptyNamedTuple");
}

namespace {

// Returns whether the text becomes part of a JSON file, which is UTF-8.
bool IsJsonText(const Tree& node) {
  return node.is_leaf() && (node.leaf_kind() == LeafKind::kString ||
                            node.leaf_kind() == LeafKind::kExternal);
}

class Flattener {
 public:
  Flattener(const FlattenOptions& options, std::vector<FlatLeaf>& leaves)
      : options_(options), leaves_(leaves) {}

  Status Visit(const Tree& node) {
    if (node.size() == 0) return AddLeaf(node);
    if (path_.size() >= kTreeDepthMax) {
      return InvalidArgumentError("flatten: tree is too deep (got more than " +
                                  std::to_string(kTreeDepthMax) + " levels)");
    }
    return node.is_sequence() ? VisitSequence(node) : VisitMapping(node);
  }

 private:
  Status AddLeaf(const Tree& node) {
    if (IsJsonText(node) && !IsValidUtf8(node.text())) {
      return InvalidArgumentError("flatten: " + KeyPathRepr(path_) +
                                  ": string is not valid UTF-8");
    }
    leaves_.push_back({path_, &node, ValueTypeOf(node, options_)});
    return Status();
  }

  Status VisitSequence(const Tree& node) {
    for (size_t i = 0; i < node.size(); ++i) {
      HF_RETURN_IF_ERROR(VisitChild(node, i));
    }
    return Status();
  }

  Status VisitMapping(const Tree& node) {
    // Sorting UTF-8 bytes sorts by code point.
    for (const size_t i : SortedChildren(node)) {
      if (!IsValidUtf8(node.keys()[i])) {
        return InvalidArgumentError("flatten: key in " + KeyPathRepr(path_) +
                                    " is not valid UTF-8");
      }
      HF_RETURN_IF_ERROR(VisitChild(node, i));
    }
    return CheckUnique(node);
  }

  Status CheckUnique(const Tree& node) const {
    std::vector<std::string_view> keys(node.keys().begin(), node.keys().end());
    std::sort(keys.begin(), keys.end());
    const auto twin = std::adjacent_find(keys.begin(), keys.end());
    if (twin == keys.end()) return Status();
    KeyPath path = path_;
    path.push_back({std::string(*twin)});
    return InvalidArgumentError("flatten: duplicate key " + KeyPathRepr(path));
  }

  Status VisitChild(const Tree& node, size_t i) {
    path_.push_back(ElementOf(node, i));
    Status status = Visit(node.children()[i]);
    path_.pop_back();
    return status;
  }

  const FlattenOptions& options_;
  std::vector<FlatLeaf>& leaves_;
  KeyPath path_;
};

bool StoresValue(const FlatLeaf& leaf) {
  return !IsEmptyValueType(leaf.value_type) &&
         leaf.value_type != kValueTypePlaceholder;
}

// Returns true only for "3" and 3, not "03", so that each index has one
// spelling.
bool IsIndex(const std::string& key, size_t index) {
  return key == std::to_string(index);
}

class Unflattener {
 public:
  explicit Unflattener(std::vector<UnflattenEntry>& entries)
      : entries_(entries) {}

  // Builds the node that entries [begin, end) share at `depth`. They are
  // sorted, and no entry is a prefix of another.
  Result<Tree> Build(size_t begin, size_t end, size_t depth) {
    const KeyPath& first = entries_[begin].path;
    if (first.size() == depth) return std::move(entries_[begin].leaf);
    Tree node = IsIndexAt(first, depth) ? Tree::List() : Tree::Dict();
    while (begin < end) {
      const KeyElement& element = entries_[begin].path[depth];
      HF_RETURN_IF_ERROR(CheckElement(node, begin, depth));
      const size_t next = EndOfRun(begin, end, depth);
      HF_ASSIGN_OR_RETURN(Tree child, Build(begin, next, depth + 1));
      if (node.is_sequence()) {
        node.Append(std::move(child));
      } else {
        node.Add(element.key, std::move(child), element.kind);
      }
      begin = next;
    }
    HF_RETURN_IF_ERROR(CheckNames(node, first, depth));
    return node;
  }

 private:
  static bool IsIndexAt(const KeyPath& path, size_t depth) {
    return path[depth].kind == KeyKind::kIndex;
  }

  // Integers come before names, so that 1 and "1" are not neighbors.
  static Status CheckNames(const Tree& node, const KeyPath& path,
                           size_t depth) {
    if (node.size() < 2 || node.key_kind(0) == node.key_kind(node.size() - 1)) {
      return Status();
    }
    std::vector<std::string_view> keys(node.keys().begin(), node.keys().end());
    std::sort(keys.begin(), keys.end());
    const auto twin = std::adjacent_find(keys.begin(), keys.end());
    if (twin == keys.end()) return Status();
    KeyPath twins(path.begin(), path.begin() + depth);
    twins.push_back({std::string(*twin)});
    return DataLossError("unflatten: " + KeyPathRepr(twins) +
                         " is an integer here and a name in another path");
  }

  Status CheckElement(const Tree& node, size_t entry, size_t depth) const {
    const KeyPath& path = entries_[entry].path;
    if (IsIndexAt(path, depth) != node.is_sequence()) {
      return DataLossError("unflatten: " + KeyPathRepr(path) + ": element " +
                           std::to_string(depth) +
                           " is a dict key here and a sequence index in "
                           "another path");
    }
    if (node.is_sequence() && !IsIndex(path[depth].key, node.size())) {
      return DataLossError("unflatten: " + KeyPathRepr(path) +
                           ": gap in a sequence (got index '" +
                           path[depth].key + "', want " +
                           std::to_string(node.size()) + ")");
    }
    return Status();
  }

  size_t EndOfRun(size_t begin, size_t end, size_t depth) const {
    const KeyElement& element = entries_[begin].path[depth];
    size_t next = begin + 1;
    while (next < end && entries_[next].path[depth] == element) ++next;
    return next;
  }

  std::vector<UnflattenEntry>& entries_;
};

// Compares exactly, kinds included: equal keys of different kinds are a
// contradiction, which Build reports.
bool IsExactPrefix(const KeyPath& prefix, const KeyPath& path) {
  return prefix.size() <= path.size() &&
         std::equal(prefix.begin(), prefix.end(), path.begin());
}

Status DropPrefixes(std::vector<UnflattenEntry>& entries) {
  size_t kept = 0;
  for (size_t i = 0; i < entries.size(); ++i) {
    const KeyPath& path = entries[i].path;
    if (i + 1 < entries.size() && IsExactPrefix(path, entries[i + 1].path)) {
      if (path.size() < entries[i + 1].path.size()) continue;
      return DataLossError("unflatten: two entries at " + KeyPathRepr(path));
    }
    if (kept != i) entries[kept] = std::move(entries[i]);
    ++kept;
  }
  entries.resize(kept);
  return Status();
}

}  // namespace

Result<std::vector<FlatLeaf>> Flatten(const Tree& tree,
                                      const FlattenOptions& options) {
  std::vector<FlatLeaf> leaves;
  HF_RETURN_IF_ERROR(Flattener(options, leaves).Visit(tree));
  return leaves;
}

Status CheckParamNames(const std::vector<FlatLeaf>& leaves) {
  std::unordered_map<std::string, const FlatLeaf*> by_name;
  by_name.reserve(leaves.size());
  for (const FlatLeaf& leaf : leaves) {
    if (!StoresValue(leaf)) continue;
    auto [twin, is_new] = by_name.emplace(ParamName(leaf.path), &leaf);
    if (is_new) continue;
    return InvalidArgumentError(
        "parameter name '" + twin->first + "' names two leaves: " +
        KeyPathRepr(twin->second->path) + " and " + KeyPathRepr(leaf.path));
  }
  return Status();
}

Result<Tree> Unflatten(std::vector<UnflattenEntry> entries) {
  if (entries.empty()) {
    return DataLossError(
        "unflatten: no entries: the tree could be an empty dict or list");
  }
  for (const UnflattenEntry& entry : entries) {
    if (entry.path.size() <= kTreeDepthMax) continue;
    return DataLossError("unflatten: path is too deep (got " +
                         std::to_string(entry.path.size()) + " levels, want " +
                         std::to_string(kTreeDepthMax) + " at most)");
  }
  const auto less = [](const UnflattenEntry& a, const UnflattenEntry& b) {
    return KeyPathLess(a.path, b.path);
  };
  // Stored entries are sorted already, except sequences of more than ten items
  // ("10" comes before "2").
  if (!std::is_sorted(entries.begin(), entries.end(), less)) {
    std::sort(entries.begin(), entries.end(), less);
  }
  HF_RETURN_IF_ERROR(DropPrefixes(entries));
  return Unflattener(entries).Build(0, entries.size(), 0);
}

}  // namespace holdfast
