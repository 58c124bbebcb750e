#include "tools/convert/format_convert.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <thread>
#include <utility>

#include "engine/commit/layout.h"
#include "foreign/sidecar/tree_sidecar.h"
#include "ground/base/coding.h"
#include "ground/base/no_throw.h"
#include "ground/base/status_macros.h"
#include "ground/base/string_coding.h"
#include "ground/base/xxh64.h"
#include "ground/run/run.h"
#include "tools/convert/budgets.h"
#include "tools/convert/check_copy.h"
#include "tools/convert/target_format.h"
#include "tools/convert/target_plan.h"
#include "tools/convert/work_directory.h"

namespace holdfast {
namespace {

// The maximum number of bytes written between two appends to the journal.
constexpr uint64_t kJournalBytes = uint64_t{256} << 20;
constexpr uint64_t kPieceBytesMax = uint64_t{8} << 20;

// Returns a piece's entry in the journal: its hash, then the target's mark.
std::string MarkOf(uint64_t hash, std::string_view target_mark) {
  std::string mark;
  PutU64Little(mark, hash);
  return mark.append(target_mark);
}

bool SplitMark(std::string_view mark, uint64_t& hash,
               std::string_view& target_mark) {
  Cursor cursor(mark);
  return cursor.ReadU64Little(hash) &&
         cursor.ReadBytes(cursor.remaining(), target_mark);
}

class FormatConverter {
 public:
  FormatConverter(const Checkpoint& source, uint64_t source_hash,
                  const Place& target, const ConvertOptions& options,
                  FormatAccess access)
      : source_(source),
        source_hash_(source_hash),
        target_(target.Absolute()),
        options_(options),
        access_(std::move(access)),
        budgets_(options.run.memory_bytes),
        run_(WritePhase(options, budgets_)),
        piece_bytes_max_(PieceBytesMax(budgets_)) {}

  Result<ConvertResult> Execute() {
    HF_RETURN_IF_ERROR(Plan());
    HF_RETURN_IF_ERROR(BeginWork());
    const Status done = Work();
    if (!done.ok()) {
      if (done.code() == StatusCode::kDataLoss ||
          done.code() == StatusCode::kInvalidArgument) {
        // Continuing from these files would fail the same way.
        work_->Discard();
      }
      return work_->WithAdvice(done);
    }
    HF_RETURN_IF_ERROR(work_->Publish(access_.target->OneFile()));
    result_.total_seconds = watch_.Lap();
    return std::move(result_);
  }

 private:
  static uint64_t PieceBytesMax(const Budgets& budgets) {
    return std::clamp<uint64_t>(budgets.waiting_bytes / 8, 1, kPieceBytesMax);
  }

  // Returns the options for the workers that write. The feed accounts for their
  // memory. There are at most as many workers as pieces in a batch, so that the
  // next batch fits in memory while they process one. Additional workers would
  // read separately, into memory that is not counted.
  static RunOptions WritePhase(const ConvertOptions& options,
                               const Budgets& budgets) {
    RunOptions run = options.run;
    run.memory_bytes = 0;
    const uint64_t piece_count =
        budgets.waiting_bytes / 2 / PieceBytesMax(budgets);
    const uint64_t thread_count =
        run.threads > 0 ? run.threads
                        : std::max(1u, std::thread::hardware_concurrency());
    run.threads =
        static_cast<int>(std::clamp<uint64_t>(piece_count, 1, thread_count));
    return run;
  }

  // Returns the size limit of a file. If the target's name implies one file,
  // the limit is unbounded unless the caller gives one.
  uint64_t ShardBytesMax() const {
    const bool is_unbounded =
        options_.shard_bytes_max == 0 && NamesOneFile(target_.path());
    return is_unbounded ? UINT64_MAX : options_.shard_bytes_max;
  }

  Status CheckIsOneFile() const {
    if (!NamesOneFile(target_.path()) || !access_.target->OneFile().empty()) {
      return Status();
    }
    return InvalidArgumentError(
        target_.path() + ": its name is that of one file, and with at most " +
        std::to_string(options_.shard_bytes_max) +
        " bytes in each it would be several; name a directory, or leave the "
        "bound (--data-file-bytes) out");
  }

  Status Plan() {
    const bool keeps_chunks =
        access_.format == Format::kMegatronZarr &&
        source_.info().format == FormatName(Format::kMegatronZarr);
    HF_ASSIGN_OR_RETURN(
        plan_, MakeTargetPlan(source_,
                              {.format = access_.format,
                               .names = options_.names,
                               .map = options_.map,
                               .keeps_chunks = keeps_chunks,
                               .target = {target_.path(), ShardBytesMax(),
                                          options_.chunk_bytes, options_.sync}},
                              result_.report));
    result_.format = access_.format;
    result_.leaf_count = plan_.leaves.size();
    ReportStoredBits(plan_, access_.format, result_.report);
    return Status();
  }

  Status BeginWork() {
    HF_RETURN_IF_ERROR(target_.CheckWritable());
    if (target_.is_remote()) {
      HF_RETURN_IF_ERROR(target_.InBucket().status());
      return UnimplementedError(
          "convert to " + target_.path() + ": " +
          std::string(FormatName(access_.format)) +
          " is written in no particular order, which an object store cannot "
          "do; convert to a local path, and copy that (holdfast cp)");
    }
    const JournalHead head{source_hash_,
                           PlanHash(plan_, access_.format, piece_bytes_max_)};
    HF_ASSIGN_OR_RETURN(
        work_,
        WorkDirectory::Begin(target_, head,
                             {.overwrite = options_.overwrite,
                              // A source without files cannot be told from
                              // another one.
                              .restart = options_.restart || source_hash_ == 0,
                              .sync = options_.sync,
                              .copies_of = SourcePathsOf(source_, options_)}));
    return Status();
  }

  Status Work() {
    HF_RETURN_IF_ERROR(
        access_.target->Begin(plan_, work_->data_path(), work_->is_resumed()));
    HF_RETURN_IF_ERROR(CheckIsOneFile());
    copy_ = MakeCopyPlan(plan_, *access_.target, piece_bytes_max_);
    hashes_.resize(copy_.units.size());
    HF_RETURN_IF_ERROR(RestorePieces());
    HF_RETURN_IF_ERROR(WritePieces());
    HF_RETURN_IF_ERROR(access_.target->Finish());
    return options_.check ? Check() : Status();
  }

  Status RestorePieces() {
    result_.report.resume_text = work_->resume_text();
    result_.report.is_resumed = work_->is_resumed();
    for (size_t i = 0; i < copy_.units.size(); ++i) {
      const auto found = work_->found().marks.find(i);
      uint64_t hash = 0;
      std::string_view mark;
      if (found == work_->found().marks.end() ||
          !SplitMark(found->second, hash, mark)) {
        left_.push_back(i);
        continue;
      }
      HF_RETURN_IF_ERROR(access_.target->Restore(copy_.target_leaves[i],
                                                 copy_.units[i].box, mark));
      hashes_[i] = hash;
      result_.report.kept_bytes += copy_.units[i].byte_count();
    }
    return Status();
  }

  RunOptions ReadOptions() const { return budgets_.ReadOptions(options_.run); }

  Status WritePieces() {
    uint64_t total_bytes = 0;
    for (const FeedUnit& unit : copy_.units) total_bytes += unit.byte_count();
    result_.decoded_bytes = total_bytes;
    run_.StartPhase("write", total_bytes);
    run_.AddDone(result_.report.kept_bytes);
    std::vector<FeedUnit> units;
    for (const size_t i : left_) units.push_back(copy_.units[i]);
    ChunkFeed feed(source_, std::move(units),
                   {ReadOptions(), budgets_.waiting_bytes});
    const uint64_t group_bytes_max =
        options_.part_bytes == 0 ? kJournalBytes
                                 : std::min(kJournalBytes, options_.part_bytes);
    size_t first = 0;
    while (first < left_.size()) {
      size_t last = first;
      uint64_t group_bytes = 0;
      do {
        group_bytes += feed.units()[last++].byte_count();
      } while (last < left_.size() && group_bytes < group_bytes_max);
      HF_RETURN_IF_ERROR(WriteGroup(feed, first, last));
      first = last;
    }
    result_.read_bytes = feed.stored_bytes();
    result_.written_bytes = total_bytes - result_.report.kept_bytes;
    result_.waiting_bytes_peak = feed.waiting_bytes_peak();
    return Status();
  }

  // Writes the remaining pieces [first, last). After a failure, the written
  // pieces are kept for the next run.
  Status WriteGroup(ChunkFeed& feed, size_t first, size_t last) {
    std::vector<std::string> marks(last - first);
    std::vector<char> is_done(last - first);
    const Status written = run_.executor().ParallelFor(
        last - first,
        [&](size_t item, int) -> Status {
          const size_t i = left_[first + item];
          HF_RETURN_IF_ERROR(
              feed.Use(first + item, [&](std::string_view elements) -> Status {
                HF_ASSIGN_OR_RETURN(
                    marks[item],
                    access_.target->Write(copy_.target_leaves[i],
                                          copy_.units[i].box, elements));
                return Status();
              }));
          is_done[item] = true;
          run_.AddDone(copy_.units[i].byte_count());
          return Status();
        },
        &run_.cancel());
    // Note the written pieces even after a failure, so that they need not be
    // written again.
    const Status noted = Note(feed, first, marks, is_done);
    return written.ok() ? noted : written;
  }

  Status Note(const ChunkFeed& feed, size_t first,
              const std::vector<std::string>& marks,
              const std::vector<char>& is_done) {
    // The data must be durable before the journal names them. After a crash in
    // between, only these pieces must be written again.
    HF_RETURN_IF_ERROR(access_.target->SyncData());
    std::vector<JournalRecord> records;
    for (size_t item = 0; item < marks.size(); ++item) {
      if (!is_done[item]) continue;
      const size_t i = left_[first + item];
      hashes_[i] = feed.hashes()[first + item].value_or(0);
      records.push_back({i, MarkOf(hashes_[i], marks[item])});
    }
    return work_->Append(records);
  }

  Status Check() {
    const std::string one_file = access_.target->OneFile();
    const std::string path =
        work_->data_path() + (one_file.empty() ? "" : "/" + one_file);
    HF_ASSIGN_OR_RETURN(const auto target, access_.open(path));
    CopiedItem copied;
    copied.units = copy_.units;
    copied.hashes.assign(hashes_.begin(), hashes_.end());
    for (const TargetLeaf& leaf : plan_.leaves) {
      copied.leaves.push_back(
          {leaf.source, leaf.key, leaf.kind, leaf.dtype, leaf.shape});
    }
    const CheckOptions check{.run = ReadOptions(),
                             .progress = options_.run.progress,
                             .bytes_max = budgets_.waiting_bytes,
                             .has_keys = false};
    HF_ASSIGN_OR_RETURN(result_.checked_bytes,
                        CheckCopy(source_, *target, {copied}, check));
    return Status();
  }

  const Checkpoint& source_;
  const uint64_t source_hash_;
  const Place target_;
  const ConvertOptions& options_;
  FormatAccess access_;
  const Budgets budgets_;
  Run run_;
  const uint64_t piece_bytes_max_;
  Stopwatch watch_;
  TargetPlan plan_;
  CopyPlan copy_;
  std::vector<uint64_t> hashes_;  // like copy_.units
  std::vector<size_t> left_;      // units still to be written
  std::unique_ptr<WorkDirectory> work_;
  ConvertResult result_;
};

}  // namespace

CopyPlan MakeCopyPlan(const TargetPlan& plan, const FormatTarget& target,
                      uint64_t piece_bytes_max) {
  std::vector<size_t> order(plan.leaves.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::vector<uint64_t> positions;
  for (const size_t i : order) positions.push_back(target.FilePosition(i));
  // Writing in file order lets the disk work sequentially. The sort is stable,
  // so that equal plans have equal piece numbers, as the journal needs.
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return positions[a] < positions[b];
  });
  CopyPlan copy;
  for (const size_t i : order) {
    const TargetLeaf& leaf = plan.leaves[i];
    if (leaf.kind != ValueKind::kArray || ElementCount(leaf.shape) == 0) {
      continue;
    }
    for (Box& box : target.PiecesOf(i, piece_bytes_max)) {
      copy.units.push_back({leaf.source, leaf.dtype, std::move(box)});
      copy.target_leaves.push_back(i);
    }
  }
  return copy;
}

uint64_t PlanHash(const TargetPlan& plan, Format format,
                  uint64_t piece_bytes_max) {
  Xxh64 hash;
  const auto add_text = [&hash](std::string_view text) {
    std::string bytes;
    PutString(bytes, text);
    hash.Update(bytes);
  };
  const auto add_number = [&hash](uint64_t value) {
    std::string bytes;
    PutU64Little(bytes, value);
    hash.Update(bytes);
  };
  const auto add_shape = [&](const Shape& shape) {
    add_number(shape.size());
    for (const int64_t extent : shape) add_number(extent);
  };
  add_text(FormatName(format));
  add_text(plan.options.final_path);
  add_text(plan.source_info.path);
  add_number(plan.options.shard_bytes_max);
  add_number(plan.options.chunk_bytes);
  add_number(piece_bytes_max);
  add_number(plan.leaves.size());
  for (const TargetLeaf& leaf : plan.leaves) {
    add_number(leaf.source);
    add_number(leaf.key.size());
    for (size_t i = 0; i < leaf.key.size(); ++i) {
      add_text(leaf.key[i]);
      add_number(static_cast<uint64_t>(leaf.key_kinds[i]));
    }
    add_number(static_cast<uint64_t>(leaf.kind));
    add_number(static_cast<uint64_t>(leaf.dtype));
    add_shape(leaf.shape);
    for (const std::string* text :
         {&leaf.text, &leaf.value_type, &leaf.prng_impl, &leaf.sharding_json}) {
      add_text(*text);
    }
    add_number(leaf.write_shape.has_value());
    if (leaf.write_shape) add_shape(*leaf.write_shape);
    add_shape(leaf.chunk_shape);
  }
  return hash.Digest();
}

void ReportStoredBits(const TargetPlan& plan, Format format,
                      ConvertReport& report) {
  std::vector<ConvertReport::Entry> bits;
  for (const TargetLeaf& leaf : plan.leaves) {
    if (leaf.kind != ValueKind::kArray) continue;
    const StoredAs stored = StorableDType(FormatName(format), leaf.dtype);
    if (stored.dtype == leaf.dtype) continue;
    const auto found = std::find_if(
        report.entries.begin(), report.entries.end(),
        [&](const auto& entry) { return entry.new_name == leaf.name; });
    std::string what = "stored as the bits of ";
    what.append(DTypeName(stored.dtype)).append(", since ");
    what.append(FormatName(format)).append(" has no ");
    what.append(DTypeName(leaf.dtype));
    if (found != report.entries.end()) {
      found->what += "; " + what;
    } else {
      bits.push_back({leaf.name, leaf.name, std::move(what)});
    }
  }
  std::move(bits.begin(), bits.end(), std::back_inserter(report.entries));
}

Result<ConvertResult> ConvertToFormat(const Checkpoint& source,
                                      uint64_t source_hash, const Place& target,
                                      const ConvertOptions& options,
                                      FormatAccess access) {
  return CatchBadAlloc([&] {
    return FormatConverter(source, source_hash, target, options,
                           std::move(access))
        .Execute();
  });
}

}  // namespace holdfast
