#include "foreign/megatron/open.h"

#include <algorithm>

#include "engine/checkpoint/stored_extents.h"
#include "engine/restore/array_layout.h"
#include "engine/restore/leaf_request.h"
#include "foreign/megatron/chunk_read.h"
#include "foreign/megatron/files.h"
#include "foreign/megatron/opened.h"
#include "formats/zarr/format/chunk_key.h"
#include "ground/base/no_throw.h"
#include "ground/base/status_macros.h"
#include "ground/base/utf8.h"
#include "ground/run/run.h"
#include "holdfast/megatron/zarr.h"

namespace holdfast::megatron {
namespace {

// The limit is that of Orbax's arrays: sizes in bytes must not overflow, and no
// machine can hold more.
constexpr int64_t kElementCountMax = int64_t{1} << 46;

Status DescribeArray(const ZarrArray::State& array, LeafInfo& info) {
  const zarr::ArrayMetadata& metadata = array.metadata();
  if (ElementCount(metadata.shape) > kElementCountMax) {
    return DataLossError("leaf " + info.name + ": shape " +
                         ShapeToString(metadata.shape) +
                         " is too large for memory");
  }
  info.dtype = metadata.dtype;
  info.shape = metadata.shape;
  info.chunk_shape = metadata.chunk_shape;
  info.codecs = array.layout->codecs_text;
  info.chunk_count = static_cast<uint64_t>(array.grid().ChunkCount());
  info.decoded_bytes = static_cast<uint64_t>(ElementCount(metadata.shape)) *
                       DTypeBytes(metadata.dtype);
  return Status();
}

// Returns the bytes of the chunk files in the array's directory.
Result<uint64_t> StoredBytesOf(const ZarrArray::State& array) {
  uint64_t bytes = 0;
  HF_RETURN_IF_ERROR(array.store->List(
      array.prefix, [&](std::string_view key, const ObjectInfo& info) {
        const std::string_view name = key.substr(array.prefix.size());
        if (zarr::ParseChunkKey(array.metadata(), name)) {
          bytes += info.byte_count;
        }
        return Status();
      }));
  return bytes;
}

class MegatronCheckpoint final : public Checkpoint, public StoredExtents {
 public:
  MegatronCheckpoint(CheckpointInfo info, std::vector<OpenedLeaf> leaves,
                     const Place& place, AbsentChunks absent_chunks)
      : opened_(std::move(leaves)),
        place_(place),
        absent_chunks_(absent_chunks) {
    info_ = std::move(info);
    for (OpenedLeaf& leaf : opened_) infos_.push_back(std::move(leaf.info));
  }

  Result<LeafExtents> ExtentsOf(size_t leaf) const override {
    const ArrayState& array = opened_[leaf].array;
    return ExtentsOfChunks(*array, array->stored());
  }

 protected:
  Result<Stats> DoReadInto(const std::vector<ReadRequest>& requests,
                           const RunOptions& options) const override {
    Stopwatch watch;
    Stats stats;
    uint64_t wanted_bytes = 0;
    for (const ReadRequest& request : requests) {
      wanted_bytes +=
          static_cast<uint64_t>(ElementCount(request.target.shape)) *
          DTypeBytes(*infos_[request.leaf].dtype);
    }
    Run run(options, place_.OpenStore()->requests_in_flight());
    run.StartPhase("read", wanted_bytes);
    PartReader reader(absent_chunks_, info_.path, run);
    for (const ReadRequest& request : requests) {
      HF_RETURN_IF_ERROR(PlainStatus(Add(request, reader)));
    }
    HF_RETURN_IF_ERROR(PlainStatus(reader.Finish(stats).status()));
    stats.total_seconds = watch.Lap();
    return stats;
  }

  Result<std::string> DoReadText(size_t leaf) const override {
    const auto& object = opened_[leaf].object;
    Result<std::string> bytes =
        object ? ReadObject(place_, *object) : ReadCommon(place_);
    return bytes.ok() ? std::move(bytes)
                      : Result<std::string>(PlainStatus(bytes.status()));
  }

 private:
  Status Add(const ReadRequest& request, PartReader& reader) const {
    const StoredPart part = {{request.origin, request.target.shape},
                             request.target};
    return reader.Add(opened_[request.leaf].array.get(), request.leaf, part);
  }

  std::vector<OpenedLeaf> opened_;
  const Place place_;
  AbsentChunks absent_chunks_;
};

// Returns why an array cannot be opened, as a LeafInfo reports it. Megatron
// reports unparsable metadata as a failed precondition, and a LeafInfo as
// damage.
Status ProblemOf(const Status& status) {
  const Status plain = PlainStatus(status);
  return plain.code() == StatusCode::kFailedPrecondition
             ? DataLossError(std::string(plain.message()))
             : plain;
}

// Returns the leaves, sorted by name, with the common state last.
Result<std::vector<OpenedLeaf>> OpenLeaves(const Place& place,
                                           bool stored_sizes) {
  HF_ASSIGN_OR_RETURN(const CheckpointFiles files, ListCheckpoint(place));
  const auto store = place.OpenStore();
  std::vector<OpenedLeaf> leaves(files.arrays.size());
  const int at_once = store->requests_in_flight();
  Executor executor(at_once > 1 ? at_once : 0);
  HF_RETURN_IF_ERROR(
      executor.ParallelFor(leaves.size(), [&](size_t i, int) -> Status {
        OpenedLeaf& leaf = leaves[i];
        leaf.info = NamedLeaf(files.arrays[i], ValueKind::kArray);
        Result<ArrayState> array =
            OpenArray(store, files.arrays[i], LoadMode::kTensorStore);
        if (!array.ok()) {
          leaf.info.problem = ProblemOf(array.status());
          return Status();
        }
        leaf.array = *std::move(array);
        leaf.info.problem = DescribeArray(*leaf.array, leaf.info);
        if (!leaf.info.problem.ok()) return Status();
        if (!stored_sizes) return Status();
        HF_ASSIGN_OR_RETURN(leaf.info.stored_bytes, StoredBytesOf(*leaf.array));
        return Status();
      }));
  for (const auto& [name, object] : files.objects) {
    OpenedLeaf leaf;
    leaf.info = NamedLeaf(name, ValueKind::kObject);
    leaf.object = object;
    leaves.push_back(std::move(leaf));
  }
  std::sort(leaves.begin(), leaves.end(), [](const auto& a, const auto& b) {
    return a.info.name < b.info.name;
  });
  OpenedLeaf common;
  common.info = NamedLeaf(std::string(kCommonLeaf), ValueKind::kObject);
  if (!files.has_common) {
    common.info.problem = DataLossError(
        place.path() + ": there is no common.pt, which every save writes");
  }
  leaves.push_back(std::move(common));
  return leaves;
}

}  // namespace

Status PlainStatus(const Status& status) {
  const std::optional<Error> error = ErrorOf(status);
  return error ? Status(status.code(), error->text) : status;
}

Status CheckIsMegatronZarr(const Place& place, CheckpointingConfig* config) {
  HF_ASSIGN_OR_RETURN(*config, ReadConfig(place, UnknownMembers::kIgnore));
  const ZarrLoadShardedStrategy strategy;
  HF_RETURN_IF_ERROR(
      strategy.CheckBackendCompatibility(config->sharded_backend));
  return strategy.CheckVersionCompatibility(config->sharded_backend_version);
}

Result<std::unique_ptr<Checkpoint>> OpenMegatronZarr(
    const Place& place, const OpenOptions& options) {
  return CatchBadAlloc([&]() -> Result<std::unique_ptr<Checkpoint>> {
    CheckpointingConfig config;
    HF_RETURN_IF_ERROR(PlainStatus(CheckIsMegatronZarr(place, &config)));
    const Place absolute = place.Absolute();
    CheckpointInfo info = OneItemInfo(absolute.path(), "megatron-zarr");
    info.zarr_format = 2;
    Result<std::vector<OpenedLeaf>> leaves =
        OpenLeaves(absolute, options.stored_sizes);
    if (!leaves.ok()) return PlainStatus(leaves.status());
    return std::unique_ptr<Checkpoint>(std::make_unique<MegatronCheckpoint>(
        std::move(info), *std::move(leaves), absolute, options.missing_chunks));
  });
}

}  // namespace holdfast::megatron
