#include "orbax/pytree/read_metadata.h"

#include <map>
#include <utility>

#include "engine/format/directory_names.h"
#include "ground/base/status_macros.h"
#include "ground/tree/flatten.h"
#include "ground/tree/rebuild.h"
#include "ground/tree/value_type.h"
#include "orbax/pytree/base_restore.h"
#include "orbax/pytree/handler_groups.h"
#include "orbax/pytree/item_source.h"
#include "orbax/pytree/messages.h"
#include "stores/place/directory_ops.h"

namespace holdfast {
namespace {

// Describes leaves. Parses each distinct sharding once.
class Describer {
 public:
  Describer(const TypeHandlerRegistry& registry, const std::string& directory,
            std::vector<ValueMetadata>& values)
      : registry_(registry), directory_(directory), values_(values) {}

  // Describes a leaf, except that DescribeBatches describes the leaves of
  // user-defined handlers.
  Status Describe(const LeafInfo& leaf, const ParamInfo& common) {
    if (leaf.skip_deserialize || IsEmptyValueType(leaf.value_type)) {
      values_.push_back(EmptyMetadata{leaf.name, leaf.value_type});
      return Status();
    }
    HF_ASSIGN_OR_RETURN(const auto handler, HandlerOf(leaf.value_type));
    if (IsStandardHandler(*handler)) return DescribeStandard(leaf);
    Batch& batch = batches_[handler.get()];
    batch.handler = handler;
    batch.indices.push_back(values_.size());
    ParamInfo& info = batch.infos.emplace_back(common);
    info.name = leaf.name;
    info.keypath = leaf.key;
    info.value_typestr = leaf.value_type;
    info.write_shape = leaf.write_shape;
    values_.push_back(CustomMetadata{leaf.name, directory_, leaf.value_type});
    return Status();
  }

  Status DescribeBatches() {
    for (auto& [unused, batch] : batches_) {
      HF_ASSIGN_OR_RETURN(std::vector<ValueMetadata> described,
                          batch.handler->Metadata(batch.infos));
      if (described.size() != batch.indices.size()) {
        return InternalError("TypeHandler " + batch.handler->typestr() +
                             " described " + std::to_string(described.size()) +
                             " of " + std::to_string(batch.indices.size()) +
                             " leaves");
      }
      for (size_t i = 0; i < described.size(); ++i) {
        values_[batch.indices[i]] = std::move(described[i]);
      }
    }
    return Status();
  }

 private:
  struct Batch {
    std::shared_ptr<TypeHandler> handler;
    std::vector<size_t> indices;  // in values_
    std::vector<ParamInfo> infos;
  };

  Result<std::shared_ptr<TypeHandler>> HandlerOf(const std::string& typestr) {
    auto& handler = handlers_[typestr];
    if (handler == nullptr) {
      HF_ASSIGN_OR_RETURN(handler, registry_.Get(std::string_view(typestr)));
    }
    return handler;
  }

  Status DescribeStandard(const LeafInfo& leaf) {
    if (leaf.value_type == kValueTypeString) {
      values_.push_back(StringMetadata{leaf.name, directory_});
      return Status();
    }
    if (leaf.value_type == kValueTypePlaceholder) {
      return UnimplementedError("Placeholders do not have metadata.");
    }
    HF_RETURN_IF_ERROR(leaf.problem);
    if (leaf.value_type == kValueTypeScalar) {
      values_.push_back(
          ScalarMetadata{leaf.name, directory_, *leaf.dtype, StorageOf(leaf)});
      return Status();
    }
    ArrayMetadata array{leaf.name,   directory_, leaf.shape,
                        *leaf.dtype, {},         StorageOf(leaf)};
    if (leaf.value_type == kValueTypeJaxArray && !leaf.sharding_json.empty()) {
      HF_ASSIGN_OR_RETURN(array.sharding, ShardingOf(leaf.sharding_json));
    }
    values_.push_back(std::move(array));
    return Status();
  }

  static StorageMetadata StorageOf(const LeafInfo& leaf) {
    return {leaf.chunk_shape, leaf.write_shape};
  }

  Result<Sharding> ShardingOf(const std::string& json) {
    const auto known = shardings_.find(json);
    if (known != shardings_.end()) return known->second;
    HF_ASSIGN_OR_RETURN(Sharding sharding, ShardingFromJson(json));
    return shardings_.emplace(json, std::move(sharding)).first->second;
  }

  const TypeHandlerRegistry& registry_;
  const std::string& directory_;
  std::vector<ValueMetadata>& values_;
  std::map<std::string, std::shared_ptr<TypeHandler>> handlers_;
  std::map<std::string, Sharding> shardings_;
  std::map<const TypeHandler*, Batch> batches_;
};

// Returns the recorded tree. Empty values are themselves in it.
Result<Tree> StructureOf(const PyTreeSettings& settings,
                         const ItemSource& source) {
  const Checkpoint& checkpoint = source.checkpoint();
  HF_ASSIGN_OR_RETURN(const Tree plain, EntryTree(checkpoint));
  HF_ASSIGN_OR_RETURN(const Tree entries,
                      StoredStructure(settings, source, plain));
  Tree structure =
      MapLeaves(entries, [&](const KeyPath&, const Tree& entry) -> Tree {
        if (!entry.is_leaf() || entry.leaf_kind() != LeafKind::kScalar) {
          return entry;
        }
        const LeafInfo& leaf =
            checkpoint.leaves()[entry.scalar().As<int64_t>()];
        if (!IsEmptyValueType(leaf.value_type)) return entry;
        return EmptyOfType(leaf.value_type).value();
      });
  return structure;
}

}  // namespace

const ValueMetadata* PyTreeMetadata::Find(
    const std::vector<std::string>& path) const {
  const Tree* leaf = structure.FindPath(path);
  if (leaf == nullptr || !leaf->is_leaf() ||
      leaf->leaf_kind() != LeafKind::kScalar) {
    return nullptr;
  }
  return &values[leaf->scalar().As<int64_t>()];
}

Result<PyTreeMetadata> ReadPyTreeMetadata(const PyTreeSettings& settings,
                                          const std::string& directory) {
  HF_ASSIGN_OR_RETURN(
      const PathKind kind,
      GetPathKind(Place(directory + "/" + std::string(kTreeMetadataFile))));
  if (kind == PathKind::kMissing) {
    return NotFoundError("Metadata file (named " +
                         std::string(kTreeMetadataFile) +
                         ") does not exist at " + directory + ".");
  }
  HF_ASSIGN_OR_RETURN(const auto source,
                      ItemSource::Open(directory, MissingChunks::kAsRecorded));
  const Checkpoint& checkpoint = source->checkpoint();
  PyTreeMetadata metadata;
  HF_ASSIGN_OR_RETURN(metadata.structure, StructureOf(settings, *source));
  metadata.custom_metadata = checkpoint.info().item_custom_metadata;
  metadata.use_zarr3 = checkpoint.info().use_zarr3;
  metadata.use_ocdbt = checkpoint.info().use_ocdbt;
  HF_ASSIGN_OR_RETURN(const ParamInfo common,
                      CommonRestoreInfo(settings, directory, source.get()));
  Describer describer(*settings.options.type_handler_registry, directory,
                      metadata.values);
  for (const LeafInfo& leaf : checkpoint.leaves()) {
    HF_RETURN_IF_ERROR(describer.Describe(leaf, common));
  }
  HF_RETURN_IF_ERROR(describer.DescribeBatches());
  return metadata;
}

}  // namespace holdfast
