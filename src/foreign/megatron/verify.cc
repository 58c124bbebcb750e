// Verifies a Megatron zarr checkpoint.
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "engine/checkpoint/verify_share.h"
#include "foreign/megatron/chunk_read.h"
#include "foreign/megatron/files.h"
#include "foreign/megatron/open.h"
#include "foreign/megatron/opened.h"
#include "formats/codec/codec.h"
#include "formats/zarr/format/chunk_key.h"
#include "ground/base/bytes.h"
#include "ground/base/no_throw.h"
#include "ground/base/status_macros.h"
#include "ground/run/run.h"
#include "holdfast/tools/torch_file.h"

namespace holdfast::megatron {
namespace {

// The maximum number of chunks of one array that a report names.
constexpr size_t kNamedChunksMax = 100;
constexpr size_t kStreamBytes = size_t{4} << 20;

// A chunk file of an array.
struct ChunkFile {
  const OpenedLeaf* leaf = nullptr;
  std::string key;
  uint64_t byte_count = 0;
};

class MegatronVerifier {
 public:
  MegatronVerifier(const Place& place, const OpenOptions& options,
                   const RunOptions& run, WorkShare share)
      : place_(place),
        options_(options),
        run_(run, place.OpenStore()->requests_in_flight()),
        share_(std::move(share)) {}

  Result<ShareReport> Verify() {
    CheckpointingConfig config;
    HF_RETURN_IF_ERROR(CheckIsMegatronZarr(place_, &config));
    for (const std::string& name : config.unknown_members) {
      Note("metadata.json has a member \"" + name +
           "\" that is not understood");
    }
    HF_ASSIGN_OR_RETURN(const CheckpointFiles files, ListCheckpoint(place_));
    HF_RETURN_IF_ERROR(NoteNames(files));
    HF_RETURN_IF_ERROR(CheckArrays(files));
    HF_RETURN_IF_ERROR(CheckObjects(files));
    HF_RETURN_IF_ERROR(CheckCommon(files));
    Note(
        "megatron-zarr carries no checksum: values can be wrong without a "
        "trace");
    SortFindings(report_);
    report_.stats.total_seconds = watch_.Lap();
    return ShareReport{std::move(report_), share_.digest()};
  }

 private:
  void Note(std::string text) { report_.notes.push_back(std::move(text)); }

  // If `status` is a finding, records it and returns ok; otherwise returns
  // `status`.
  Status Add(std::string leaf, std::string file, const Status& status) {
    if (status.ok()) return status;
    return AddFinding(
        {std::move(leaf), std::move(file), std::nullopt, PlainStatus(status)},
        report_);
  }

  Status NoteNames(const CheckpointFiles& files) {
    for (const std::string& lock : files.locks) {
      Note("\"" + lock + "\" is a directory of lock files");
    }
    for (const std::string& name : files.bad_names) {
      Note("a directory whose name is not UTF-8 is left out: " + name);
    }
    for (const std::string& name : files.bad_objects) {
      HF_RETURN_IF_ERROR(
          Add("", name + ".pt",
              DataLossError("the file is not named as an object shard is: "
                            "<key>/shard_<offset>_<shape>.pt")));
    }
    return Status();
  }

  Status CheckArrays(const CheckpointFiles& files) {
    const auto store = place_.OpenStore();
    leaves_.resize(files.arrays.size());
    std::vector<ChunkFile> chunks;
    uint64_t bytes = 0;
    for (size_t i = 0; i < leaves_.size(); ++i) {
      OpenedLeaf& leaf = leaves_[i];
      leaf.info.name = files.arrays[i];
      ++report_.leaf_count;
      Result<ArrayState> array =
          OpenArray(store, leaf.info.name, LoadMode::kTensorStore);
      if (!array.ok()) {
        HF_RETURN_IF_ERROR(
            Add(leaf.info.name, leaf.info.name + "/.zarray", array.status()));
        continue;
      }
      leaf.array = *std::move(array);
      HF_RETURN_IF_ERROR(ListChunks(leaf, chunks));
    }
    for (const ChunkFile& chunk : chunks) bytes += chunk.byte_count;
    run_.StartPhase("verify", bytes);
    report_.chunk_count = chunks.size();
    report_.stats.stored_bytes = bytes;
    std::vector<Status> statuses(chunks.size());
    HF_RETURN_IF_ERROR(run_.executor().ParallelFor(
        chunks.size(),
        [&](size_t i, int worker) -> Status {
          statuses[i] = CheckChunk(chunks[i], worker);
          run_.AddDone(chunks[i].byte_count);
          return statuses[i].ok() || IsDamage(statuses[i]) ? Status()
                                                           : statuses[i];
        },
        &run_.cancel()));
    for (size_t i = 0; i < chunks.size(); ++i) {
      HF_RETURN_IF_ERROR(
          Add(chunks[i].leaf->info.name, chunks[i].key, statuses[i]));
    }
    return Status();
  }

  // Every process sees all chunks, and reads its own.

  Status ListChunks(const OpenedLeaf& leaf, std::vector<ChunkFile>& chunks) {
    const ZarrArray::State& array = *leaf.array;
    const std::optional<Shape> required = RequiredChunks(array);
    std::set<Shape> present;
    int64_t optional_count = 0;
    HF_RETURN_IF_ERROR(array.store->List(
        array.prefix, [&](std::string_view key, const ObjectInfo& info) {
          const std::string_view name = key.substr(array.prefix.size());
          const auto index = zarr::ParseChunkKey(array.metadata(), name);
          if (!index) return Status();
          if (share_.Takes(key, info.byte_count)) {
            chunks.push_back({&leaf, std::string(key), info.byte_count});
          }
          if (required && IsBelow(*index, *required)) {
            present.insert(*index);
          } else {
            ++optional_count;
          }
          return Status();
        }));
    const int64_t required_count = required ? ElementCount(*required) : 0;
    const int64_t allowed =
        array.grid().ChunkCount() - required_count - optional_count;
    if (allowed > 0) {
      Note("array " + leaf.info.name + ": " + std::to_string(allowed) +
           " chunks that no rank writes are absent and read as the fill value");
    }
    return required ? NameAbsent(leaf, *required, present) : Status();
  }

  // Returns the number of leading chunks along each axis that must exist;
  // nullopt if none are required.
  std::optional<Shape> RequiredChunks(const ZarrArray::State& array) const {
    Shape counts = array.grid().ChunkCounts();
    if (options_.missing_chunks == MissingChunks::kRefuse) return counts;
    const zarr::ArrayMetadata& metadata = array.metadata();
    if (options_.missing_chunks == MissingChunks::kFill ||
        !metadata.fill_is_null) {
      return std::nullopt;
    }
    // The rule of MayBeAbsent.
    for (size_t i = 0; i < counts.size(); ++i) {
      const int64_t whole = metadata.shape[i] / metadata.chunk_shape[i];
      if (whole > 0) counts[i] = whole;
    }
    return counts;
  }

  static bool IsBelow(const Shape& index, const Shape& counts) {
    return std::equal(index.begin(), index.end(), counts.begin(),
                      std::less<int64_t>());
  }

  // Names chunks that are absent. Examines only as much of the grid as there
  // are files and names to report.
  Status NameAbsent(const OpenedLeaf& leaf, const Shape& required,
                    const std::set<Shape>& present) {
    const ZarrArray::State& array = *leaf.array;
    const ChunkGrid grid = {required, Shape(required.size(), 1)};
    const int64_t chunk_count = grid.ChunkCount();
    int64_t absent = chunk_count - static_cast<int64_t>(present.size());
    size_t named = 0;
    for (int64_t i = 0;
         i < chunk_count && absent > 0 && named < kNamedChunksMax; ++i) {
      const Shape index = grid.ChunkIndex(i);
      if (present.contains(index)) continue;
      --absent;
      ++named;
      HF_RETURN_IF_ERROR(Add(
          leaf.info.name, zarr::ChunkKey(array.prefix, array.metadata(), index),
          DataLossError("the chunk is not there: its elements were never "
                        "written, or are lost")));
    }
    if (absent == 0) return Status();
    return Add(
        leaf.info.name, array.prefix,
        DataLossError(std::to_string(absent) + " more chunks are not there"));
  }

  Status CheckChunk(const ChunkFile& chunk, int worker) {
    const ZarrArray::State& array = *chunk.leaf->array;
    const zarr::ChunkFormat& format = array.layout->format;
    HF_RETURN_IF_ERROR(run_.cancel().Check());
    if (format.is_raw) return StreamChunk(chunk);
    const Box box = BoxOf(format.metadata.chunk_shape);
    HF_RETURN_IF_ERROR(
        zarr::CheckExpansion(chunk.byte_count,
                             static_cast<uint64_t>(ElementCount(box.shape)) *
                                 DTypeBytes(format.metadata.dtype),
                             format.metadata.bytes_codecs.size()));
    const ByteBudget::Lease lease =
        run_.budget().Acquire(static_cast<size_t>(ElementCount(box.shape)) *
                              DTypeBytes(format.metadata.dtype));
    HF_ASSIGN_OR_RETURN(Array elements,
                        Array::Allocate(format.metadata.dtype, box.shape));
    return ChunkError(
        array, chunk.key,
        zarr::ReadChunkBox(*array.store, chunk.key, format, box,
                           elements.mutable_view(), contexts_.Of(worker),
                           &run_.cancel()));
  }

  // Checks the chunk's length, and that all its bytes can be read.
  Status StreamChunk(const ChunkFile& chunk) {
    const ZarrArray::State& array = *chunk.leaf->array;
    const uint64_t want =
        static_cast<uint64_t>(ElementCount(array.metadata().chunk_shape)) *
        DTypeBytes(array.metadata().dtype);
    if (chunk.byte_count != want) {
      return ChunkError(array, chunk.key, DataLossError("wrong length"));
    }
    Buffer buffer = Buffer::TryAllocate(std::min<uint64_t>(want, kStreamBytes));
    if (buffer.data() == nullptr && want > 0) {
      return ResourceExhaustedError("no memory to read a chunk");
    }
    for (uint64_t at = 0; at < want; at += kStreamBytes) {
      const uint64_t count = std::min<uint64_t>(want - at, kStreamBytes);
      HF_RETURN_IF_ERROR(
          array.store->ReadInto(chunk.key, at, {buffer.data(), count}));
    }
    return Status();
  }

  Status CheckObjects(const CheckpointFiles& files) {
    std::map<std::string, std::vector<const ShardedObject*>> by_key;
    for (const auto& [name, object] : files.objects) {
      ++report_.leaf_count;
      by_key[object.key].push_back(&object);
      if (!share_.Takes(name, 0)) continue;
      HF_RETURN_IF_ERROR(
          CheckTorchFile(name, name + ".pt", ReadObject(place_, object)));
    }
    for (const auto& [key, objects] : by_key) {
      const int64_t want = ElementCount(objects[0]->global_shape);
      const auto got = static_cast<int64_t>(objects.size());
      if (got == want) continue;
      HF_RETURN_IF_ERROR(Add(key, key,
                             DataLossError("there are " + std::to_string(got) +
                                           " shards of the object, want " +
                                           std::to_string(want))));
    }
    return Status();
  }

  Status CheckTorchFile(const std::string& leaf, const std::string& file,
                        const Result<std::string>& bytes) {
    if (!bytes.ok()) return Add(leaf, file, bytes.status());
    const Status status = ReadTorchFile(*bytes).status();
    // PermissionDenied means here that the pickle may not call something. The
    // file itself was readable.
    const bool is_refused = status.code() == StatusCode::kPermissionDenied ||
                            status.code() == StatusCode::kUnimplemented;
    if (!is_refused) return Add(leaf, file, status);
    Note("object " + leaf +
         " is not examined: " + std::string(status.message()));
    return Status();
  }

  Status CheckCommon(const CheckpointFiles& files) {
    if (!files.has_common) {
      return Add(std::string(kCommonLeaf), "common.pt",
                 NotFoundError("there is no common.pt"));
    }
    ++report_.leaf_count;
    if (!share_.Takes("common.pt", 0)) return Status();
    return CheckTorchFile(std::string(kCommonLeaf), "common.pt",
                          ReadCommon(place_));
  }

  const Place place_;
  const OpenOptions& options_;
  Run run_;
  WorkerContexts contexts_{run_.executor().thread_count(), &run_.cancel()};
  WorkShare share_;
  Stopwatch watch_;
  std::vector<OpenedLeaf> leaves_;
  VerifyReport report_;
};

}  // namespace

Result<ShareReport> VerifyMegatronZarr(const Place& place,
                                       const OpenOptions& options,
                                       const RunOptions& run, WorkShare share) {
  return CatchBadAlloc([&]() -> Result<ShareReport> {
    Result<ShareReport> report =
        MegatronVerifier(place, options, run, std::move(share)).Verify();
    return report.ok() ? std::move(report)
                       : Result<ShareReport>(PlainStatus(report.status()));
  });
}

}  // namespace holdfast::megatron
