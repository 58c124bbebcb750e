#include "orbax/pytree/legacy_restore.h"

#include <any>
#include <memory>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/format/directory_names.h"
#include "ground/base/status_macros.h"
#include "ground/tree/flatten.h"
#include "ground/tree/rebuild.h"
#include "ground/tree/value_type.h"
#include "holdfast/tree_utils.h"
#include "orbax/pytree/base_restore.h"
#include "orbax/pytree/leaf_reader.h"
#include "orbax/pytree/leaf_value.h"
#include "orbax/pytree/legacy_structure.h"
#include "orbax/pytree/messages.h"
#include "stores/place/directory_ops.h"

namespace holdfast {
namespace {

// A leaf of the structure, and the request to read it.
struct LegacyLeaf {
  const Tree* leaf = nullptr;
  LeafRequest request;
};

// Returns the leaves in JAX's order. Empty containers and None stay as they
// are.
Result<std::vector<LegacyLeaf>> LeavesOf(const Tree& structure,
                                         const ParamInfo& common) {
  HF_ASSIGN_OR_RETURN(const std::vector<FlatLeaf> flat, Flatten(structure));
  std::vector<LegacyLeaf> leaves;
  for (const FlatLeaf& one : flat) {
    LegacyLeaf& leaf = leaves.emplace_back();
    leaf.leaf = one.leaf;
    leaf.request.path = one.path;
    leaf.request.info = common;
    leaf.request.info.name = ParamName(one.path);
    leaf.request.info.keypath = PathOf(one.path);
    const ValueMetadataEntry* entry = EntryOfLeaf(*one.leaf);
    leaf.request.info.skip_deserialize =
        entry == nullptr || entry->skip_deserialize;
    if (entry == nullptr) continue;
    leaf.request.entry = *entry;
    leaf.request.info.value_typestr = entry->value_type;
    leaf.request.info.write_shape = entry->write_shape;
  }
  return leaves;
}

// Sets the arguments, which have the names of the leaves in the result.
Status SetArgsByName(const std::optional<RestoreArgsMap>& args,
                     std::vector<LegacyLeaf>& leaves) {
  if (!args) return Status();
  std::set<std::string> names;
  for (LegacyLeaf& leaf : leaves) {
    const std::string name = ParamName(leaf.request.path);
    const auto given = args->find(name);
    if (given != args->end()) leaf.request.args = given->second;
    names.insert(name);
  }
  return CheckArgNames(*args, names);
}

// Chooses the leaves that the transforms need. The other leaves are not read.
Status SetArgsByTransforms(const PyTreeRestoreArgs& args,
                           std::vector<LegacyLeaf>& leaves) {
  std::vector<TreePath> stored;
  for (const LegacyLeaf& leaf : leaves) {
    stored.push_back(leaf.request.info.keypath);
  }
  HF_ASSIGN_OR_RETURN(
      const TransformPlan plan,
      PlanTransforms(stored, args.item ? &*args.item : nullptr,
                     *args.transforms,
                     args.restore_args ? &*args.restore_args : nullptr,
                     args.transforms_default_to_original));
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (plan.args[i]) {
      leaves[i].request.args = *plan.args[i];
    } else {
      leaves[i].request.info.skip_deserialize = true;
    }
  }
  return Status();
}

Tree InfoTree(const Tree& structure, const std::vector<LegacyLeaf>& leaves) {
  std::unordered_map<const Tree*, Tree> infos;
  for (const LegacyLeaf& leaf : leaves) {
    const bool is_value = leaf.leaf->is_leaf() && !leaf.leaf->is_none();
    if (is_value) infos[leaf.leaf] = Tree::Object(leaf.request.info);
  }
  return RebuildWith(structure, infos);
}

// Returns the leaves of the structure that the caller's function returned.
Result<std::vector<LegacyLeaf>> LeavesOfTransformed(const Tree& structure,
                                                    const Tree& param_infos,
                                                    const ParamInfo& common) {
  HF_ASSIGN_OR_RETURN(std::vector<LegacyLeaf> leaves,
                      LeavesOf(structure, common));
  HF_ASSIGN_OR_RETURN(const FlatDict infos,
                      ToFlatDict(param_infos, /*keep_empty_nodes=*/true));
  bool is_same = infos.size() == leaves.size();
  for (size_t i = 0; is_same && i < leaves.size(); ++i) {
    is_same = infos[i].first == leaves[i].request.info.keypath;
  }
  if (!is_same) {
    return InvalidArgumentError(
        "legacy_transform_fn: structure and param_infos must be trees of one "
        "structure");
  }
  for (size_t i = 0; i < leaves.size(); ++i) {
    const Tree& leaf = infos[i].second;
    if (!leaf.is_leaf() || leaf.leaf_kind() != LeafKind::kObject) continue;
    const auto* info = std::any_cast<ParamInfo>(&leaf.object());
    if (info == nullptr) {
      return InvalidArgumentError("legacy_transform_fn: the leaf of " +
                                  KeyPathRepr(leaves[i].request.path) +
                                  " in param_infos is not a ParamInfo");
    }
    leaves[i].request.info = *info;
  }
  return leaves;
}

// Sets the types that are unknown without `_METADATA`, according to the
// arguments.
void SetDefaultTypes(std::vector<LegacyLeaf>& leaves) {
  for (LegacyLeaf& leaf : leaves) {
    std::string& type = leaf.request.entry.value_type;
    if (type != kValueTypeUnknown) continue;
    type = AsArrayRestoreArgs(leaf.request.args) != nullptr ? kValueTypeJaxArray
                                                            : kValueTypeNumpy;
  }
}

Result<Tree> ReadTree(const ReadContext& context, const Tree& structure,
                      const std::vector<LegacyLeaf>& leaves) {
  std::vector<LeafRequest> requests;
  for (const LegacyLeaf& leaf : leaves) {
    if (!leaf.request.info.skip_deserialize) requests.push_back(leaf.request);
  }
  HF_ASSIGN_OR_RETURN(std::vector<Tree> read, ReadLeaves(context, requests));
  std::unordered_map<const Tree*, Tree> values;
  size_t next = 0;
  for (const LegacyLeaf& leaf : leaves) {
    Tree& value = values[leaf.leaf];
    if (!leaf.request.info.skip_deserialize) {
      value = std::move(read[next++]);
    } else if (EntryOfLeaf(*leaf.leaf) != nullptr) {
      value = Tree::Placeholder();  // the value is not used
    } else {
      HF_ASSIGN_OR_RETURN(value, ConvertValue(*leaf.leaf, leaf.request.args));
    }
  }
  return RebuildWith(structure, values);
}

// A restore, step by step.
class LegacyRestore {
 public:
  LegacyRestore(const PyTreeSettings& settings, const std::string& directory,
                const PyTreeRestoreArgs& args)
      : settings_(settings),
        directory_(directory),
        args_(args),
        item_(args.item ? &*args.item : nullptr) {}

  Result<Tree> Restore() {
    HF_RETURN_IF_ERROR(Open());
    HF_RETURN_IF_ERROR(PlanLeaves());
    if (args_.legacy_transform_fn) HF_RETURN_IF_ERROR(CallLegacyFn());
    SetDefaultTypes(leaves_);
    HF_ASSIGN_OR_RETURN(
        Tree restored,
        ReadTree(MakeReadContext(settings_, directory_, source_.get()),
                 structure_, leaves_));
    if (args_.legacy_transform_fn || item_ == nullptr) return restored;
    if (!args_.transforms) return DeserializeTree(restored, *item_);
    return TransformRestored(*item_, restored, restore_args(),
                             *args_.transforms,
                             args_.transforms_default_to_original);
  }

 private:
  const RestoreArgsMap* restore_args() const {
    return args_.restore_args ? &*args_.restore_args : nullptr;
  }

  Status Open() {
    HF_ASSIGN_OR_RETURN(
        const PathKind kind,
        GetPathKind(Place(directory_ + "/" + std::string(kTreeMetadataFile))));
    const bool has_metadata = kind != PathKind::kMissing;
    Result<std::unique_ptr<ItemSource>> source =
        ItemSource::Open(directory_, MissingChunks::kFill);
    // Without `_METADATA`, all values may be in the msgpack file, so there may
    // be no arrays to open.
    if (!source.ok() && has_metadata) return source.status();
    if (source.ok()) source_ = std::move(source).value();
    HF_ASSIGN_OR_RETURN(
        structure_,
        LegacyStructure(settings_, directory_,
                        has_metadata ? source_.get() : nullptr, item_));
    HF_ASSIGN_OR_RETURN(
        common_, CommonRestoreInfo(settings_, directory_, source_.get()));
    common_.raise_array_data_missing_error = false;
    return Status();
  }

  Status PlanLeaves() {
    HF_ASSIGN_OR_RETURN(leaves_, LeavesOf(structure_, common_));
    if (!args_.transforms) {
      if (args_.legacy_transform_fn) return Status();
      return SetArgsByName(args_.restore_args, leaves_);
    }
    HF_RETURN_IF_ERROR(SetArgsByTransforms(args_, leaves_));
    if (!args_.legacy_transform_fn) return Status();
    return InvalidArgumentError(
        "Cannot provide both `transforms` and `legacy_transform_fn`.");
  }

  Status CallLegacyFn() {
    HF_ASSIGN_OR_RETURN(LegacyTransformed transformed,
                        args_.legacy_transform_fn(
                            item_, structure_, InfoTree(structure_, leaves_)));
    structure_ = std::move(transformed.structure);
    HF_ASSIGN_OR_RETURN(
        leaves_,
        LeavesOfTransformed(structure_, transformed.param_infos, common_));
    return SetArgsByName(args_.restore_args, leaves_);
  }

  const PyTreeSettings& settings_;
  const std::string& directory_;
  const PyTreeRestoreArgs& args_;
  const Tree* const item_;
  std::unique_ptr<ItemSource> source_;
  Tree structure_;
  ParamInfo common_;
  std::vector<LegacyLeaf> leaves_;  // of structure_
};

}  // namespace

Result<Tree> RestoreLegacy(const PyTreeSettings& settings,
                           const std::string& directory,
                           const PyTreeRestoreArgs& args) {
  return LegacyRestore(settings, directory, args).Restore();
}

}  // namespace holdfast
