#include "tools/convert/orbax_convert.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <span>
#include <utility>

#include "engine/commit/layout.h"
#include "engine/commit/server_copy.h"
#include "engine/format/directory_names.h"
#include "engine/save/pending_saver.h"
#include "engine/save/save_options.h"
#include "foreign/open/may_replace.h"
#include "foreign/open/open.h"
#include "ground/base/clock.h"
#include "ground/base/coding.h"
#include "ground/base/no_throw.h"
#include "ground/base/status_macros.h"
#include "ground/base/string_coding.h"
#include "ground/base/xxh64.h"
#include "ground/run/run.h"
#include "holdfast/detail/commit.h"
#include "holdfast/process_group.h"
#include "stores/place/directory_ops.h"
#include "stores/storage/errno_status.h"
#include "stores/storage/url_path.h"
#include "tools/convert/budgets.h"
#include "tools/convert/check_copy.h"
#include "tools/convert/orbax_plan.h"
#include "tools/convert/part_save.h"
#include "tools/convert/work_directory.h"

namespace holdfast {
namespace {

// The complete checkpoint's name in the work directory, which also holds the
// numbered items.
constexpr std::string_view kWhole = "checkpoint";

// Encodes the hashes of a part's units, for the journal.
std::string HashesMark(std::span<const std::optional<uint64_t>> hashes) {
  std::string mark;
  for (const std::optional<uint64_t>& hash : hashes) {
    mark += hash ? '\1' : '\0';
    PutU64Little(mark, hash.value_or(0));
  }
  return mark;
}

// Decodes the hashes. Returns false if the mark belongs to other units.
bool TakeHashes(std::string_view mark, size_t unit_count,
                std::vector<std::optional<uint64_t>>& hashes) {
  Cursor cursor(mark);
  for (size_t i = 0; i < unit_count; ++i) {
    uint8_t is_there = 0;
    uint64_t hash = 0;
    if (!cursor.ReadByte(is_there) || !cursor.ReadU64Little(hash)) return false;
    hashes.push_back(is_there != 0 ? std::optional(hash) : std::nullopt);
  }
  return cursor.remaining() == 0;
}

class OrbaxConverter {
 public:
  OrbaxConverter(const Checkpoint& source, uint64_t source_hash,
                 const Place& target, const ConvertOptions& options,
                 const ReferredArrays* referred)
      : source_(source),
        source_hash_(source_hash),
        target_(target),
        options_(options),
        referred_(referred),
        group_(options.group != nullptr && options.group->size() > 1
                   ? options.group
                   : nullptr),
        budgets_(options.run.memory_bytes) {}

  Result<ConvertResult> Execute() {
    HF_RETURN_IF_ERROR(Agree("plan", Prepare()));
    HF_RETURN_IF_ERROR(has_parts_ ? SaveParts() : Save());
    if (has_parts_ && !checks_first_) HF_RETURN_IF_ERROR(Publish());
    if (options_.check) HF_RETURN_IF_ERROR(Agree("check", Check()));
    if (checks_first_) HF_RETURN_IF_ERROR(Publish());
    return Sum();
  }

 private:
  Status Agree(std::string_view phase, const Status& mine) const {
    return group_ == nullptr ? mine
                             : group_->Agree({phase, target_.path()}, mine);
  }

  bool IsPrimary() const { return group_ == nullptr || group_->rank() == 0; }

  Status Prepare() {
    return CatchBadAlloc([&]() -> Status {
      HF_ASSIGN_OR_RETURN(plan_, MakeOrbaxPlan(source_, options_, referred_));
      if (referred_ != nullptr) HF_RETURN_IF_ERROR(referred_->may_begin());
      result_.format = plan_.format;
      result_.report = std::move(plan_.report);
      uint64_t bytes = 0;
      for (const PlannedItem& item : plan_.items) {
        result_.leaf_count += item.leaves.size();
        for (const CopiedLeaf& leaf : item.leaves) {
          if (leaf.kind == ValueKind::kArray && leaf.dtype) {
            bytes += ElementCount(leaf.shape) * DTypeBytes(*leaf.dtype);
          }
        }
      }
      HF_ASSIGN_OR_RETURN(const bool replaces_foreign, ReplacesForeign());
      checks_first_ = replaces_foreign || ReplacesSource();
      if (checks_first_ && target_.is_remote()) {
        HF_RETURN_IF_ERROR(CheckMayReplaceAnyFormat(target_, plan_.result_id));
      }
      if (checks_first_ && options_.also != nullptr) {
        return UnimplementedError(
            "overwrite " + target_.path() +
            " by a checkpoint of two formats: it is the source, or none of "
            "Orbax's; convert to another place, and remove it then");
      }
      has_parts_ = group_ == nullptr && referred_ == nullptr &&
                   options_.also == nullptr && !target_.is_remote() &&
                   (checks_first_ || PartCount(bytes, options_.part_bytes) > 1);
      return Status();
    });
  }

  // Returns true if the target to overwrite is not an Orbax checkpoint, which a
  // save cannot replace.
  Result<bool> ReplacesForeign() const {
    if (!options_.overwrite) return false;
    HF_ASSIGN_OR_RETURN(const ForeignFormat format,
                        FindForeignFormat(target_.Absolute()));
    if (format != ForeignFormat::kNone && target_.is_remote()) {
      return UnimplementedError(
          "overwrite " + target_.path() + ": it is a " +
          std::string(ForeignFormatName(format)) +
          " checkpoint, which has no marker that would say which of the two "
          "counts; remove it first");
    }
    if (format != ForeignFormat::kNone && group_ != nullptr) {
      return UnimplementedError(
          "overwrite " + target_.path() + ": it is a " +
          std::string(ForeignFormatName(format)) +
          " checkpoint, which many processes cannot replace; remove it first");
    }
    return format != ForeignFormat::kNone;
  }

  // Returns true if the target replaces the source. The source must then stay
  // until the copy has been compared with it.
  bool ReplacesSource() const {
    if (!options_.overwrite || group_ != nullptr || referred_ != nullptr) {
      return false;
    }
    const std::string target = target_.Absolute().path();
    if (target_.is_remote()) {
      return AbsolutePath(source_.info().path) == target;
    }
    std::error_code error;
    return std::filesystem::equivalent(source_.info().path, target, error);
  }

  SaveOptions SaveOptionsOf(const PlannedItem& item) const {
    SaveOptions save;
    save.run = options_.run;
    save.run.memory_bytes = budgets_.write_bytes;
    save.group = group_;
    save.format = plan_.format;
    save.zarr_format = plan_.zarr_format;
    save.use_ocdbt = plan_.use_ocdbt;
    save.also = options_.also;
    const bool is_default = options_.compression == Compression::kZstd;
    save.compression = options_.also != nullptr && is_default
                           ? Compression::kNone
                           : options_.compression;
    save.chunk_bytes = options_.chunk_bytes;
    save.overwrite = options_.overwrite;
    save.write_digests = options_.write_digests;
    save.sync = options_.sync;
    save.now_ns = options_.now_ns;
    save.random_hex = options_.random_hex;
    save.item_custom_metadata = item.item_custom_metadata;
    save.item_documents = item.item_documents;
    save.value_metadata_tree = item.value_metadata_tree;
    return save;
  }

  Result<std::unique_ptr<PendingSaver>> BeginPending(const Place& place) const {
    PendingSaveOptions begin;
    begin.group = group_;
    begin.overwrite = options_.overwrite;
    begin.sync = options_.sync;
    begin.write_digests = options_.write_digests;
    begin.now_ns = options_.now_ns;
    begin.result_id = plan_.result_id;
    if (referred_ != nullptr) begin.may_commit = referred_->may_commit;
    HF_ASSIGN_OR_RETURN(auto pending, PendingSaver::Begin(place, begin));
    HF_RETURN_IF_ERROR(pending->BoundAccess(SourcePathsOf(source_, options_)));
    return pending;
  }

  // Writes everything in one pass, as Save does.
  Status Save() {
    HF_ASSIGN_OR_RETURN(const auto pending,
                        BeginPending(checks_first_ ? WholePlace() : target_));
    for (PlannedItem& item : plan_.items) {
      HF_RETURN_IF_ERROR(SaveItem(*pending, item));
    }
    return pending->Commit(plan_.root);
  }

  Status SaveItem(PendingSaver& pending, PlannedItem& item) {
    CopiedItem& copied = copied_.emplace_back();
    copied.leaves = item.leaves;
    if (!item.place.json_file.empty()) {
      return Agree("write", pending.WriteFile(
                                item.place.name + "/" + item.place.json_file,
                                item.text));
    }
    const Stopwatch begun;
    if (referred_ != nullptr) {
      HF_RETURN_IF_ERROR(referred_->place_files(
          item.place.name, pending.place() / item.place.name));
    }
    const Result<SavePlan> plan =
        pending.Plan(item.tree.tree, SaveOptionsOf(item));
    std::vector<FeedUnit> units;
    if (plan.ok()) units = UnitsOf(*plan, budgets_.waiting_bytes / 2);
    return Feed(item, std::move(units), copied, [&] {
      return pending.SavePlanned(item.place.name, plan, begun);
    });
  }

  // Calls `save`, whose arrays are read from a feed of `units`. Adds the units
  // and their hashes to `copied`.
  template <typename SaveFn>
  Status Feed(PlannedItem& item, std::vector<FeedUnit> units,
              CopiedItem& copied, const SaveFn& save) {
    ChunkFeed feed(source_, std::move(units),
                   {ReadOptions(), budgets_.waiting_bytes});
    *item.tree.feed = &feed;
    const Result<SaveResult> saved = save();
    *item.tree.feed = nullptr;
    HF_RETURN_IF_ERROR(saved.status());
    const Stats& stats = saved->stats;
    result_.decoded_bytes += stats.decoded_bytes;
    result_.written_bytes += stats.stored_bytes;
    result_.read_bytes += feed.stored_bytes();
    result_.waiting_bytes_peak =
        std::max(result_.waiting_bytes_peak, feed.waiting_bytes_peak());
    copied.units.insert(copied.units.end(), feed.units().begin(),
                        feed.units().end());
    copied.hashes.insert(copied.hashes.end(), feed.hashes().begin(),
                         feed.hashes().end());
    return Status();
  }

  // One item that is a tree, written in parts.
  struct PartedItem {
    PlannedItem* item = nullptr;
    std::vector<SavePlan> parts;
    std::string directory;
    uint64_t first_record = 0;  // the first part's number in the journal
  };

  // Writes each item's parts in a directory that is renamed to the item's at
  // the end.
  Status SaveParts() {
    HF_ASSIGN_OR_RETURN(std::vector<PartedItem> items, PlanParts());
    const Place target = target_.Absolute();
    if (IsTemporaryName(target.name())) {
      return InvalidArgumentError(
          "convert to " + target.path() +
          ": the name is that of a temporary directory");
    }
    HF_ASSIGN_OR_RETURN(
        work_,
        WorkDirectory::Begin(target, {source_hash_, HashOf(items)},
                             {.overwrite = options_.overwrite,
                              .restart = options_.restart || source_hash_ == 0,
                              .sync = options_.sync,
                              .copies_of = SourcePathsOf(source_, options_),
                              .result_id = plan_.result_id}));
    if (options_.run.progress) {
      for (const PartedItem& item : items) {
        for (const SavePlan& part : item.parts) {
          progress_.total_bytes += part.decoded_bytes;
        }
      }
    }
    Status written = WriteItems(items);
    if (!written.ok() && work_->is_resumed() &&
        written.code() != StatusCode::kCancelled &&
        written.code() != StatusCode::kResourceExhausted) {
      // The files left by an earlier run do not match their journal.
      HF_RETURN_IF_ERROR(
          work_->StartAnew("the files of an earlier conversion cannot be "
                           "used (" +
                           written.ToString() + ")"));
      copied_.clear();
      progress_.done_bytes = 0;
      written = WriteItems(items);
    }
    result_.report.resume_text = work_->resume_text();
    result_.report.is_resumed = work_->is_resumed();
    HF_RETURN_IF_ERROR(work_->WithAdvice(written));
    return CommitParts(items);
  }

  Result<std::vector<PartedItem>> PlanParts() {
    std::vector<PartedItem> items;
    uint64_t record = 0;
    for (PlannedItem& item : plan_.items) {
      if (!item.place.json_file.empty()) continue;
      PartedItem& parted = items.emplace_back();
      parted.item = &item;
      SaveOptions save = ItemOptions(target_, SaveOptionsOf(item));
      if (options_.run.progress) {
        save.run.progress = [this](const Progress& progress) {
          Report(progress);
        };
      }
      HF_ASSIGN_OR_RETURN(parted.parts, PlanSaveParts(item.tree.tree, save,
                                                      options_.part_bytes));
      parted.first_record = record;
      record += parted.parts.size() + 1;
    }
    return items;
  }

  uint64_t HashOf(const std::vector<PartedItem>& items) const {
    std::string text;
    PutString(text, FormatName(plan_.format));
    PutString(text, source_.info().path);
    for (const PlannedItem& item : plan_.items) {
      PutString(text, item.place.name);
      PutString(text, item.text);
      for (const CopiedLeaf& leaf : item.leaves) PutVarint(text, leaf.source);
    }
    // The budget determines how units are divided, and the journal has one hash
    // for each unit.
    PutVarint(text, budgets_.waiting_bytes);
    for (const PartedItem& item : items) {
      PutVarint(text, item.parts.size());
      PutU64Little(text, SavePlanHash(item.parts[0]));
    }
    return ElementsHash(text);
  }

  Status WriteItems(std::vector<PartedItem>& items) {
    result_.report.kept_bytes = 0;
    size_t next = 0;
    for (PlannedItem& item : plan_.items) {
      CopiedItem& copied = copied_.emplace_back();
      copied.leaves = item.leaves;
      if (!item.place.json_file.empty()) continue;
      PartedItem& parted = items[next];
      parted.directory = work_->data_path() + "/" + std::to_string(next);
      ++next;
      HF_RETURN_IF_ERROR(MakeDirectory(parted.directory));
      for (size_t i = 0; i < parted.parts.size(); ++i) {
        HF_RETURN_IF_ERROR(WritePart(parted, i, copied));
      }
      HF_RETURN_IF_ERROR(FinishParts(parted));
    }
    return Status();
  }

  static Status MakeDirectory(const std::string& path) {
    const Status made = CreateDirectoryNew(Place(path));
    return made.code() == StatusCode::kAlreadyExists ? Status() : made;
  }

  Status WritePart(PartedItem& item, size_t part, CopiedItem& copied) {
    const SavePlan& plan = item.parts[part];
    const uint64_t record = item.first_record + part;
    const auto found = work_->found().marks.find(record);
    std::vector<FeedUnit> units = UnitsOf(plan, budgets_.waiting_bytes / 2);
    const size_t first = copied.units.size();
    if (found != work_->found().marks.end() &&
        TakeHashes(found->second, units.size(), copied.hashes)) {
      KeepPart(plan, units, copied);
      return Status();
    }
    copied.hashes.resize(first);
    HF_RETURN_IF_ERROR(Feed(*item.item, std::move(units), copied, [&] {
      return CatchBadAlloc([&] {
        return WriteSavePart(item.directory, plan, static_cast<int64_t>(part));
      });
    }));
    progress_.done_bytes += plan.decoded_bytes;
    const JournalRecord done{
        record, HashesMark(std::span(copied.hashes).subspan(first))};
    return work_->Append({&done, 1});
  }

  void KeepPart(const SavePlan& plan, const std::vector<FeedUnit>& units,
                CopiedItem& copied) {
    result_.report.kept_bytes += plan.decoded_bytes;
    result_.decoded_bytes += plan.decoded_bytes;
    copied.units.insert(copied.units.end(), units.begin(), units.end());
    Report({.phase = "write", .done_bytes = plan.decoded_bytes});
    progress_.done_bytes += plan.decoded_bytes;
  }

  void Report(const Progress& part) const {
    if (!options_.run.progress) return;
    options_.run.progress({part.phase, progress_.done_bytes + part.done_bytes,
                           progress_.total_bytes});
  }

  Status FinishParts(const PartedItem& item) {
    const uint64_t record = item.first_record + item.parts.size();
    if (work_->found().marks.contains(record)) return Status();
    HF_RETURN_IF_ERROR(FinishItem(
        item.directory,
        FinishOptionsOf(*item.parts[0].options, "", std::ssize(item.parts))));
    const JournalRecord done{record, ""};
    return work_->Append({&done, 1});
  }

  // Returns the new checkpoint's path until it gets its name. In a bucket, the
  // path is one that the cleanup of temporary directories finds.
  Place WholePlace() const {
    if (has_parts_) return Place(work_->data_path()) / kWhole;
    const Place target = target_.Absolute();
    return target.parent() / TemporaryName(target.name()) / kWhole;
  }

  // Moves the items to the places where a save would have written them, and
  // commits the result.
  Status CommitParts(const std::vector<PartedItem>& items) {
    HF_ASSIGN_OR_RETURN(const auto pending, BeginPending(WholePlace()));
    // From here on items move away, and the journal would name files that no
    // longer exist.
    HF_RETURN_IF_ERROR(work_->DropJournal());
    for (const PartedItem& item : items) {
      const std::string& name = item.item->place.name;
      HF_RETURN_IF_ERROR(MoveItem(item.directory, pending->directory(), name));
      HF_RETURN_IF_ERROR(pending->AdoptItem(name));
    }
    for (const PlannedItem& item : plan_.items) {
      if (item.place.json_file.empty()) continue;
      HF_RETURN_IF_ERROR(pending->WriteFile(
          item.place.name + "/" + item.place.json_file, item.text));
    }
    return pending->Commit(plan_.root);
  }

  // Replaces the old checkpoint, of any format, at the target's path.
  Status Publish() {
    is_published_ = true;
    if (has_parts_) return work_->Publish(std::string(kWhole));
    const CancelToken cancel(options_.run.cancel);
    return ReplaceByCopy(WholePlace(), target_.Absolute(), plan_.result_id,
                         options_.now_ns ? options_.now_ns() : SystemNowNs(),
                         &cancel);
  }

  static Status MoveItem(const std::string& from, const std::string& root,
                         const std::string& name) {
    if (!name.empty()) return Rename(from, root + "/" + name);
    HF_ASSIGN_OR_RETURN(const std::vector<std::string> entries,
                        ListDirectory(Place(from)));
    for (const std::string& entry : entries) {
      HF_RETURN_IF_ERROR(Rename(from + "/" + entry, root + "/" + entry));
    }
    return Status();
  }

  static Status Rename(const std::string& from, const std::string& to) {
    if (std::rename(from.c_str(), to.c_str()) == 0) return Status();
    return ErrnoStatus(errno, "rename " + from + " to", to);
  }

  RunOptions ReadOptions() const { return budgets_.ReadOptions(options_.run); }

  Status Check() {
    return CatchBadAlloc([&]() -> Status {
      OpenOptions open;
      open.missing_chunks = options_.open.missing_chunks;
      open.stored_sizes = false;
      const bool waits = (has_parts_ || checks_first_) && !is_published_;
      HF_ASSIGN_OR_RETURN(const auto target,
                          Open((waits ? WholePlace() : target_).path(), open));
      const CheckOptions check{ReadOptions(), options_.run.progress,
                               budgets_.waiting_bytes, IsPrimary()};
      HF_ASSIGN_OR_RETURN(result_.checked_bytes,
                          CheckCopy(source_, *target, copied_, check));
      return Status();
    });
  }

  // Adds up the results of all ranks, on every rank.
  Result<ConvertResult> Sum() {
    result_.total_seconds = watch_.Lap();
    if (group_ == nullptr) return std::move(result_);
    std::string mine;
    for (const auto field : kSummed) PutVarint(mine, result_.*field);
    PutVarint(mine, result_.waiting_bytes_peak);
    HF_ASSIGN_OR_RETURN(const std::vector<std::string> all,
                        group_->AllGather({"done", target_.path()}, mine));
    for (const auto field : kSummed) result_.*field = 0;
    for (const std::string& bytes : all) HF_RETURN_IF_ERROR(Add(bytes));
    return std::move(result_);
  }

  Status Add(std::string_view bytes) {
    Cursor cursor(bytes);
    bool is_read = true;
    uint64_t value = 0;
    for (const auto field : kSummed) {
      is_read = is_read && ReadVarint64(cursor, value);
      result_.*field += value;
    }
    if (!is_read || !ReadVarint64(cursor, value)) {
      return DataLossError("convert: a rank's report cannot be understood");
    }
    result_.waiting_bytes_peak = std::max(result_.waiting_bytes_peak, value);
    return Status();
  }

  static constexpr uint64_t ConvertResult::* kSummed[] = {
      &ConvertResult::decoded_bytes, &ConvertResult::read_bytes,
      &ConvertResult::written_bytes, &ConvertResult::checked_bytes};

  const Checkpoint& source_;
  const uint64_t source_hash_;
  const Place target_;
  const ConvertOptions& options_;
  const ReferredArrays* const referred_;
  ProcessGroup* const group_;
  const Budgets budgets_;
  Stopwatch watch_;
  OrbaxPlan plan_;
  // The new checkpoint is complete and compared before the old one is removed.
  bool checks_first_ = false;
  bool has_parts_ = false;
  bool is_published_ = false;
  std::unique_ptr<WorkDirectory> work_;  // of parts
  Progress progress_;                    // of finished parts
  std::vector<CopiedItem> copied_;       // like plan_.items
  ConvertResult result_;
};

}  // namespace

Result<ConvertResult> ConvertToOrbax(const Checkpoint& source,
                                     uint64_t source_hash, const Place& target,
                                     const ConvertOptions& options,
                                     const ReferredArrays* referred) {
  return CatchBadAlloc([&] {
    return OrbaxConverter(source, source_hash, target, options, referred)
        .Execute();
  });
}

}  // namespace holdfast
