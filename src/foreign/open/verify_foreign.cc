#include "foreign/open/verify_foreign.h"

#include <mutex>
#include <set>

#include "engine/checkpoint/opened_checkpoint.h"
#include "engine/commit/layout.h"
#include "engine/restore/leaf_request.h"
#include "foreign/megatron/open.h"
#include "foreign/npz/npz.h"
#include "foreign/open/source_place.h"
#include "foreign/torch/torch_checkpoint.h"
#include "ground/base/status_macros.h"
#include "ground/run/run.h"
#include "holdfast/process_group.h"
#include "holdfast/read_again.h"
#include "holdfast/tools/torch_file.h"
#include "stores/place/look.h"
#include "stores/place/place.h"

namespace holdfast {
namespace {

// The number of bytes that a worker reads at a time.
constexpr uint64_t kSlabBytes = uint64_t{16} << 20;

// Returns whether opening failed so early that nothing else can be checked.
bool IsInvalidHead(const Status& status) {
  return status.code() == StatusCode::kDataLoss ||
         status.code() == StatusCode::kFailedPrecondition;
}

// Parts of a leaf that one worker reads in order.
struct ReadUnit {
  size_t leaf = 0;
  std::vector<Box> slabs;  // empty: a text
  uint64_t byte_count = 0;
};

// Returns the problem as Unimplemented. PermissionDenied means here that the
// pickle was not allowed to call something.
Status NotSupported(const Status& problem) {
  return UnimplementedError(std::string(problem.message()));
}

class ForeignVerifier {
 public:
  ForeignVerifier(const Place& place, const OpenOptions& options,
                  const RunOptions& run, WorkShare share)
      : options_(options),
        run_options_(run),
        run_(run, place.OpenStore()->requests_in_flight()),
        share_(std::move(share)) {}

  Result<ShareReport> Execute(ForeignFormat format, const Place& place) {
    (void)share_.Takes(place.path(), 0);
    // CheckMembers compares the CRCs, so reading does not compare them again.
    HF_ASSIGN_OR_RETURN(const std::vector<Place> archives,
                        ArchivesOf(format, place));
    if (!archives.empty()) options_.verify = false;
    HF_RETURN_IF_ERROR(OpenBoth(format, place));
    if (checkpoint_ != nullptr && format == ForeignFormat::kMegatronZarr) {
      return VerifyMegatron();
    }
    if (checkpoint_ != nullptr) {
      report_.leaf_count = checkpoint_->leaves().size();
      HF_RETURN_IF_ERROR(ReadAll());
      if (!archives.empty()) {
        HF_RETURN_IF_ERROR(CheckMembers(format, archives));
      } else {
        report_.notes.push_back(std::string(ForeignFormatName(format)) +
                                " carries no checksum: values can be wrong "
                                "without a trace");
      }
    }
    SortFindings(report_);
    report_.stats.total_seconds = watch_.Lap();
    return ShareReport{std::move(report_), share_.digest()};
  }

 private:
  // Returns the zip archives, whose members have CRCs; empty for other formats.
  static Result<std::vector<Place>> ArchivesOf(ForeignFormat format,
                                               const Place& place) {
    if (format == ForeignFormat::kTorchFile) return CheckedArchives(place);
    if (format == ForeignFormat::kNpz) return std::vector<Place>{place};
    return std::vector<Place>();
  }

  // Verifies a Megatron zarr checkpoint. Its arrays may claim any size, so only
  // listed files are read.
  Result<ShareReport> VerifyMegatron() {
    HF_ASSIGN_OR_RETURN(
        ShareReport share,
        megatron::VerifyMegatronZarr(Place(checkpoint_->info().path), options_,
                                     run_options_, std::move(share_)));
    for (Damage& damage : report_.damages) {
      share.report.damages.push_back(std::move(damage));
    }
    for (Damage& found : report_.not_supported) {
      share.report.not_supported.push_back(std::move(found));
    }
    SortFindings(share.report);
    return share;
  }

  // If `status` is a finding, records it and returns ok; otherwise returns
  // `status`.
  Status Add(std::string leaf, Status status) {
    if (status.ok()) return status;
    std::lock_guard lock(mutex_);
    return AddFinding({std::move(leaf), "", std::nullopt, std::move(status)},
                      report_);
  }

  // Opens the checkpoint, without the sidecar if opening with it fails.
  Status OpenBoth(ForeignFormat format, const Place& place) {
    Result<std::unique_ptr<Checkpoint>> opened =
        OpenForeign(format, place, options_, options_.use_sidecar);
    if (!opened.ok() && !IsInvalidHead(opened.status())) {
      return opened.status();
    }
    if (!opened.ok()) {
      HF_RETURN_IF_ERROR(Add("", opened.status()));
      if (!options_.use_sidecar) return Status();
      opened = OpenForeign(format, place, options_, false);
    }
    // If opening fails with damage even so, the report already has the damage.
    // Any other failure is returned.
    if (!opened.ok() && !IsDamage(opened.status())) return opened.status();
    if (opened.ok()) checkpoint_ = std::move(opened).value();
    return Status();
  }

  Result<std::vector<ReadUnit>> MakeUnits() {
    std::vector<ReadUnit> units;
    const std::vector<LeafInfo>& leaves = checkpoint_->leaves();
    for (size_t i = 0; i < leaves.size(); ++i) {
      const LeafInfo& leaf = leaves[i];
      if (!leaf.problem.ok()) {
        HF_RETURN_IF_ERROR(Add(leaf.name, IsNotSupported(leaf)
                                              ? NotSupported(leaf.problem)
                                              : leaf.problem));
        continue;
      }
      if (!HasElements(leaf.kind)) {
        if (IsEmptyKind(leaf.kind) || leaf.kind == ValueKind::kPlaceholder) {
          continue;
        }
        if (share_.Takes(leaf.name, leaf.decoded_bytes)) {
          units.push_back({i, {}, leaf.decoded_bytes});
        }
        continue;
      }
      AddSlabs(i, units);
    }
    return units;
  }

  // Adds the units of a leaf: one unit for a stream that must be decoded from
  // its beginning, many units for raw bytes.
  void AddSlabs(size_t i, std::vector<ReadUnit>& units) {
    const LeafInfo& leaf = checkpoint_->leaves()[i];
    std::vector<Box> slabs = SlabsOf(leaf, kSlabBytes);
    if (leaf.codecs != "none") {
      if (!share_.Takes(leaf.name, leaf.decoded_bytes)) return;
      units.push_back({i, std::move(slabs), leaf.decoded_bytes});
      return;
    }
    for (Box& slab : slabs) {
      const uint64_t bytes = ElementCount(slab.shape) * DTypeBytes(*leaf.dtype);
      if (!share_.Takes(leaf.name, bytes)) continue;
      units.push_back({i, {std::move(slab)}, bytes});
    }
  }

  Status ReadAll() {
    HF_ASSIGN_OR_RETURN(const std::vector<ReadUnit> units, MakeUnits());
    uint64_t total_bytes = 0;
    for (const ReadUnit& unit : units) total_bytes += unit.byte_count;
    run_.StartPhase("verify", total_bytes);
    return run_.executor().ParallelFor(
        units.size(),
        [&](size_t i, int) {
          return Add(checkpoint_->leaves()[units[i].leaf].name,
                     ReadUnitOf(units[i]));
        },
        &run_.cancel());
  }

  Status ReadUnitOf(const ReadUnit& unit) {
    if (unit.slabs.empty()) {
      HF_ASSIGN_OR_RETURN(const std::string text,
                          checkpoint_->ReadText(unit.leaf));
      Count(1, text.size(), text.size());
      const bool is_object =
          checkpoint_->leaves()[unit.leaf].kind == ValueKind::kObject;
      const Status status = is_object ? ReadTorchFile(text).status() : Status();
      return status.code() == StatusCode::kPermissionDenied
                 ? NotSupported(status)
                 : status;
    }
    const DType dtype = *checkpoint_->leaves()[unit.leaf].dtype;
    RunOptions alone = run_options_;
    alone.threads = 1;
    alone.progress = nullptr;
    for (const Box& slab : unit.slabs) {
      HF_RETURN_IF_ERROR(run_.cancel().Check());
      const uint64_t bytes = ElementCount(slab.shape) * DTypeBytes(dtype);
      const ByteBudget::Lease lease = run_.budget().Acquire(bytes);
      HF_ASSIGN_OR_RETURN(Array array, Array::Allocate(dtype, slab.shape));
      HF_ASSIGN_OR_RETURN(
          const Stats stats,
          checkpoint_->ReadInto(
              {{unit.leaf, slab.origin, array.mutable_view()}}, alone));
      Count(1, bytes, stats.stored_bytes);
    }
    return Status();
  }

  Status CheckMembers(ForeignFormat format,
                      const std::vector<Place>& archives) {
    std::set<std::string> unread;  // members whose elements were not read
    for (const LeafInfo& leaf : checkpoint_->leaves()) {
      if (!leaf.problem.ok())
        unread.insert(leaf.name + std::string(kNpySuffix));
    }
    uint64_t member_count = 0;
    uint64_t unread_count = 0;
    for (const Place& file : archives) {
      uint64_t count = 0;
      HF_ASSIGN_OR_RETURN(
          std::vector<Damage> damages,
          CheckZipMembers(
              file, run_.executor(), run_.cancel(),
              [&](const std::string& name, uint64_t byte_count) {
                const bool is_mine = share_.Takes(name, byte_count);
                if (is_mine && unread.contains(name)) ++unread_count;
                return is_mine;
              },
              count));
      member_count += count;
      for (Damage& damage : damages) {
        if (archives.size() > 1) damage.file = file.name() + "/" + damage.file;
        HF_RETURN_IF_ERROR(AddFinding(std::move(damage), report_));
      }
    }
    // A member of an npz file is one array. A member of a torch file is a
    // storage, which any number of tensors share.
    report_.checksummed_chunk_count += format == ForeignFormat::kNpz
                                           ? member_count - unread_count
                                           : report_.chunk_count;
    return Status();
  }

  void Count(uint64_t chunks, uint64_t decoded_bytes, uint64_t stored_bytes) {
    {
      std::lock_guard lock(mutex_);
      report_.chunk_count += chunks;
      report_.stats.decoded_bytes += decoded_bytes;
      report_.stats.stored_bytes += stored_bytes;
    }
    run_.AddDone(decoded_bytes);
  }

  OpenOptions options_;
  const RunOptions run_options_;
  Run run_;
  WorkShare share_;
  Stopwatch watch_;
  std::unique_ptr<Checkpoint> checkpoint_;
  std::mutex mutex_;
  VerifyReport report_;
};

// The number of bytes of an array that are read at a time.
constexpr uint64_t kVerifySlabBytes = uint64_t{64} << 20;

}  // namespace

Result<ShareReport> VerifyForeign(ForeignFormat format, const Place& place,
                                  const OpenOptions& options,
                                  const RunOptions& run, WorkShare share) {
  return ForeignVerifier(place, options, run, std::move(share))
      .Execute(format, place);
}

namespace {

// Checks that a delta's bases exist and yield the elements that were saved.
// Every rank of a group reads everything.
Status VerifyChain(const std::string& path, const OpenOptions& options,
                   const RunOptions& run, VerifyReport& report) {
  const auto add = [&](const std::string& leaf, const Status& status) {
    return IsDamage(status)
               ? AddFinding({leaf, "", std::nullopt, status}, report)
               : status;
  };
  OpenOptions open = options;
  open.stored_sizes = false;
  const auto opened = Open(path, open);
  // If damage was already reported, a failure to open adds nothing.
  if (!opened.ok()) return report.ok() ? add("", opened.status()) : Status();
  const Checkpoint& checkpoint = **opened;
  if (checkpoint.info().bases.empty()) return Status();
  report.leaf_count = checkpoint.leaves().size();
  for (size_t i = 0; i < checkpoint.leaves().size(); ++i) {
    const LeafInfo& leaf = checkpoint.leaves()[i];
    if (!HasElements(leaf.kind)) continue;
    if (!leaf.problem.ok()) {
      HF_RETURN_IF_ERROR(add(leaf.name, leaf.problem));
      continue;
    }
    for (const Box& slab : SlabsOf(leaf, kVerifySlabBytes)) {
      HF_ASSIGN_OR_RETURN(Array scratch,
                          Array::Allocate(*leaf.dtype, slab.shape));
      const Status read =
          checkpoint.ReadInto({{i, slab.origin, scratch.mutable_view()}}, run)
              .status();
      if (read.ok()) continue;
      HF_RETURN_IF_ERROR(add(leaf.name, read));
      break;
    }
  }
  return Status();
}

Result<VerifyReport> VerifySeen(const Result<Place>& source,
                                const std::string& path,
                                const OpenOptions& options,
                                const RunOptions& run, ProcessGroup* group) {
  const LookScope look(source.ok() ? *source : Place());
  const Result<ForeignPlace> found =
      source.ok() ? FindForeignPlace(look.place(), options) : source.status();
  if (found.ok() && found->format == ForeignFormat::kNone) {
    HF_ASSIGN_OR_RETURN(VerifyReport report,
                        VerifyCheckpoint(look.place(), options, run, group));
    HF_RETURN_IF_ERROR(VerifyChain(path, options, run, report));
    return report;
  }
  return VerifyInShares(
      path, group, [&](WorkShare share) -> Result<ShareReport> {
        HF_RETURN_IF_ERROR(found.status());
        return VerifyForeign(found->format, found->place, found->options, run,
                             std::move(share));
      });
}

}  // namespace

Result<VerifyReport> Verify(const std::string& path, const OpenOptions& options,
                            const RunOptions& run, ProcessGroup* group) {
  const Result<Place> source = SourcePlace(path);
  const auto verify = [&] {
    return VerifySeen(source, path, options, run, group);
  };
  // A group of ranks does not read again, because all ranks would have to agree
  // to do so.
  const bool is_together = group != nullptr && group->size() > 1;
  return is_together || !source.ok()
             ? verify()
             : ReadAgainIfReplaced(source->path(), verify);
}

}  // namespace holdfast
