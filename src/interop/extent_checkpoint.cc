#include "interop/extent_checkpoint.h"

#include <algorithm>
#include <limits>
#include <mutex>
#include <unordered_map>

#include "base/no_throw.h"
#include "base/status_macros.h"
#include "checkpoint/restore/leaf_request.h"
#include "interop/extent_read.h"
#include "run/run.h"
#include "tensor/box_index.h"
#include "tensor/copy.h"
#include "tensor/grid.h"

namespace holdfast {
namespace {

// What one worker reads at a time: enough that a call costs nothing, and little
// enough that all have work.
constexpr uint64_t kJobBytesMax = uint64_t{8} << 20;
// What a leaf may be larger than its file (strides of zero).
constexpr uint64_t kRepeatedBytesMax = uint64_t{64} << 20;

// Bytes of an array; nullopt on overflow or a negative extent.
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

// A check that has to succeed once.
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
  std::vector<Extent> extents;
  std::unique_ptr<const BoxIndex> boxes;  // when there are several
  std::shared_ptr<const ArrayReader> reader;
  std::unique_ptr<Check> check;  // null: there is none
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
      return DataLossError(
          at + ": its elements are not inside the file (got " +
          std::to_string(*file_bytes) + " bytes, want " +
          (span ? std::to_string(*span) : "too many to count") + " there)");
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

// A part of one request that one worker does.
struct Job {
  const ReadRequest* request = nullptr;
  const Extent* extent = nullptr;  // null: the leaf's reader
  Box box;                         // of the leaf
};

class ExtentCheckpoint final : public Checkpoint {
 public:
  ExtentCheckpoint(CheckpointInfo info, std::shared_ptr<Store> store)
      : store_(std::move(store)) {
    info_ = std::move(info);
  }

  void AddLeaves(std::vector<ExtentLeaf> leaves) {
    LeafChecker checker(*store_);
    for (ExtentLeaf& leaf : leaves) AddLeaf(std::move(leaf), checker);
  }

 protected:
  Result<Stats> DoReadInto(const std::vector<ReadRequest>& requests,
                           const RunOptions& options) const override {
    Stopwatch watch, total;
    Stats stats;
    Run run(options, store_->requests_in_flight());
    std::vector<Job> jobs;
    for (const ReadRequest& request : requests) {
      HF_RETURN_IF_ERROR(PlanRequest(request, JobBytes(run), jobs, stats));
    }
    std::stable_sort(jobs.begin(), jobs.end(), ComesBefore);
    stats.plan_seconds = watch.Lap();
    HF_RETURN_IF_ERROR(CheckLeaves(requests, run));
    HF_RETURN_IF_ERROR(RunJobs(jobs, run, stats));
    stats.transfer_seconds = watch.Lap();
    stats.in_flight_bytes_peak = run.budget().peak_bytes();
    stats.total_seconds = total.Lap();
    return stats;
  }

  Result<std::string> DoReadText(size_t leaf) const override {
    return leaves_[leaf].read_text ? leaves_[leaf].read_text()
                                   : leaves_[leaf].text;
  }

 private:
  void AddLeaf(ExtentLeaf leaf, LeafChecker& checker) {
    LeafInfo& info = leaf.info;
    CheckedLeaf checked;
    if (info.problem.ok() && HasElements(info.kind)) {
      info.problem = checker.Check(info, leaf.extents);
    }
    if (info.problem.ok() && leaf.extents.size() > 1) {
      info.problem = IndexExtents(info, leaf.extents, checked);
    }
    Describe(leaf);
    checked.extents = std::move(leaf.extents);
    checked.reader = std::move(leaf.reader);
    if (leaf.check) {
      checked.check = std::make_unique<Check>(std::move(leaf.check));
    }
    checked.text = std::move(leaf.text);
    checked.read_text = std::move(leaf.read_text);
    infos_.push_back(std::move(info));
    leaves_.push_back(std::move(checked));
  }

  static Status IndexExtents(const LeafInfo& info,
                             const std::vector<Extent>& extents,
                             CheckedLeaf& checked) {
    std::vector<Box> boxes;
    for (const Extent& extent : extents) boxes.push_back(extent.box);
    checked.boxes = std::make_unique<const BoxIndex>(std::move(boxes));
    const Status disjoint = checked.boxes->CheckDisjoint(info.shape);
    if (disjoint.ok()) return disjoint;
    return DataLossError("leaf " + info.name + ": " +
                         std::string(disjoint.message()));
  }

  static void Describe(ExtentLeaf& leaf) {
    LeafInfo& info = leaf.info;
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

  static uint64_t JobBytes(Run& run) {
    const uint64_t budget_bytes = run.budget().bytes_max();
    if (budget_bytes == 0) return kJobBytesMax;
    const uint64_t share = budget_bytes / (2 * run.executor().thread_count());
    return std::clamp<uint64_t>(share, 16, kJobBytesMax);
  }

  static bool ComesBefore(const Job& a, const Job& b) {
    if (a.extent == nullptr || b.extent == nullptr) {
      return a.extent == nullptr && b.extent != nullptr;  // the slow ones first
    }
    return std::tie(a.extent->file, a.extent->offset) <
           std::tie(b.extent->file, b.extent->offset);
  }

  Status PlanRequest(const ReadRequest& request, uint64_t job_bytes,
                     std::vector<Job>& jobs, Stats& stats) const {
    const LeafInfo& info = infos_[request.leaf];
    const Box box{request.origin, request.target.shape};
    const int64_t wanted_count = ElementCount(box.shape);
    const CheckedLeaf& leaf = leaves_[request.leaf];
    const size_t element_bytes = DTypeBytes(*info.dtype);
    stats.decoded_bytes += wanted_count * element_bytes;
    if (leaf.reader != nullptr) {
      jobs.push_back({&request, nullptr, box});
      return Status();
    }
    if (leaf.extents.empty() && info.kind == ValueKind::kScalar) {
      return CopyScalar(info, leaf, request.target);
    }
    int64_t found_count = 0;
    const auto add = [&](const Extent& extent, const Box& common) {
      found_count += ElementCount(common.shape);
      for (Box& part : CutBox(common, ExtentStrides(extent, element_bytes),
                              element_bytes, job_bytes)) {
        jobs.push_back({&request, &extent, std::move(part)});
      }
    };
    if (leaf.boxes != nullptr) {
      leaf.boxes->ForEachOverlap(box, [&](size_t i, const Box& common) {
        add(leaf.extents[i], common);
      });
    } else if (!leaf.extents.empty()) {
      const auto common = Intersect(leaf.extents[0].box, box);
      if (common) add(leaf.extents[0], *common);
    }
    if (found_count == wanted_count) return Status();
    return DataLossError("leaf " + info.name + ": " +
                         std::to_string(wanted_count - found_count) +
                         " elements of " + BoxToString(box) +
                         " are in no file");
  }

  bool NeedsCheck(const ReadRequest& request) const {
    const CheckedLeaf& leaf = leaves_[request.leaf];
    const bool is_whole = request.target.shape == infos_[request.leaf].shape;
    return leaf.check != nullptr && !(is_whole && leaf.reader != nullptr);
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

  Status RunJobs(const std::vector<Job>& jobs, Run& run, Stats& stats) const {
    run.StartPhase("read", stats.decoded_bytes);
    std::vector<ExtentScratch> scratch(run.executor().thread_count());
    std::vector<uint64_t> read_bytes(scratch.size());
    HF_RETURN_IF_ERROR(run.executor().ParallelFor(
        jobs.size(),
        [&](size_t i, int worker) {
          return RunJob(jobs[i], run, scratch[worker], read_bytes[worker]);
        },
        &run.cancel()));
    for (const uint64_t bytes : read_bytes) stats.stored_bytes += bytes;
    stats.chunk_count += jobs.size();
    return Status();
  }

  Status RunJob(const Job& job, Run& run, ExtentScratch& scratch,
                uint64_t& read_bytes) const {
    const LeafInfo& info = infos_[job.request->leaf];
    const Status status =
        job.extent != nullptr
            ? RunExtentJob(job, *info.dtype, run, scratch, read_bytes)
            : RunReaderJob(job, *info.dtype, run, scratch, read_bytes);
    if (!status.ok()) return status.WithContext("leaf " + info.name);
    return status;
  }

  static ArrayView TargetOf(const Job& job, const Box& box) {
    return Subview(job.request->target, Relative(box, job.request->origin));
  }

  Status RunExtentJob(const Job& job, DType dtype, Run& run,
                      ExtentScratch& scratch, uint64_t& read_bytes) const {
    const ExtentRead read{job.extent, dtype, job.box, TargetOf(job, job.box)};
    const uint64_t job_bytes = JobBytes(run);
    ByteBudget::Lease lease;
    if (!ReadsInPlace(read)) {
      const bool swaps = job.extent->is_big_endian;
      lease = run.budget().Acquire(swaps ? 2 * job_bytes : job_bytes);
    }
    HF_ASSIGN_OR_RETURN(
        const uint64_t bytes,
        ReadExtentBox(*store_, read, job_bytes, scratch, run.cancel()));
    read_bytes += bytes;
    run.AddDone(ElementCount(job.box.shape) * DTypeBytes(dtype));
    return Status();
  }

  // Piece after piece in C order, as a stream gives them.
  Status RunReaderJob(const Job& job, DType dtype, Run& run,
                      ExtentScratch& scratch, uint64_t& read_bytes) const {
    const ArrayReader& reader = *leaves_[job.request->leaf].reader;
    const size_t element_bytes = DTypeBytes(dtype);
    const uint64_t job_bytes = JobBytes(run);
    const bool changes =
        job.request->target.dtype != dtype || dtype == DType::kBool;
    ByteBudget::Lease lease;
    if (changes) lease = run.budget().Acquire(job_bytes);
    for (const Box& part : RowPieces(job.box, element_bytes, job_bytes)) {
      HF_RETURN_IF_ERROR(run.cancel().Check());
      const uint64_t bytes = ElementCount(part.shape) * element_bytes;
      const ArrayView target = TargetOf(job, part);
      if (!changes) {
        HF_RETURN_IF_ERROR(reader.Read(part.origin, target));
      } else {
        scratch.span.Reserve(bytes);
        const ArrayView piece{dtype, scratch.span.data(), part.shape,
                              ContiguousStrides(part.shape, element_bytes)};
        HF_RETURN_IF_ERROR(reader.Read(part.origin, piece));
        ClearUnusedBits(dtype, piece.data, bytes);
        ConvertStrided(piece, target);
      }
      read_bytes += bytes;
      run.AddDone(bytes);
    }
    return Status();
  }

  const std::shared_ptr<Store> store_;
  std::vector<CheckedLeaf> leaves_;  // as infos_
};

}  // namespace

Result<std::unique_ptr<Checkpoint>> MakeExtentCheckpoint(
    CheckpointInfo info, std::shared_ptr<Store> store,
    std::vector<ExtentLeaf> leaves) {
  return CatchBadAlloc([&]() -> Result<std::unique_ptr<Checkpoint>> {
    auto checkpoint =
        std::make_unique<ExtentCheckpoint>(std::move(info), std::move(store));
    checkpoint->AddLeaves(std::move(leaves));
    return std::unique_ptr<Checkpoint>(std::move(checkpoint));
  });
}

}  // namespace holdfast
