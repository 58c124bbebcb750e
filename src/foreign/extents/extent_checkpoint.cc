#include "foreign/extents/extent_checkpoint.h"

#include <algorithm>
#include <limits>
#include <mutex>
#include <unordered_map>

#include "engine/checkpoint/stored_extents.h"
#include "engine/commit/known_formats.h"
#include "engine/commit/layout.h"
#include "engine/restore/extent_read.h"
#include "engine/restore/leaf_request.h"
#include "engine/restore/restore.h"
#include "ground/base/no_throw.h"
#include "ground/base/status_macros.h"
#include "ground/run/run.h"
#include "ground/tensor/box_index.h"
#include "ground/tensor/copy.h"
#include "ground/tensor/grid.h"
#include "stores/storage/url_path.h"

namespace holdfast {
namespace {

// An array with strides of zero may exceed its file by this many bytes.
constexpr uint64_t kRepeatedBytesMax = uint64_t{64} << 20;

// Returns the size of an array; nullopt on overflow or for a negative extent.
std::optional<uint64_t> ArrayBytes(const Shape& shape, size_t element_bytes) {
  uint64_t bytes = element_bytes;
  bool is_empty = false;
  for (const int64_t extent : shape) {
    if (extent < 0) return std::nullopt;
    is_empty |= extent == 0;
    if (extent > 0 &&
        __builtin_mul_overflow(bytes, static_cast<uint64_t>(extent), &bytes)) {
      return std::nullopt;
    }
  }
  if (is_empty) return 0;
  if (bytes > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return std::nullopt;
  }
  return bytes;
}

class FileSizes {
 public:
  explicit FileSizes(Store& store) : store_(store) {}

  Result<uint64_t> Of(const std::string& file) {
    const auto known = sizes_.find(file);
    if (known != sizes_.end()) return known->second;
    HF_ASSIGN_OR_RETURN(const ObjectInfo info, store_.Stat(file));
    return sizes_[file] = info.byte_count;
  }

 private:
  Store& store_;
  std::unordered_map<std::string, uint64_t> sizes_;
};

// A check that runs until it has succeeded once.
class Check {
 public:
  explicit Check(std::function<Status()> run) : run_(std::move(run)) {}

  Status Pass() {
    std::lock_guard lock(mutex_);
    if (has_passed_) return Status();
    HF_RETURN_IF_ERROR(run_());
    has_passed_ = true;
    return Status();
  }

 private:
  const std::function<Status()> run_;
  std::mutex mutex_;
  bool has_passed_ = false;
};

struct CheckedLeaf {
  RawArray raw;                  // of arrays and scalars
  std::unique_ptr<Check> check;  // null: nothing to check
  std::string text;
  std::function<Result<std::string>()> read_text;
};

class LeafChecker {
 public:
  explicit LeafChecker(Store& store) : store_(store), sizes_(store) {}

  Status Check(const LeafInfo& info, const std::vector<Extent>& extents) {
    const std::optional<uint64_t> bytes =
        ArrayBytes(info.shape, DTypeBytes(*info.dtype));
    if (!bytes || info.shape.size() > kRankMax) {
      return DataLossError("leaf " + info.name + ": an array of shape " +
                           ShapeToString(info.shape) + " is too large");
    }
    for (const Extent& extent : extents) {
      HF_RETURN_IF_ERROR(CheckExtent(info, extent));
    }
    return Status();
  }

 private:
  Status CheckExtent(const LeafInfo& info, const Extent& extent) {
    if (IsEmpty(extent.box)) return Status();
    const size_t element_bytes = DTypeBytes(*info.dtype);
    const Result<uint64_t> file_bytes = sizes_.Of(extent.file);
    if (!file_bytes.ok()) {
      return file_bytes.status().WithContext("leaf " + info.name);
    }
    const std::optional<uint64_t> span = ExtentSpan(
        extent.box.shape, ExtentStrides(extent, element_bytes), element_bytes);
    const std::string at = "leaf " + info.name + ": " +
                           store_.Describe(extent.file) + " at offset " +
                           std::to_string(extent.offset);
    if (!span || *span > *file_bytes || extent.offset > *file_bytes - *span) {
      const Status cut = DataLossError(
          at + ": its elements are not inside the file (got " +
          std::to_string(*file_bytes) + " bytes, want " +
          (span ? std::to_string(*span) : "too many to count") + " there)");
      return WithWhatFileIs(cut, store_, extent.file, "");
    }
    if (*ArrayBytes(extent.box.shape, element_bytes) >
        *file_bytes + kRepeatedBytesMax) {
      return DataLossError(at + ": an array larger than its file");
    }
    return Status();
  }

  Store& store_;
  FileSizes sizes_;
};

class ExtentCheckpoint final : public Checkpoint,
                               public StoredExtents,
                               private ArrayHome {
 public:
  ExtentCheckpoint(std::shared_ptr<Store> store,
                   std::shared_ptr<const DigestIndex> list)
      : store_(std::move(store)), list_(std::move(list)) {}

  void Reserve(size_t leaf_count) {
    infos_.reserve(leaf_count);
    leaves_.reserve(leaf_count);
  }
  void SetInfo(CheckpointInfo info) {
    id_ = PlaceId(Place(info.path));
    info_ = std::move(info);
  }

  void AddLeaf(ExtentLeaf leaf, LeafChecker& checker) {
    LeafInfo& info = leaf.info;
    CheckedLeaf checked;
    if (info.problem.ok() && HasElements(info.kind)) {
      info.problem = checker.Check(info, leaf.extents);
    }
    if (info.problem.ok() && leaf.extents.size() > 1) {
      info.problem = IndexExtents(info, leaf.extents, checked.raw);
    }
    Describe(leaf);
    checked.raw.dtype = info.dtype.value_or(DType::kUint8);
    checked.raw.shape = info.shape;
    checked.raw.extents = std::move(leaf.extents);
    checked.raw.reader = std::move(leaf.reader);
    if (leaf.check) {
      checked.check = std::make_unique<Check>(std::move(leaf.check));
    }
    checked.text = std::move(leaf.text);
    checked.read_text = std::move(leaf.read_text);
    infos_.push_back(std::move(info));
    leaves_.push_back(std::move(checked));
  }

  Result<LeafExtents> ExtentsOf(size_t leaf) const override {
    const RawArray& raw = leaves_[leaf].raw;
    if (raw.reader != nullptr) {
      return LeafExtents{"not stored as they are (" + infos_[leaf].codecs + ")",
                         {}};
    }
    LeafExtents found{"", raw.extents};
    for (Extent& extent : found.extents) {
      extent.file = store_->Describe(extent.file);
    }
    return found;
  }

  const ValueDigest* DigestOf(const std::string& file, uint64_t offset,
                              uint64_t byte_count) const override {
    if (list_ == nullptr || list_->block_bytes() != kDigestBlockBytes) {
      return nullptr;
    }
    // The list of checksums is in the directory of the files that it names.
    const std::string name = FileNameOf(file);
    const ValueDigest* const row = list_->FindValue(name, offset);
    const bool is_it = row != nullptr && row->byte_count == byte_count &&
                       row->kind == RowKind::kValue &&
                       store_->Describe(name) == file;
    return is_it ? row : nullptr;
  }

 protected:
  Result<Stats> DoReadInto(const std::vector<ReadRequest>& requests,
                           const RunOptions& options) const override {
    Stopwatch watch, total;
    Stats stats;
    Run run(options, store_->requests_in_flight());
    HF_RETURN_IF_ERROR(CheckLeaves(requests, run));
    std::vector<RestoreTarget> targets;
    for (const ReadRequest& request : requests) {
      const LeafInfo& info = infos_[request.leaf];
      const CheckedLeaf& leaf = leaves_[request.leaf];
      const bool is_in_file =
          !leaf.raw.extents.empty() || leaf.raw.reader != nullptr;
      if (info.kind == ValueKind::kScalar && !is_in_file) {
        HF_RETURN_IF_ERROR(CopyScalar(info, leaf, request.target));
        stats.decoded_bytes += leaf.text.size();
        continue;
      }
      targets.push_back({this,
                         {info.name, "", nullptr, &leaf.raw},
                         request.origin,
                         request.target});
    }
    std::stable_sort(targets.begin(), targets.end(),
                     [](const RestoreTarget& a, const RestoreTarget& b) {
                       return std::less<>()(a.array.raw, b.array.raw);
                     });
    HF_ASSIGN_OR_RETURN(RestorePlan plan, PlanRestore(std::move(targets), run));
    stats.plan_seconds = watch.Lap();
    run.StartPhase("read", WantedBytes(plan.targets));
    HF_RETURN_IF_ERROR(Restore(std::move(plan), run, stats));
    stats.total_seconds = total.Lap();
    return stats;
  }

  Result<std::string> DoReadText(size_t leaf) const override {
    return leaves_[leaf].read_text ? leaves_[leaf].read_text()
                                   : leaves_[leaf].text;
  }

 private:
  Store& array_store() const override { return *store_; }
  // The checksums of these formats cover complete leaves; see CheckLeaves.
  ByteCheck byte_check() const override { return ByteCheck::kByCodecAlone; }
  bool refuses_missing_chunks() const override { return true; }
  // Checks the path only: nothing in these formats identifies the file that
  // elements come from.
  Status CheckStillThere() const override {
    return CheckSamePlace(Place(info_.path), id_);
  }

  static Status IndexExtents(const LeafInfo& info,
                             const std::vector<Extent>& extents,
                             RawArray& raw) {
    std::vector<Box> boxes;
    for (const Extent& extent : extents) boxes.push_back(extent.box);
    raw.boxes = std::make_unique<const BoxIndex>(std::move(boxes));
    const Status disjoint = raw.boxes->CheckDisjoint(info.shape);
    if (disjoint.ok()) return disjoint;
    return DataLossError("leaf " + info.name + ": " +
                         std::string(disjoint.message()));
  }

  static void Describe(ExtentLeaf& leaf) {
    LeafInfo& info = leaf.info;
    if (HasElements(info.kind) && !info.dtype) return;  // a problem says why
    if (!HasElements(info.kind)) {
      if (info.decoded_bytes == 0) info.decoded_bytes = leaf.text.size();
      if (info.stored_bytes == 0) info.stored_bytes = info.decoded_bytes;
      return;
    }
    if (info.decoded_bytes == 0) {
      info.decoded_bytes =
          ArrayBytes(info.shape, DTypeBytes(*info.dtype)).value_or(0);
    }
    if (info.stored_bytes == 0) info.stored_bytes = info.decoded_bytes;
    if (info.codecs.empty()) info.codecs = "none";
    if (info.kind != ValueKind::kArray) return;
    if (info.chunk_count == 0) {
      info.chunk_count = std::max<size_t>(1, leaf.extents.size());
    }
    if (!info.chunk_shape.empty()) return;
    info.chunk_shape = info.shape;
    int64_t largest = -1;
    for (const Extent& extent : leaf.extents) {
      if (ElementCount(extent.box.shape) <= largest) continue;
      largest = ElementCount(extent.box.shape);
      info.chunk_shape = extent.box.shape;
    }
  }

  bool NeedsCheck(const ReadRequest& request) const {
    const CheckedLeaf& leaf = leaves_[request.leaf];
    const bool is_whole = request.target.shape == infos_[request.leaf].shape;
    return leaf.check != nullptr && !(is_whole && leaf.raw.reader != nullptr);
  }

  Status CheckLeaves(const std::vector<ReadRequest>& requests, Run& run) const {
    std::vector<size_t> leaves;
    for (const ReadRequest& request : requests) {
      if (NeedsCheck(request)) leaves.push_back(request.leaf);
    }
    std::sort(leaves.begin(), leaves.end());
    leaves.erase(std::unique(leaves.begin(), leaves.end()), leaves.end());
    if (leaves.empty()) return Status();
    return run.executor().ParallelFor(
        leaves.size(),
        [&](size_t i, int) {
          const Status passed = leaves_[leaves[i]].check->Pass();
          if (passed.ok()) return passed;
          return passed.WithContext("leaf " + infos_[leaves[i]].name);
        },
        &run.cancel());
  }

  Status CopyScalar(const LeafInfo& info, const CheckedLeaf& leaf,
                    const ArrayView& target) const {
    if (leaf.text.size() != DTypeBytes(*info.dtype)) {
      return DataLossError("leaf " + info.name + ": a scalar of " +
                           std::to_string(leaf.text.size()) + " bytes, want " +
                           std::to_string(DTypeBytes(*info.dtype)));
    }
    ConvertStrided({*info.dtype, leaf.text.data(), target.shape,
                    Shape(target.shape.size(), 0)},
                   target);
    return Status();
  }

  const std::shared_ptr<Store> store_;
  const std::shared_ptr<const DigestIndex> list_;
  std::string id_;                   // of the place, when it was opened
  std::vector<CheckedLeaf> leaves_;  // as infos_
};

}  // namespace

class ExtentCheckpointMaker::Impl {
 public:
  Impl(std::shared_ptr<Store> store, std::shared_ptr<const DigestIndex> list)
      : checker(*store),
        checkpoint(std::make_unique<ExtentCheckpoint>(std::move(store),
                                                      std::move(list))) {}

  LeafChecker checker;
  std::unique_ptr<ExtentCheckpoint> checkpoint;
};

ExtentCheckpointMaker::ExtentCheckpointMaker(
    std::shared_ptr<Store> store, std::shared_ptr<const DigestIndex> list)
    : impl_(std::make_unique<Impl>(std::move(store), std::move(list))) {}

ExtentCheckpointMaker::~ExtentCheckpointMaker() = default;

void ExtentCheckpointMaker::Reserve(size_t leaf_count) {
  impl_->checkpoint->Reserve(leaf_count);
}

void ExtentCheckpointMaker::Add(ExtentLeaf leaf) {
  impl_->checkpoint->AddLeaf(std::move(leaf), impl_->checker);
}

std::unique_ptr<Checkpoint> ExtentCheckpointMaker::Finish(CheckpointInfo info) {
  impl_->checkpoint->SetInfo(std::move(info));
  return std::move(impl_->checkpoint);
}

Result<std::unique_ptr<Checkpoint>> MakeExtentCheckpoint(
    CheckpointInfo info, std::shared_ptr<Store> store,
    std::vector<ExtentLeaf> leaves, std::shared_ptr<const DigestIndex> list) {
  return CatchBadAlloc([&]() -> Result<std::unique_ptr<Checkpoint>> {
    ExtentCheckpointMaker maker(std::move(store), std::move(list));
    maker.Reserve(leaves.size());
    for (ExtentLeaf& leaf : leaves) maker.Add(std::move(leaf));
    return maker.Finish(std::move(info));
  });
}

}  // namespace holdfast
