// Builds specs for a ParamInfo, and checks that a parameter's files exist.
#include <cassert>
#include <utility>

#include "ground/base/status_macros.h"
#include "ground/base/text.h"
#include "holdfast/orbax/spec.h"
#include "orbax/tspec/kvstore_tspec.h"
#include "orbax/tspec/spec_json.h"
#include "stores/place/directory_ops.h"

namespace holdfast {
namespace {

using spec::OrderedJson;

Status CheckInfo(const ParamInfo& info) {
  if (!info.name.empty() && !info.parent_dir.empty()) return Status();
  return InvalidArgumentError("Must provide info.name and info.parent_dir.");
}

// Sets the chunks of a write spec by the older rules.
Status SetChunkShapes(const ParamInfo& info, const SaveArgs& arg,
                      const JsonTspecWriteOptions& options,
                      OrderedJson& tspec) {
  HF_ASSIGN_OR_RETURN(const std::string text,
                      BuildTsZarrShardAndChunkMetadata(
                          {.global_shape = options.global_shape,
                           .shard_shape = options.local_shape,
                           .use_zarr3 = info.use_zarr3,
                           .dtype = arg.dtype.value_or(options.dtype),
                           .write_chunk_shape = arg.write_chunk_shape,
                           .read_chunk_shape = arg.read_chunk_shape,
                           .chunk_byte_size = arg.chunk_byte_size}));
  HF_ASSIGN_OR_RETURN(const OrderedJson shapes, spec::ParseObject(text));
  OrderedJson& array = tspec["driver"] == "cast" ? tspec["base"] : tspec;
  OrderedJson& metadata = array["metadata"];
  metadata["chunk_grid"] = shapes["chunk_grid"];
  metadata["codecs"][0]["configuration"]["chunk_shape"] =
      shapes["codecs"][0]["configuration"]["chunk_shape"];
  return Status();
}

}  // namespace

Result<ArrayReadSpec> BuildArrayReadSpec(const ParamInfo& info, bool use_ocdbt,
                                         const JsonTspecReadOptions& options) {
  HF_RETURN_IF_ERROR(CheckInfo(info));
  ArrayReadSpecOptions read;
  read.use_zarr3 = info.use_zarr3;
  read.use_ocdbt = use_ocdbt;
  read.metadata_key = options.metadata_key;
  read.raise_array_data_missing_error = options.raise_array_data_missing_error;
  read.target_dtype = options.target_dtype;
  return ArrayReadSpec::Make(info.parent_dir, info.name, read);
}

Result<std::string> GetJsonTspecRead(const ParamInfo& info, bool use_ocdbt,
                                     const JsonTspecReadOptions& options) {
  HF_ASSIGN_OR_RETURN(const ArrayReadSpec read,
                      BuildArrayReadSpec(info, use_ocdbt, options));
  return read.json();
}

Result<ArrayWriteSpec> BuildArrayWriteSpec(
    const ParamInfo& info, const std::optional<SaveArgs>& arg, bool use_ocdbt,
    const JsonTspecWriteOptions& options) {
  HF_RETURN_IF_ERROR(CheckInfo(info));
  ArrayWriteSpecOptions write;
  write.global_shape = options.global_shape;
  write.write_shape = options.local_shape;
  write.dtype = options.dtype;
  if (arg) {
    write.target_dtype = arg->dtype;
    write.chunk_byte_size = arg->chunk_byte_size;
    write.shard_axes = arg->shard_axes;
  }
  write.use_compression = info.use_compression;
  write.use_zarr3 = info.use_zarr3;
  write.use_ocdbt = use_ocdbt;
  write.ocdbt_target_data_file_size = info.ocdbt_target_data_file_size;
  write.process_id = options.process_index;
  write.metadata_key = options.metadata_key;
  write.replica_separate_folder = options.replica_separate_folder;
  write.ext_metadata = options.ext_metadata;
  return ArrayWriteSpec::Make(info.parent_dir, info.name, write);
}

Result<std::string> GetJsonTspecWrite(const ParamInfo& info, bool use_ocdbt,
                                      const JsonTspecWriteOptions& options,
                                      const std::optional<SaveArgs>& arg) {
  HF_ASSIGN_OR_RETURN(const ArrayWriteSpec write,
                      BuildArrayWriteSpec(info, arg, use_ocdbt, options));
  if (!arg || (!arg->write_chunk_shape && !arg->read_chunk_shape)) {
    return write.json();
  }
  HF_ASSIGN_OR_RETURN(OrderedJson tspec, spec::ParseObject(write.json()));
  HF_RETURN_IF_ERROR(SetChunkShapes(info, *arg, options, tspec));
  return spec::Dump(tspec);
}

Result<std::string> GetShardingTensorstoreSpec(const std::string& directory,
                                               const std::string& param_name) {
  KvstoreTspecOptions options;
  options.name = "_sharding";
  options.use_ocdbt = false;
  OrderedJson tspec = OrderedJson::object();
  tspec["driver"] = "json";
  HF_ASSIGN_OR_RETURN(tspec["kvstore"], spec::KvstoreTspec(directory, options));
  tspec["json_pointer"] = "/" + UrlSafeBase64(param_name);
  return spec::Dump(tspec);
}

Status AssertParameterFilesExist(const std::string& param_dir,
                                 const std::optional<std::string>& metadata_key,
                                 bool use_zarr3) {
  if (!IsThere(Place(param_dir))) {
    return NotFoundError(
        "Individual parameter subdirectory not found at path: " + param_dir +
        ".");
  }
  const std::string key =
      metadata_key.value_or(use_zarr3 ? "zarr.json" : ".zarray");
  const std::string path = spec::JoinPaths(param_dir, key);
  if (IsThere(Place(path))) return Status();
  return NotFoundError("File not found: " + path +
                       ". In many cases, this results from copying a "
                       "checkpoint without using the `-a` flag.");
}

}  // namespace holdfast
