#include "orbax/handlers/param_reader.h"

#include <cstring>
#include <map>
#include <tuple>
#include <utility>

#include "engine/commit/layout.h"
#include "engine/restore/restore.h"
#include "ground/base/status_macros.h"
#include "holdfast/orbax/spec.h"

namespace holdfast {
namespace {

// Parameters with the same place and format are opened together.
using ReadWay = std::tuple<std::string, bool, bool>;

std::string MetadataKey(const ParamInfo& info,
                        const std::optional<std::string>& metadata_key) {
  return metadata_key.value_or(info.use_zarr3 ? "zarr.json" : ".zarray");
}

Status CheckPlace(const ParamInfo& info,
                  const std::optional<std::string>& metadata_key) {
  HF_RETURN_IF_ERROR(CheckParamDirectory(info));
  if (info.is_ocdbt_checkpoint) return Status();
  return AssertParameterFilesExist(info.path(), metadata_key, info.use_zarr3);
}

// Returns the part of the box that is stored. Its extents are 0 on axes where
// no element is stored.
Box StoredPart(const Box& box, const Shape& stored_shape) {
  Box part = box;
  for (size_t d = 0; d < part.shape.size(); ++d) {
    const int64_t end =
        std::min(part.origin[d] + part.shape[d], stored_shape[d]);
    part.shape[d] = std::max<int64_t>(0, end - part.origin[d]);
  }
  return part;
}

DType DTypeOfRead(const ParamArrays& params, const BoxRead& read) {
  return read.dtype.value_or(*params.leaf(read.param).info.dtype);
}

Status CheckMemory(const ParamArrays& params, std::span<const BoxRead> reads) {
  MemoryNeed need;
  for (const BoxRead& read : reads) {
    uint64_t byte_count = DTypeBytes(DTypeOfRead(params, read));
    if (__builtin_mul_overflow(byte_count, ElementCount(read.box.shape),
                               &byte_count)) {
      byte_count = UINT64_MAX;
    }
    const Status fits = need.Add(byte_count);
    if (fits.ok()) continue;
    return fits.WithContext("param " + params.leaf(read.param).info.name +
                            ": shape " + ShapeToString(read.box.shape));
  }
  return Status();
}

RestoreTarget TargetOf(const ParamArrays& params, const BoxRead& read,
                       const Box& part) {
  RestoreTarget target;
  target.home = &params.item(read.param);
  target.array = params.leaf(read.param).array();
  if (part.shape != params.shape(read.param)) target.origin = part.origin;
  target.view.dtype = DTypeOfRead(params, read);
  target.view.shape = part.shape;
  target.view.strides =
      ContiguousStrides(read.box.shape, DTypeBytes(target.view.dtype));
  return target;
}

}  // namespace

Status CheckParamDirectory(const ParamInfo& info) {
  if (info.parent_dir.empty()) {
    return InvalidArgumentError("parent_dir cannot be None");
  }
  if (!info.is_ocdbt_checkpoint || IsAbsoluteOrUrl(info.parent_dir)) {
    return Status();
  }
  return InvalidArgumentError("Checkpoint path should be absolute. Got " +
                              info.parent_dir);
}

Result<ParamArrays> ParamArrays::Open(
    std::span<const ParamInfo> infos,
    const std::optional<std::string>& metadata_key) {
  std::map<ReadWay, std::vector<size_t>> ways;
  for (size_t i = 0; i < infos.size(); ++i) {
    HF_RETURN_IF_ERROR(CheckPlace(infos[i], metadata_key));
    ways[{AbsolutePath(infos[i].parent_dir), infos[i].is_ocdbt_checkpoint,
          infos[i].raise_array_data_missing_error}]
        .push_back(i);
  }
  ParamArrays params;
  params.params_.resize(infos.size());
  for (const auto& [way, indexes] : ways) {
    const auto& [directory, use_ocdbt, refuse_missing] = way;
    OpenOptions options;
    options.missing_chunks =
        refuse_missing ? MissingChunks::kRefuse : MissingChunks::kFill;
    std::vector<Item::ArrayRequest> requests;
    for (const size_t i : indexes) {
      requests.push_back({infos[i].name, MetadataKey(infos[i], metadata_key)});
    }
    HF_ASSIGN_OR_RETURN(
        std::unique_ptr<Item> item,
        Item::OpenArrays(directory, use_ocdbt, requests, options));
    for (size_t n = 0; n < indexes.size(); ++n) {
      HF_RETURN_IF_ERROR(item->leaves()[n].problem);
      params.params_[indexes[n]] = {item.get(), &item->leaves()[n]};
    }
    params.items_.push_back(std::move(item));
  }
  return params;
}

ParamArrays ParamArrays::Of(std::unique_ptr<Item> item) {
  ParamArrays params;
  for (const StoredLeaf& leaf : item->leaves()) {
    if (leaf.layout == nullptr || !leaf.problem.ok()) continue;
    params.params_.push_back({item.get(), &leaf});
  }
  params.items_.push_back(std::move(item));
  return params;
}

ArrayMetadata ParamArrays::Describe(size_t i, const ParamInfo& info) const {
  ArrayMetadata metadata;
  metadata.name = info.name;
  metadata.directory = info.parent_dir;
  metadata.shape = shape(i);
  metadata.dtype = *leaf(i).info.dtype;
  metadata.storage =
      StorageMetadata{leaf(i).info.chunk_shape, info.write_shape};
  return metadata;
}

Result<std::vector<Array>> ReadBoxes(const ParamArrays& params,
                                     std::span<const BoxRead> reads) {
  std::vector<RestoreTarget> targets;
  std::vector<size_t> reads_of_targets;
  for (size_t i = 0; i < reads.size(); ++i) {
    const Box part = StoredPart(reads[i].box, params.shape(reads[i].param));
    if (ElementCount(part.shape) == 0) continue;
    targets.push_back(TargetOf(params, reads[i], part));
    reads_of_targets.push_back(i);
  }
  Run run({}, RequestsInFlight(targets));
  HF_ASSIGN_OR_RETURN(RestorePlan plan, PlanRestore(std::move(targets), run));
  HF_RETURN_IF_ERROR(CheckMemory(params, reads));
  std::vector<Array> arrays;
  for (const BoxRead& read : reads) {
    HF_ASSIGN_OR_RETURN(Array array, Array::Allocate(DTypeOfRead(params, read),
                                                     read.box.shape));
    const Box part = StoredPart(read.box, params.shape(read.param));
    if (part.shape != read.box.shape) {
      std::memset(array.mutable_view().data, 0, array.byte_count());
    }
    arrays.push_back(std::move(array));
  }
  for (size_t n = 0; n < plan.targets.size(); ++n) {
    plan.targets[n].view.data = arrays[reads_of_targets[n]].mutable_view().data;
  }
  Stats stats;
  HF_RETURN_IF_ERROR(Restore(std::move(plan), run, stats));
  return arrays;
}

int64_t ReadFootprintBytes(const ParamArrays& params, const BoxRead& read) {
  const LeafInfo& info = params.leaf(read.param).info;
  const Box part = StoredPart(read.box, info.shape);
  int64_t byte_count = DTypeBytes(*info.dtype);
  for (size_t d = 0; d < part.shape.size(); ++d) {
    if (part.shape[d] == 0) return 0;
    const int64_t chunk = info.chunk_shape[d];
    const int64_t first = part.origin[d] / chunk;
    const int64_t last = (part.origin[d] + part.shape[d] - 1) / chunk;
    byte_count *= (last - first + 1) * chunk;
  }
  return byte_count;
}

}  // namespace holdfast
