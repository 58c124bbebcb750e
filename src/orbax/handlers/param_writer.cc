#include "orbax/handlers/param_writer.h"

#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "engine/commit/layout.h"
#include "engine/format/directory_names.h"
#include "engine/restore/array_index.h"
#include "engine/save/item_writer.h"
#include "engine/save/save_options.h"
#include "ground/base/no_throw.h"
#include "ground/base/status_macros.h"
#include "holdfast/orbax/spec.h"
#include "orbax/handlers/param_reader.h"
#include "orbax/handlers/small_files.h"
#include "stores/place/place.h"

namespace holdfast {
namespace {

// Parameters with the same place and format are written together.
using WriteWay =
    std::tuple<std::string, bool, bool, bool, std::optional<int64_t>>;

WriteWay WriteWayOf(const ParamInfo& info) {
  return {info.parent_dir, info.is_ocdbt_checkpoint, info.use_zarr3,
          info.use_compression, info.ocdbt_target_data_file_size};
}

Status CheckValue(const Tree& value, const ParamInfo& info) {
  if (value.is_leaf() && (value.leaf_kind() == LeafKind::kArray ||
                          value.leaf_kind() == LeafKind::kScalar)) {
    return Status();
  }
  return InvalidArgumentError("param " + info.name + ": a leaf of type \"" +
                              LeafType::OfLeaf(value).name +
                              "\" is neither an array nor a number");
}

Result<bool> HasDatabase(Store& store, const ProcessDirectory& process) {
  const Status found = store
                           .Stat(ProcessDirectoryName(process) + "/" +
                                 std::string(kManifestFile))
                           .status();
  if (found.ok()) return true;
  if (found.code() == StatusCode::kNotFound) return false;
  return found;
}

SaveOptions SaveOptionsOf(const ParamInfo& way, const Place& place,
                          std::map<std::string, SaveArgs> args) {
  SaveOptions options;
  options.zarr_format = way.use_zarr3 ? 3 : 2;
  options.use_ocdbt = way.is_ocdbt_checkpoint;
  options.compression =
      way.use_compression ? Compression::kZstd : Compression::kNone;
  options.chunk_bytes = 0;
  options.ocdbt_target_data_file_bytes =
      way.ocdbt_target_data_file_size.value_or(DefaultDataFileBytes(place));
  options.write_digests = false;
  options.save_args = std::move(args);
  return options;
}

// Removes the metadata of arrays that arrays of the other zarr format replace.
Status RemoveOtherMetadata(const SavePlan& plan, Store& store) {
  for (const PlannedArray& array : plan.arrays) {
    HF_RETURN_IF_ERROR(
        store.Delete(ArrayPrefix(array.name) +
                     (plan.zarr_format == 3 ? ".zarray" : "zarr.json")));
  }
  return Status();
}

std::vector<std::string> NamesOf(const SavePlan& plan) {
  std::vector<std::string> names;
  for (const PlannedArray& array : plan.arrays) names.push_back(array.name);
  return names;
}

// Writes the values of parameters with the same place and format. Returns their
// plan.
Result<SavePlan> WriteTree(const Tree& tree, const ParamInfo& way,
                           std::map<std::string, SaveArgs> args,
                           const ParamWriteOptions& options) {
  const Stopwatch begun;
  const Place place = Place(way.parent_dir).Absolute();
  const std::shared_ptr<Store> store = place.OpenStore();
  SaveOptions save_options = SaveOptionsOf(way, place, std::move(args));
  ProcessDirectory process{"0", options.is_replica};
  bool has_database = false;
  if (save_options.use_ocdbt) {
    process.id = *GetProcessIndexForSubdir(true, options.ocdbt_process_id);
    HF_RETURN_IF_ERROR(OcdbtProcessSpec::Make(process.id).status());
    HF_ASSIGN_OR_RETURN(has_database, HasDatabase(*store, process));
  }
  // The sink for another generation keeps all values in memory until the end,
  // so there is no limit.
  if (has_database) save_options.run.memory_bytes = 0;
  const PlanPart part{options.is_partial, options.is_primary};
  HF_ASSIGN_OR_RETURN(SavePlan plan, MakeSavePlan(tree, save_options, part));
  plan.metadata_key = options.metadata_key.value_or("");
  HF_RETURN_IF_ERROR(DropDigests(*store));
  if (!save_options.use_ocdbt) {
    HF_RETURN_IF_ERROR(RemoveOtherMetadata(plan, *store));
  }
  FileWriter files(*store, place, save_options.sync, /*may_replace=*/true);
  ValueSinkOptions sink = SinkOptionsOf(plan, files);
  sink.process = std::move(process);
  sink.must_merge = false;
  if (has_database) sink.replaced = NamesOf(plan);
  SaveCall call(plan, begun);
  HF_RETURN_IF_ERROR(WriteValues(sink, files, call));
  HF_RETURN_IF_ERROR(files.SyncNames());
  return plan;
}

std::vector<WrittenParam> WrittenOf(const SavePlan& plan) {
  std::vector<WrittenParam> written;
  for (const PlannedArray& array : plan.arrays) {
    written.push_back({array.name, array.layout->write_shape,
                       array.layout->array->format.metadata.chunk_shape});
  }
  return written;
}

}  // namespace

Result<std::vector<WrittenParam>> WriteParams(
    const Tree& params, const ParamInfo& info,
    const std::map<std::string, SaveArgs>& args,
    const ParamWriteOptions& options) {
  return CatchBadAlloc([&]() -> Result<std::vector<WrittenParam>> {
    HF_RETURN_IF_ERROR(CheckParamDirectory(info));
    HF_ASSIGN_OR_RETURN(const SavePlan plan,
                        WriteTree(params, info, args, options));
    return WrittenOf(plan);
  });
}

Result<std::vector<WrittenParam>> WriteParams(
    std::span<const Tree* const> values, std::span<const ParamInfo> infos,
    std::span<const SaveArgs> args, const ParamWriteOptions& options) {
  std::map<WriteWay, std::vector<size_t>> ways;
  for (size_t i = 0; i < infos.size(); ++i) {
    HF_RETURN_IF_ERROR(CheckValue(*values[i], infos[i]));
    HF_RETURN_IF_ERROR(CheckParamDirectory(infos[i]));
    ways[WriteWayOf(infos[i])].push_back(i);
  }
  std::vector<WrittenParam> written(infos.size());
  for (const auto& [way, indexes] : ways) {
    Tree tree = Tree::Dict();
    std::map<std::string, SaveArgs> args_by_name;
    std::map<std::string, size_t> index_by_name;
    for (const size_t i : indexes) {
      tree.Add(infos[i].name, *values[i]);
      if (!args.empty()) args_by_name[infos[i].name] = args[i];
      index_by_name[infos[i].name] = i;
    }
    HF_ASSIGN_OR_RETURN(const SavePlan plan,
                        WriteTree(tree, infos[indexes.front()],
                                  std::move(args_by_name), options));
    for (WrittenParam& param : WrittenOf(plan)) {
      written[index_by_name[param.name]] = std::move(param);
    }
  }
  return written;
}

}  // namespace holdfast
