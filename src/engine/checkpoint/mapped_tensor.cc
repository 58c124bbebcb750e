// MapTensors: decides what can be mapped, makes one mapping per file, and
// checks it.
#include "holdfast/mapped_tensor.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>

#include "engine/checkpoint/stored_extents.h"
#include "engine/restore/leaf_request.h"
#include "ground/base/no_throw.h"
#include "ground/base/status_macros.h"
#include "ground/tensor/box.h"
#include "stores/place/place.h"
#include "stores/storage/file_mapping.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;

// Memory used by a check.
constexpr uint64_t kCheckSlabBytes = uint64_t{64} << 20;

// The range of one file that is mapped, and the leaves that need it.
struct FileRange {
  uint64_t begin = 0;
  uint64_t end = 0;
  std::vector<size_t> places;  // indices into the requested list
};

class TensorMapper {
 public:
  TensorMapper(const Checkpoint& checkpoint, std::span<const size_t> leaves,
               const MapOptions& options, const RunOptions& run)
      : checkpoint_(checkpoint),
        leaves_(leaves),
        options_(options),
        run_(run),
        tensors_(leaves.size()) {}

  Result<std::vector<MappedTensor>> Map() {
    for (size_t i = 0; i < leaves_.size(); ++i) {
      HF_RETURN_IF_ERROR(Locate(i));
    }
    const Status mapped = MapFiles();
    if (!files_.empty()) HF_RETURN_IF_ERROR(CheckStillThere());
    HF_RETURN_IF_ERROR(mapped);
    if (options_.verify) {
      for (size_t i = 0; i < leaves_.size(); ++i) HF_RETURN_IF_ERROR(Verify(i));
    }
    return std::move(tensors_);
  }

 private:
  const LeafInfo& InfoOf(size_t i) const {
    return checkpoint_.leaves()[leaves_[i]];
  }
  uint64_t BytesOf(size_t i) const {
    const LeafInfo& info = InfoOf(i);
    return static_cast<uint64_t>(ElementCount(info.shape)) *
           DTypeBytes(*info.dtype);
  }

  Status Locate(size_t i) {
    if (leaves_[i] >= checkpoint_.leaves().size()) {
      return OutOfRangeError("leaf " + std::to_string(leaves_[i]) + " of " +
                             std::to_string(checkpoint_.leaves().size()));
    }
    const LeafInfo& info = InfoOf(i);
    MappedTensor& tensor = tensors_[i];
    HF_RETURN_IF_ERROR(info.problem);
    if (info.kind != ValueKind::kArray) {
      tensor.why_not = "no array";
      return Status();
    }
    if (ElementCount(info.shape) == 0) {
      HF_ASSIGN_OR_RETURN(tensor.array,
                          Array::Allocate(*info.dtype, info.shape));
      return Status();
    }
    HF_ASSIGN_OR_RETURN(const LeafExtents found,
                        ExtentsOf(checkpoint_, leaves_[i]));
    tensor.why_not = found.why_not;
    if (!tensor.why_not.empty()) return Status();
    PlainRun run = PlainRunOf(*info.dtype, info.shape, found.extents);
    if (run.why_not.empty() && !files_.contains(run.file) &&
        Place(run.file).is_remote()) {
      run.why_not = "not in a file system";
    }
    tensor.why_not = std::move(run.why_not);
    if (!tensor.why_not.empty()) return Status();
    tensor.file = run.file;
    tensor.offset = run.offset;
    const auto [known, is_new] = files_.try_emplace(
        run.file, FileRange{run.offset, run.offset + BytesOf(i), {}});
    FileRange& range = known->second;
    range.begin = std::min(range.begin, run.offset);
    range.end = std::max(range.end, run.offset + BytesOf(i));
    range.places.push_back(i);
    return Status();
  }

  // Checks that a file may be mapped. If it is outside the checkpoint's
  // directory, the checkpoint's own reader decides: it knows which links may
  // lead there, and whether a view's source is unchanged.
  Status CheckMayRead(const std::string& file, size_t i) const {
    std::error_code error, file_error;
    const fs::path root = fs::canonical(checkpoint_.info().path, error);
    const fs::path inside =
        fs::canonical(file, file_error).lexically_relative(root);
    const bool is_inside =
        !error && !file_error && !inside.empty() && *inside.begin() != "..";
    if (is_inside) return Status();
    const size_t rank = InfoOf(i).shape.size();
    return checkpoint_.ReadBox(leaves_[i], Shape(rank, 0), Shape(rank, 1))
        .status();
  }

  Status MapFiles() {
    for (const auto& [file, range] : files_) {
      HF_RETURN_IF_ERROR(MapFile(file, range));
    }
    return Status();
  }

  // Returns Unavailable if the opened file was replaced, because its
  // replacement would be mapped instead. A read notices this.
  Status CheckStillThere() const {
    const size_t i = files_.begin()->second.places.front();
    const size_t rank = InfoOf(i).shape.size();
    const Status read =
        checkpoint_.ReadBox(leaves_[i], Shape(rank, 0), Shape(rank, 1))
            .status();
    return read.code() == StatusCode::kUnavailable ? read : Status();
  }

  Status MapFile(const std::string& file, const FileRange& range) {
    HF_RETURN_IF_ERROR(CheckMayRead(file, range.places.front()));
    auto mapped = FileMapping::Map(file, range.begin, range.end - range.begin,
                                   options_.copy_on_write
                                       ? FileMapping::Access::kCopyOnWrite
                                       : FileMapping::Access::kRead);
    if (!mapped.ok()) {
      return mapped.status().WithContext("leaf " +
                                         InfoOf(range.places.front()).name);
    }
    for (const size_t i : range.places) {
      const LeafInfo& info = InfoOf(i);
      ConstArrayView view{
          *info.dtype, (*mapped)->at(tensors_[i].offset), info.shape,
          ContiguousStrides(info.shape, DTypeBytes(*info.dtype))};
      tensors_[i].array = options_.copy_on_write
                              ? Array::Borrow(std::move(view), *mapped)
                              : Array::BorrowReadOnly(std::move(view), *mapped);
    }
    return Status();
  }

  Status Verify(size_t i) const {
    const MappedTensor& tensor = tensors_[i];
    if (tensor.file.empty()) return Status();
    const char* mapped = tensor.array.view().data;
    for (const Box& slab : SlabsOf(InfoOf(i), kCheckSlabBytes)) {
      HF_ASSIGN_OR_RETURN(Array read,
                          Array::Allocate(*InfoOf(i).dtype, slab.shape));
      HF_ASSIGN_OR_RETURN(
          const Stats stats,
          checkpoint_.ReadInto({{leaves_[i], slab.origin, read.mutable_view()}},
                               run_));
      static_cast<void>(stats);
      if (std::memcmp(read.view().data, mapped, read.byte_count()) != 0) {
        return DataLossError("leaf " + InfoOf(i).name + ": " + tensor.file +
                             " changes while it is mapped");
      }
      mapped += read.byte_count();
    }
    return Status();
  }

  const Checkpoint& checkpoint_;
  const std::span<const size_t> leaves_;
  const MapOptions& options_;
  const RunOptions& run_;
  std::map<std::string, FileRange> files_;
  std::vector<MappedTensor> tensors_;
};

}  // namespace

Result<std::vector<MappedTensor>> MapTensors(const Checkpoint& checkpoint,
                                             std::span<const size_t> leaves,
                                             const MapOptions& options,
                                             const RunOptions& run) {
  return CatchBadAlloc(
      [&] { return TensorMapper(checkpoint, leaves, options, run).Map(); });
}

}  // namespace holdfast
