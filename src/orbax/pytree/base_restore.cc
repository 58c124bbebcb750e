#include "orbax/pytree/base_restore.h"

#include <set>
#include <unordered_map>
#include <utility>

#include "ground/base/status_macros.h"
#include "ground/tree/flatten.h"
#include "ground/tree/rebuild.h"
#include "holdfast/orbax/type_handlers.h"
#include "orbax/pytree/item_match.h"
#include "orbax/pytree/messages.h"
#include "orbax/pytree/rich_types.h"
#include "stores/storage/url_path.h"

namespace holdfast {
namespace {

struct ShapeAndDType {
  Shape shape;
  DType dtype;
};

// Returns the leaf's shape and dtype if it is an array with dimensions. Orbax
// ignores other values.
std::optional<ShapeAndDType> DescribeTarget(const Tree& leaf) {
  if (!leaf.is_leaf() || leaf.leaf_kind() != LeafKind::kArray) return {};
  if (leaf.array_shape().empty()) return {};
  if (leaf.array_kind() == ArrayKind::kJax &&
      !leaf.array_traits().prng_impl.empty()) {
    return {};
  }
  return ShapeAndDType{leaf.array_shape(), leaf.array_dtype()};
}

// Completes strict array arguments with the shape and dtype of the item's leaf.
void CompleteArgs(const Tree& leaf, AnyRestoreArgs& args) {
  std::visit(
      [&](auto& own) {
        if constexpr (std::is_base_of_v<ArrayRestoreArgs,
                                        std::decay_t<decltype(own)>>) {
          const std::optional<ShapeAndDType> target = DescribeTarget(leaf);
          if (!own.strict || !target) return;
          if (!own.global_shape && !own.shape) own.global_shape = target->shape;
          if (!own.dtype) own.dtype = target->dtype;
        }
      },
      args);
}

class RecordedRestore {
 public:
  RecordedRestore(const ItemSource& source, const ParamInfo& common,
                  const BasePyTreeRestoreArgs& args)
      : source_(source), common_(common), args_(args) {}

  Result<std::vector<LeafRequest>> RequestsOf(
      const std::vector<ItemMatch>& matches) const {
    std::vector<LeafRequest> requests;
    std::set<std::string> names;
    for (const ItemMatch& match : matches) {
      names.insert(ParamName(match.path));
      if (!match.entry) continue;
      requests.push_back(RequestOf(match.path, *match.leaf, *match.entry));
    }
    if (args_.restore_args) {
      HF_RETURN_IF_ERROR(CheckArgNames(*args_.restore_args, names));
    }
    return requests;
  }

 private:
  LeafRequest RequestOf(const KeyPath& path, const Tree& leaf,
                        size_t entry) const {
    LeafRequest request;
    request.path = path;
    request.entry = EntryOf(source_.leaf(entry));
    request.info = common_;
    request.info.name = ParamName(path);
    request.info.keypath = PathOf(path);
    request.info.skip_deserialize = request.entry.skip_deserialize;
    request.info.value_typestr = request.entry.value_type;
    request.info.write_shape = request.entry.write_shape;
    if (!args_.restore_args) return request;
    const auto given = args_.restore_args->find(request.info.name);
    if (given == args_.restore_args->end()) return request;
    request.args = given->second;
    CompleteArgs(leaf, request.args);
    return request;
  }

  const ItemSource& source_;
  const ParamInfo& common_;
  const BasePyTreeRestoreArgs& args_;
};

// Puts the values in the places of the leaves that requested them. The item's
// other leaves stay.
Tree Rebuild(const Tree& item, const std::vector<ItemMatch>& matches,
             std::vector<Tree> values) {
  std::unordered_map<const Tree*, Tree> value_of;
  size_t next = 0;
  for (const ItemMatch& match : matches) {
    if (match.entry) value_of[match.leaf] = std::move(values[next++]);
  }
  return RebuildWith(item, value_of);
}

}  // namespace

Result<Tree> StoredStructure(const PyTreeSettings& settings,
                             const ItemSource& source, const Tree& entries) {
  const std::string& rich = source.checkpoint().info().value_metadata_tree;
  if (!settings.options.pytree_metadata_options.support_rich_types ||
      rich.empty()) {
    return entries;
  }
  HF_ASSIGN_OR_RETURN(const Tree indices,
                      RecordedContainers(source.checkpoint()));
  // An empty named tuple loses its name without rich types.
  return MapLeaves(indices, [&](const KeyPath&, const Tree& index) -> Tree {
    if (!index.is_leaf()) return index;
    const LeafInfo& leaf = source.leaf(index.scalar().As<int64_t>());
    return EmptyOfValueType(leaf.value_type, {.support_rich_types = true})
        .value_or(index);
  });
}

Result<ParamInfo> CommonRestoreInfo(const PyTreeSettings& settings,
                                    const std::string& directory,
                                    const ItemSource* source) {
  ParamInfo info;
  info.parent_dir = directory;
  info.use_zarr3 = settings.options.use_zarr3;
  info.is_ocdbt_checkpoint = IsOcdbtCheckpoint(directory);
  if (source != nullptr) {
    const CheckpointInfo& opened = source->checkpoint().info();
    if (opened.has_tree_metadata) info.use_zarr3 = opened.use_zarr3;
    info.is_ocdbt_checkpoint |= opened.use_ocdbt;
    info.raise_array_data_missing_error =
        opened.store_array_data_equal_to_fill_value;
  }
  if (settings.restore_bytes_max) {
    HF_ASSIGN_OR_RETURN(info.byte_limiter,
                        LimitInFlightBytes::Make(*settings.restore_bytes_max));
  }
  return info;
}

ReadContext MakeReadContext(const PyTreeSettings& settings,
                            const std::string& directory,
                            const ItemSource* source) {
  return {source,
          directory,
          settings.options.type_handler_registry.get(),
          RunWithin(settings.restore_bytes_max),
          nullptr,
          settings.options.multiprocessing_options};
}

Status CheckArgNames(const RestoreArgsMap& args,
                     const std::set<std::string>& names) {
  for (const auto& [name, unused] : args) {
    if (names.contains(name)) continue;
    return InvalidArgumentError("restore_args: no parameter is named \"" +
                                name + "\"");
  }
  return Status();
}

Result<Tree> RestoreRecorded(const PyTreeSettings& settings,
                             const std::string& directory,
                             const BasePyTreeRestoreArgs& args) {
  if (!IsAbsoluteOrUrl(directory)) {
    return InvalidArgumentError(NotAbsoluteText(directory));
  }
  HF_ASSIGN_OR_RETURN(const auto source,
                      ItemSource::Open(directory, MissingChunks::kAsRecorded));
  HF_ASSIGN_OR_RETURN(const Tree entries, EntryTree(source->checkpoint()));
  // Refuses an item that cannot be traversed, or has duplicate names.
  if (args.item) HF_RETURN_IF_ERROR(Flatten(*args.item).status());
  Tree stored = entries;
  if (!args.item) {
    HF_ASSIGN_OR_RETURN(stored, StoredStructure(settings, *source, entries));
  }
  const Tree& item = args.item ? *args.item : stored;
  HF_ASSIGN_OR_RETURN(const std::vector<ItemMatch> matches,
                      MatchItem(item, entries, source->checkpoint(),
                                args.item && args.partial_restore));
  HF_ASSIGN_OR_RETURN(const ParamInfo common,
                      CommonRestoreInfo(settings, directory, source.get()));
  HF_ASSIGN_OR_RETURN(
      const std::vector<LeafRequest> requests,
      RecordedRestore(*source, common, args).RequestsOf(matches));
  HF_ASSIGN_OR_RETURN(
      std::vector<Tree> values,
      ReadLeaves(MakeReadContext(settings, directory, source.get()), requests));
  return Rebuild(item, matches, std::move(values));
}

}  // namespace holdfast
