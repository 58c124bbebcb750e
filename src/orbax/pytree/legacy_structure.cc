#include "orbax/pytree/legacy_structure.h"

#include <any>
#include <map>
#include <utility>
#include <vector>

#include "engine/format/aggregate.h"
#include "engine/format/directory_names.h"
#include "ground/base/status_macros.h"
#include "ground/tree/flatten.h"
#include "ground/tree/rebuild.h"
#include "ground/tree/value_type.h"
#include "holdfast/tree_utils.h"
#include "orbax/pytree/messages.h"
#include "stores/place/directory_ops.h"
#include "stores/place/place.h"
#include "stores/storage/read_if_there.h"

namespace holdfast {
namespace {

Tree UnknownEntry() {
  return Tree::Object(ValueMetadataEntry{std::string(kValueTypeUnknown)});
}

bool IsReference(const Tree& leaf) {
  return leaf.is_leaf() && leaf.leaf_kind() == LeafKind::kReference;
}

Tree StructureOfAggregate(const Tree& aggregate) {
  return MapLeaves(aggregate, [](const KeyPath&, const Tree& leaf) {
    return IsReference(leaf) ? UnknownEntry() : leaf;
  });
}

using ValuesByPath = std::map<TreePath, Tree>;

Result<Tree> LeafOfEntry(const LeafInfo& leaf, const ValuesByPath& aggregate) {
  const auto value = aggregate.find(leaf.key);
  if (value != aggregate.end() && !IsReference(value->second)) {
    return value->second;
  }
  if (IsEmptyValueType(leaf.value_type)) return EmptyOfType(leaf.value_type);
  return Tree::Object(EntryOf(leaf));
}

Result<Tree> StructureOfMetadata(const Checkpoint& checkpoint,
                                 const std::optional<Tree>& aggregate) {
  ValuesByPath values;
  if (aggregate) {
    HF_ASSIGN_OR_RETURN(FlatDict flat,
                        ToFlatDict(*aggregate, /*keep_empty_nodes=*/true));
    for (auto& [path, value] : flat) values.emplace(path, std::move(value));
  }
  std::vector<UnflattenEntry> entries;
  for (const LeafInfo& leaf : checkpoint.leaves()) {
    HF_ASSIGN_OR_RETURN(Tree value, LeafOfEntry(leaf, values));
    entries.push_back({PathOf(leaf), std::move(value)});
  }
  if (entries.empty()) return EntryTree(checkpoint).status();
  return Unflatten(std::move(entries));
}

KeyPath PathOfName(const std::string& name) {
  KeyPath path;
  size_t begin = 0;
  for (size_t dot = name.find('.'); dot != std::string::npos;
       dot = name.find('.', begin)) {
    path.push_back({name.substr(begin, dot - begin)});
    begin = dot + 1;
  }
  path.push_back({name.substr(begin)});
  return path;
}

// Returns the structure if each parameter has its own directory; nullopt if no
// parameter has one.
Result<std::optional<Tree>> StructureOfDirectories(
    const std::string& directory) {
  HF_ASSIGN_OR_RETURN(const auto names, ListDirectory(Place(directory)));
  std::vector<UnflattenEntry> entries;
  for (const std::string& name : names) {
    if (name == kArrayMetadatasDirectory) continue;
    HF_ASSIGN_OR_RETURN(const PathKind kind,
                        GetPathKind(Place(directory + "/" + name)));
    if (kind != PathKind::kDirectory) continue;
    entries.push_back({PathOfName(name), UnknownEntry()});
  }
  if (entries.empty()) return std::optional<Tree>();
  HF_ASSIGN_OR_RETURN(Tree tree, Unflatten(std::move(entries)));
  return std::optional<Tree>(std::move(tree));
}

Tree StructureOfItem(const Tree& item) {
  return MapLeaves(item, [](const KeyPath&, const Tree& leaf) {
    return leaf.is_leaf() && !leaf.is_none() ? UnknownEntry() : leaf;
  });
}

}  // namespace

Result<std::optional<Tree>> ReadAggregate(const PyTreeSettings& settings,
                                          const std::string& directory) {
  return ReadIfThere(*Place(directory).OpenStore(), settings.aggregate_file,
                     ParseAggregate);
}

bool HasOnlyReferences(const Tree& aggregate) {
  if (aggregate.is_leaf()) {
    return aggregate.is_none() || IsReference(aggregate);
  }
  for (const Tree& child : aggregate.children()) {
    if (!HasOnlyReferences(child)) return false;
  }
  return true;
}

Result<Tree> LegacyStructure(const PyTreeSettings& settings,
                             const std::string& directory,
                             const ItemSource* source, const Tree* item) {
  HF_ASSIGN_OR_RETURN(const std::optional<Tree> aggregate,
                      ReadAggregate(settings, directory));
  if (source != nullptr) {
    return StructureOfMetadata(source->checkpoint(), aggregate);
  }
  if (aggregate) return StructureOfAggregate(*aggregate);
  if (!settings.options.use_ocdbt) {
    HF_ASSIGN_OR_RETURN(std::optional<Tree> named,
                        StructureOfDirectories(directory));
    if (named) return std::move(*named);
  }
  if (item != nullptr) return StructureOfItem(*item);
  return NotFoundError(
      "No structure could be identified for the checkpoint at " + directory +
      ".");
}

const ValueMetadataEntry* EntryOfLeaf(const Tree& leaf) {
  if (!leaf.is_leaf() || leaf.leaf_kind() != LeafKind::kObject) return nullptr;
  return std::any_cast<ValueMetadataEntry>(&leaf.object());
}

}  // namespace holdfast
