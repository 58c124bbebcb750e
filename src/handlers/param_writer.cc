#include "handlers/param_writer.h"

#include <limits>
#include <map>
#include <memory>
#include <tuple>
#include <utility>

#include "base/status_macros.h"
#include "checkpoint/commit/layout.h"
#include "checkpoint/format/directory_names.h"
#include "checkpoint/restore/array_index.h"
#include "checkpoint/save/encode.h"
#include "checkpoint/save/item_writer.h"
#include "checkpoint/save/process_sink.h"
#include "checkpoint/save/save_plan.h"
#include "handlers/small_files.h"
#include "holdfast/orbax/spec.h"
#include "place/open_store.h"

namespace holdfast {
namespace {

// Parameters that go to one place in one way are written together.
using WriteWay = std::tuple<std::string, bool, bool, bool, int64_t>;

WriteWay WriteWayOf(const ParamInfo& info) {
  return {info.parent_dir, info.is_ocdbt_checkpoint, info.use_zarr3,
          info.use_compression,
          info.ocdbt_target_data_file_size.value_or(
              DefaultDataFileBytes(info.parent_dir))};
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

Status CheckDirectory(const ParamInfo& info) {
  if (info.parent_dir.empty()) {
    return InvalidArgumentError("parent_dir cannot be None");
  }
  if (!info.is_ocdbt_checkpoint || IsAbsoluteOrUrl(info.parent_dir)) {
    return Status();
  }
  return InvalidArgumentError("Checkpoint path should be absolute. Got " +
                              info.parent_dir);
}

class Writer {
 public:
  Writer(const ParamInfo& way, const ParamWriteOptions& options)
      : way_(way),
        options_(options),
        files_(StoreAt(AbsolutePath(way.parent_dir))),
        store_(*files_) {}

  Status Write(const Tree& tree, std::map<std::string, SaveArgs> args) {
    SaveOptions save_options = MakeSaveOptions();
    save_options.save_args = std::move(args);
    save_options = WithSources(std::move(save_options));
    HF_ASSIGN_OR_RETURN(plan_, MakeSavePlan(tree, save_options));
    plan_.metadata_key = options_.metadata_key.value_or("");
    HF_RETURN_IF_ERROR(DropDigests(store_));
    HF_ASSIGN_OR_RETURN(const std::unique_ptr<ValueSink> sink,
                        MakeSink(save_options));
    Run run(save_options.run);
    Stats stats;
    HF_RETURN_IF_ERROR(EncodeValues(plan_, *sink, run, stats));
    DigestFile unused;
    HF_RETURN_IF_ERROR(sink->Finish(unused));
    HF_RETURN_IF_ERROR(store_.SyncNames());
    return Status();
  }

  const SavePlan& plan() const { return plan_; }

 private:
  SaveOptions MakeSaveOptions() const {
    SaveOptions options;
    options.zarr_format = way_.use_zarr3 ? 3 : 2;
    options.use_ocdbt = way_.is_ocdbt_checkpoint;
    if (!way_.use_compression) options.compression = Compression::kNone;
    options.chunk_bytes_target = 0;
    options.ocdbt_target_data_file_bytes =
        way_.ocdbt_target_data_file_size.value_or(
            DefaultDataFileBytes(way_.parent_dir));
    return options;
  }

  Result<std::unique_ptr<ValueSink>> MakeSink(SaveOptions& options) {
    ValueSinkOptions sink_options;
    sink_options.value_count = plan_.value_count;
    // SyncNames waits for what is queued.
    sink_options.sync = !IsUrl(way_.parent_dir);
    sink_options.write_digests = false;
    sink_options.target_data_file_bytes = options.ocdbt_target_data_file_bytes;
    sink_options.commit_time_ns = options.now_ns();
    sink_options.random_hex = options.random_hex;
    if (!way_.is_ocdbt_checkpoint) {
      HF_RETURN_IF_ERROR(RemoveOtherMetadata());
      return MakeDirectorySink(&store_, sink_options);
    }
    const std::string id =
        *GetProcessIndexForSubdir(true, options_.ocdbt_process_id);
    HF_ASSIGN_OR_RETURN(const OcdbtProcessSpec process,
                        OcdbtProcessSpec::Make(id));
    const std::string directory = process.ToString() + "/";
    if (store_.Stat(directory + std::string(kManifestFile)).ok()) {
      // The sink of a further generation holds everything until its end.
      options.run.in_flight_bytes_max = std::numeric_limits<int64_t>::max();
    }
    std::vector<std::string> names;
    for (const PlannedArray& array : plan_.arrays) names.push_back(array.name);
    return MakeProcessSink(&store_, directory, std::move(names), sink_options);
  }

  // Of an array that is replaced by one of the other zarr format.
  Status RemoveOtherMetadata() {
    for (const PlannedArray& array : plan_.arrays) {
      HF_RETURN_IF_ERROR(
          store_.Delete(ArrayPrefix(array.name) +
                        (way_.use_zarr3 ? ".zarray" : "zarr.json")));
    }
    return Status();
  }

  const ParamInfo& way_;
  const ParamWriteOptions& options_;
  const std::shared_ptr<Store> files_;
  Store& store_;
  SavePlan plan_;
};

}  // namespace

Result<std::vector<WrittenParam>> WriteParams(
    std::span<const Tree* const> values, std::span<const ParamInfo> infos,
    std::span<const SaveArgs> args, const ParamWriteOptions& options) {
  std::map<WriteWay, std::vector<size_t>> ways;
  for (size_t i = 0; i < infos.size(); ++i) {
    HF_RETURN_IF_ERROR(CheckValue(*values[i], infos[i]));
    HF_RETURN_IF_ERROR(CheckDirectory(infos[i]));
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
    Writer writer(infos[indexes.front()], options);
    HF_RETURN_IF_ERROR(writer.Write(tree, std::move(args_by_name)));
    for (const PlannedArray& array : writer.plan().arrays) {
      written[index_by_name[array.name]] = {
          array.layout->write_shape,
          array.layout->array->format.metadata.chunk_shape};
    }
  }
  return written;
}

}  // namespace holdfast
