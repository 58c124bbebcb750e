#include "foreign/megatron/megatron_zarr_target.h"

#include <algorithm>
#include <mutex>
#include <set>

#include "foreign/extents/target_pieces.h"
#include "foreign/extents/target_sidecar.h"
#include "foreign/megatron/chunk_writer.h"
#include "foreign/megatron/files.h"
#include "foreign/megatron/megatron_common.h"
#include "foreign/megatron/open.h"
#include "foreign/megatron/opened.h"
#include "formats/zarr/format/chunk_key.h"
#include "ground/base/no_throw.h"
#include "ground/base/status_macros.h"
#include "holdfast/megatron/zarr.h"
#include "holdfast/tools/torch_file.h"
#include "stores/place/directory_ops.h"

namespace holdfast {
namespace {

using megatron::ArrayState;
using megatron::ChunkPart;
using megatron::ChunkWriter;

// A longer text becomes a separate array.
constexpr size_t kCommonTextBytesMax = 4096;

// Returns the shape of equal chunks of at most bytes_max bytes, as far as
// extents can be divided. The leading axes are divided first.
Shape EqualChunks(const Shape& shape, size_t item_bytes, uint64_t bytes_max) {
  Shape chunks = shape;
  for (int64_t& extent : chunks) extent = std::max<int64_t>(extent, 1);
  if (bytes_max == 0) return chunks;
  for (int64_t& extent : chunks) {
    const int64_t whole = extent;
    const auto bytes = static_cast<uint64_t>(ElementCount(chunks)) * item_bytes;
    if (bytes <= bytes_max) break;
    const uint64_t row_bytes = bytes / static_cast<uint64_t>(whole);
    // Finds the largest divisor that fits; 1 if a row is too large.
    int64_t rows = static_cast<int64_t>(
        std::clamp<uint64_t>(bytes_max / std::max<uint64_t>(row_bytes, 1), 1,
                             static_cast<uint64_t>(whole)));
    while (whole % rows != 0) --rows;
    extent = rows;
  }
  return chunks;
}

class MegatronZarrTarget final : public FormatTarget {
 public:
  Status Begin(const TargetPlan& plan, const std::string& directory,
               bool /*resume*/) override {
    return CatchBadAlloc([&]() -> Status {
      plan_ = plan;
      directory_ = directory;
      const Place place(directory);
      store_ = place.OpenStore();
      arrays_.resize(plan.leaves.size());
      stored_.resize(plan.leaves.size());
      for (const TargetLeaf& leaf : plan.leaves) names_.insert(leaf.name);
      for (size_t i = 0; i < plan.leaves.size(); ++i) {
        HF_RETURN_IF_ERROR(PlanLeaf(i));
      }
      HF_ASSIGN_OR_RETURN(auto writer, ChunkWriter::Open(place));
      writer_ = std::make_unique<ChunkWriter>(std::move(writer));
      return Status();
    });
  }

  std::vector<Box> PiecesOf(size_t leaf, uint64_t bytes_max) const override {
    std::vector<Box> pieces;
    if (arrays_[leaf] == nullptr || !HasPieces(plan_.leaves[leaf])) {
      return pieces;
    }
    const ChunkGrid grid = arrays_[leaf]->grid();
    const size_t item_bytes = DTypeBytes(plan_.leaves[leaf].dtype);
    for (int64_t i = 0; i < grid.ChunkCount(); ++i) {
      const Box chunk = grid.ChunkBox(grid.ChunkIndex(i));
      std::vector<Box> rows =
          RowPieces(chunk, item_bytes, static_cast<size_t>(bytes_max));
      std::move(rows.begin(), rows.end(), std::back_inserter(pieces));
    }
    return pieces;
  }

  Result<std::string> Write(size_t leaf, const Box& box,
                            std::string_view elements) override {
    return CatchBadAlloc([&]() -> Result<std::string> {
      HF_RETURN_IF_ERROR(WriteBox(*arrays_[leaf], box, elements));
      return std::string();
    });
  }

  Status Restore(size_t leaf, const Box& box, std::string_view) override {
    (void)leaf;
    (void)box;
    return Status();
  }

  Status SyncData() override {
    if (!plan_.options.sync) return Status();
    std::set<std::string> files;
    std::set<std::string> directories;
    {
      std::lock_guard lock(mutex_);
      files.swap(dirty_files_);
      directories.swap(dirty_directories_);
    }
    for (const std::string& file : files) {
      HF_RETURN_IF_ERROR(SyncFile(Place(file)));
    }
    for (const std::string& directory : directories) {
      HF_RETURN_IF_ERROR(SyncDirectory(Place(directory)));
    }
    return store_->SyncNames();
  }

  Status Finish() override {
    return CatchBadAlloc([&]() -> Status {
      for (size_t i = 0; i < plan_.leaves.size(); ++i) {
        HF_RETURN_IF_ERROR(FinishLeaf(i));
      }
      HF_RETURN_IF_ERROR(WriteCommon());
      if (NeedsTree()) {
        HF_RETURN_IF_ERROR(
            store_->Write(kSidecarFile, SidecarText(SidecarOf(plan_, stored_)),
                          {.sync = plan_.options.sync, .atomic = true}));
      }
      HF_RETURN_IF_ERROR(SyncData());
      return megatron::SaveConfig({}, directory_, plan_.options.sync);
    });
  }

 private:
  static bool HasArray(const TargetLeaf& leaf) {
    if (leaf.kind == ValueKind::kArray) return true;
    const bool is_text = leaf.kind == ValueKind::kString ||
                         leaf.kind == ValueKind::kBytes ||
                         leaf.kind == ValueKind::kJson;
    return is_text && leaf.text.size() > kCommonTextBytesMax;
  }

  Status PlanLeaf(size_t i) {
    const TargetLeaf& leaf = plan_.leaves[i];
    if (leaf.kind == ValueKind::kObject) {
      PlanObject(i);
      return Status();
    }
    if (!HasArray(leaf)) return Status();
    const bool is_array = leaf.kind == ValueKind::kArray;
    const StoredAs stored = is_array
                                ? StorableDType("megatron-zarr", leaf.dtype)
                                : StoredAs{DType::kUint8, 0};
    const Shape shape = is_array
                            ? StorableShape(stored, leaf.shape)
                            : Shape{static_cast<int64_t>(leaf.text.size())};
    if (stored.last_axis != 0) {
      return InvalidArgumentError("leaf " + leaf.name +
                                  ": Megatron's zarr "
                                  "format has no " +
                                  std::string(DTypeName(leaf.dtype)));
    }
    stored_[i] = NewName(leaf.name, i);
    const Shape chunks =
        leaf.chunk_shape.size() == shape.size() && is_array && !shape.empty()
            ? AtLeastOne(leaf.chunk_shape)
            : EqualChunks(shape, DTypeBytes(stored.dtype),
                          plan_.options.chunk_bytes);
    const auto array =
        megatron::PlanArray(stored_[i], stored.dtype, shape, chunks);
    if (!array.ok()) {
      return megatron::PlainStatus(array.status())
          .WithContext("leaf " + leaf.name);
    }
    HF_RETURN_IF_ERROR(store_->Write(stored_[i] + "/.zarray", array->text,
                                     {.sync = false, .atomic = true}));
    HF_ASSIGN_OR_RETURN(arrays_[i],
                        megatron::AssumeArray(store_, stored_[i], *array));
    NoteDirty("", stored_[i] + "/.zarray");
    return Status();
  }

  static Shape AtLeastOne(Shape chunks) {
    for (int64_t& extent : chunks) extent = std::max<int64_t>(extent, 1);
    return chunks;
  }

  void PlanObject(size_t i) {
    const std::string& name = plan_.leaves[i].name;
    if (name == megatron::kCommonLeaf && common_ == nullptr) {
      common_ = &plan_.leaves[i];
      stored_[i] = name;
      return;
    }
    const size_t slash = name.rfind('/');
    const bool is_shard =
        slash != name.npos &&
        megatron::CheckKeyIsStorable(name.substr(0, slash)).ok() &&
        megatron::ShardedObject::EmptyFromUniqueKey("k" + name.substr(slash))
            .ok();
    if (is_shard && used_.insert(name).second) {
      stored_[i] = name;
    } else {
      stored_[i] = NewName(name, i) + "/shard_0_1";
    }
  }

  // Returns the name of the leaf's array: its own name if that is a valid
  // directory name, no other leaf has it, and it is not below another array's
  // directory, where readers would not find it.
  std::string NewName(const std::string& name, size_t i) {
    const bool fits = megatron::CheckKeyIsStorable(name).ok() &&
                      !LiesBelowAnother(name) && name[0] != '_' &&
                      name.size() <= 200;
    if (fits && used_.insert(name).second) return name;
    std::string other;
    do {
      other = "holdfast_leaf_" + std::to_string(i) + other;
    } while (!used_.insert(other).second);
    return other;
  }

  bool LiesBelowAnother(const std::string& name) const {
    for (size_t at = name.find('/'); at != name.npos;
         at = name.find('/', at + 1)) {
      if (names_.contains(name.substr(0, at))) return true;
    }
    return false;
  }

  // Writes a box of an array. The box is inside one chunk.
  Status WriteBox(const megatron::ZarrArray::State& array, const Box& box,
                  std::string_view elements) {
    const ChunkGrid grid = array.grid();
    ChunkPart part;
    part.array = &array;
    part.box_in_chunk = box;
    for (size_t axis = 0; axis < box.origin.size(); ++axis) {
      const int64_t index = box.origin[axis] / grid.chunk_shape[axis];
      part.chunk_index.push_back(index);
      part.box_in_chunk.origin[axis] -= index * grid.chunk_shape[axis];
    }
    const DType dtype = array.metadata().dtype;
    part.source = {dtype, elements.data(), box.shape,
                   ContiguousStrides(box.shape, DTypeBytes(dtype))};
    if (part.byte_count() != elements.size()) {
      return InvalidArgumentError(
          "array " + array.path + ": piece " + BoxToString(box) + " has " +
          std::to_string(part.byte_count()) + " bytes, got " +
          std::to_string(elements.size()));
    }
    HF_RETURN_IF_ERROR(writer_->Write(part, /*sync=*/false).status());
    NoteDirty(array.path,
              zarr::ChunkKey(array.prefix, array.metadata(), part.chunk_index));
    return Status();
  }

  void NoteDirty(const std::string& directory, const std::string& key) {
    std::lock_guard lock(mutex_);
    dirty_files_.insert(store_->Describe(key));
    if (!directory.empty()) dirty_directories_.insert(directory);
  }

  Status FinishLeaf(size_t i) {
    const TargetLeaf& leaf = plan_.leaves[i];
    const WriteOptions options = {.sync = plan_.options.sync, .atomic = true};
    if (leaf.kind == ValueKind::kObject && &leaf != common_) {
      return store_->Write(stored_[i] + ".pt", leaf.text, options);
    }
    if (leaf.kind == ValueKind::kArray || arrays_[i] == nullptr) {
      return Status();
    }
    // Writes a long text in full chunks and a remainder.
    const ChunkGrid grid = arrays_[i]->grid();
    for (int64_t n = 0; n < grid.ChunkCount(); ++n) {
      const Box box = grid.ChunkBox(grid.ChunkIndex(n));
      HF_RETURN_IF_ERROR(WriteBox(*arrays_[i], box,
                                  std::string_view(leaf.text).substr(
                                      static_cast<size_t>(box.origin[0]),
                                      static_cast<size_t>(box.shape[0]))));
    }
    return Status();
  }

  Status WriteCommon() {
    std::string text;
    if (common_ != nullptr) {
      text = common_->text;
    } else {
      std::vector<PickleValue::Pair> pairs;
      for (size_t i = 0; i < plan_.leaves.size(); ++i) {
        if (!stored_[i].empty()) continue;
        pairs.emplace_back(PickleValue::String(plan_.leaves[i].name),
                           SmallPickleValue(plan_.leaves[i]));
      }
      HF_ASSIGN_OR_RETURN(text,
                          WriteTorchFile(PickleValue::Dict(std::move(pairs))));
    }
    return megatron::WriteCommonFile(directory_, text, plan_.options.sync);
  }

  // Returns whether the format would lose parts of the plan without a sidecar.
  bool NeedsTree() const {
    if (HasCustomMetadata(plan_.source_info)) return true;
    for (size_t i = 0; i < plan_.leaves.size(); ++i) {
      if (!IsPlain(i)) return true;
    }
    return false;
  }

  bool IsPlain(size_t i) const {
    const TargetLeaf& leaf = plan_.leaves[i];
    if (!HasOneKey(leaf, stored_[i]) || HasTraits(leaf)) return false;
    if (leaf.kind == ValueKind::kObject) return true;
    return leaf.kind == ValueKind::kArray &&
           arrays_[i]->metadata().dtype == leaf.dtype;
  }

  TargetPlan plan_;
  std::string directory_;
  std::shared_ptr<Store> store_;
  std::vector<ArrayState> arrays_;      // by leaf; null without an array
  std::vector<std::string> stored_;     // names in the format, or ""
  std::set<std::string> names_;         // of the leaves
  std::set<std::string> used_;          // of arrays and objects
  const TargetLeaf* common_ = nullptr;  // of plan_
  std::unique_ptr<ChunkWriter> writer_;

  std::mutex mutex_;
  std::set<std::string> dirty_files_;
  std::set<std::string> dirty_directories_;
};

}  // namespace

std::unique_ptr<FormatTarget> MakeMegatronZarrTarget() {
  return std::make_unique<MegatronZarrTarget>();
}

}  // namespace holdfast
