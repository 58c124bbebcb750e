// Copy: plans (copy_plan.h), moves bytes (copy_files.h), and publishes each
// checkpoint by the rule of its target.
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "engine/commit/replaceable.h"
#include "engine/commit/tree_listing.h"
#include "engine/commit/unfinished.h"
#include "engine/format/directory_names.h"
#include "engine/references/base_record.h"
#include "foreign/open/may_replace.h"
#include "ground/base/no_throw.h"
#include "ground/base/status_macros.h"
#include "ground/base/string_coding.h"
#include "ground/record/call_record.h"
#include "ground/run/run.h"
#include "holdfast/checkpoint.h"
#include "holdfast/detail/commit.h"
#include "holdfast/steps/steps.h"
#include "holdfast/tools/remote.h"
#include "stores/place/directory_ops.h"
#include "stores/place/place.h"
#include "stores/place/step_address.h"
#include "stores/place/well_known_names.h"
#include "stores/storage/directory_lock.h"
#include "stores/storage/errno_status.h"
#include "stores/storage/replace_directory.h"
#include "stores/storage/tree_access.h"
#include "stores/storage/url_path.h"
#include "tools/copy/copy_files.h"
#include "tools/copy/copy_plan.h"
#include "tools/copy/copy_times.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;

// The number of files copied at a time from or to an object store.
constexpr int kRemoteThreads = 16;
// How often a source is listed again if it changes during the listing.
constexpr int kListAttempts = 5;

bool HasLinksBelow(const std::string& directory) {
  const auto entries = EntriesBelow(Place(directory));
  return entries.ok() &&
         std::ranges::any_of(*entries, [&](const std::string& entry) {
           std::error_code error;
           return fs::is_symlink(directory + "/" + entry, error);
         });
}

std::string JoinNames(std::string_view directory, std::string_view name) {
  if (directory.empty()) return std::string(name);
  return std::string(directory).append("/").append(name);
}

RunOptions RunOptionsOfCopy(const RunOptions& given, bool is_remote) {
  RunOptions run = given;
  if (run.threads == 0 && is_remote) run.threads = kRemoteThreads;
  if (run.threads == 0) {
    run.threads =
        static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  }
  if (run.memory_bytes != 0) {
    // Each thread holds one piece in memory, so limiting the number of threads
    // is enough.
    const uint64_t pieces = run.memory_bytes / kCopyPieceBytes;
    run.threads = static_cast<int>(
        std::clamp<uint64_t>(pieces, 1, static_cast<uint64_t>(run.threads)));
  }
  run.memory_bytes = 0;
  return run;
}

Status AlreadyThere(const std::string& path, const std::string& what) {
  return AlreadyExistsError("copy to " + path + ": " + what);
}

Status CheckPlaces(const Place& source, const Place& target) {
  const std::string& from = source.path();
  const std::string& to = target.path();
  if (to == from || to.starts_with(from + "/") || from.starts_with(to + "/")) {
    return InvalidArgumentError("copy " + from + " to " + to +
                                ": one is inside the other");
  }
  if (target.name().empty() && !target.is_remote()) {
    return InvalidArgumentError("copy to " + to +
                                ": the path names no file or directory");
  }
  return Status();
}

// Returns the entries below a directory of a listing as a separate listing.
TreeListing PartOf(const TreeListing& whole, const std::string& directory) {
  TreeListing part = whole;
  part.files.clear();
  if (!directory.empty()) {
    part.place = whole.place / directory;
    part.key = JoinNames(whole.key, directory);
  }
  const std::string prefix = directory.empty() ? "" : directory + "/";
  for (const ListedFile& file : whole.files) {
    if (!file.name.starts_with(prefix)) continue;
    part.files.push_back(file);
    part.files.back().name = file.name.substr(prefix.size());
  }
  return part;
}

// Returns the text of a copy's journal, which identifies the source. A later
// run with the same text may continue the copy.
std::string JournalText(const std::string& source, uint64_t hash) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  json["holdfast_copy"] = 1;
  json["source"] = source;
  json["files_hash"] = std::to_string(hash);
  return json.dump();
}

// Copies one checkpoint of the source to the target.
class UnitCopier {
 public:
  UnitCopier(const TreeListing& source, const CopyUnit& unit,
             const TreeListing& target, const CopyOptions& options, Run& run,
             CopyResult& result)
      : source_(source),
        unit_(unit),
        target_(target),
        options_(options),
        run_(run),
        result_(result),
        copier_(source_, run),
        journal_(JournalText(source.place.path(), ListingHash(source))) {
    for (const auto* wave : {&unit.data, &unit.heads, &unit.last}) {
      names_.insert(names_.end(), wave->begin(), wave->end());
    }
  }

  Status Execute() {
    HF_ASSIGN_OR_RETURN(const bool is_kept, KeepsTarget());
    if (is_kept) return DropJournalLeft();
    if (options_.check) {
      HF_ASSIGN_OR_RETURN(sums_, ReadListedSums(source_));
    }
    if (source_.is_local()) held_sources_ = HeldSources(source_);
    HF_RETURN_IF_ERROR(target_.is_local() ? CopyToDirectory() : CopyToBucket());
    result_.server_file_count += copier_.server_file_count();
    result_.server_byte_count += copier_.server_byte_count();
    return Status();
  }

 private:
  // --- The target's existing files.

  bool AddsMarker() const {
    return !target_.is_local() && unit_.is_orbax &&
           (unit_.last.empty() || unit_.last[0] != kCommitMarkerFile);
  }

  bool IsTargetFinished() const {
    if (target_.files.empty()) return false;
    // A directory gets its name only when it is complete.
    if (target_.is_local()) return true;
    if (unit_.is_orbax) return target_.Find(kCommitMarkerFile) != nullptr;
    return !unit_.last.empty() && target_.Find(unit_.last[0]) != nullptr;
  }

  // Returns true if the target already holds this checkpoint, and AlreadyExists
  // if it holds anything else that must not be replaced.
  Result<bool> KeepsTarget() {
    if (target_.is_file) {
      return AlreadyThere(target_.place.path(), "a file is there");
    }
    if (!IsTargetFinished()) return false;
    if (!options_.restart) {
      HF_ASSIGN_OR_RETURN(const bool is_equal, HasEqualTarget());
      if (is_equal) {
        Keep(names_);
        return true;
      }
    }
    HF_RETURN_IF_ERROR(CheckMayReplace());
    return false;
  }

  Result<bool> HasEqualTarget() {
    const bool adds_marker =
        unit_.is_orbax && source_.Find(kCommitMarkerFile) == nullptr;
    for (const ListedFile& file : target_.files) {
      const bool is_known = source_.Find(file.name) != nullptr ||
                            IsScaffold(file.name) ||
                            (adds_marker && file.name == kCommitMarkerFile);
      if (!is_known) return false;
    }
    for (const std::string& name : names_) {
      const ListedFile* const there = target_.Find(name);
      if (there == nullptr ||
          there->byte_count != source_.Find(name)->byte_count) {
        return false;
      }
    }
    // A digest file has the checksums of all files, so it is enough to compare
    // it.
    std::vector<std::string> digests;
    for (const std::string& name : names_) {
      if (FileNameOf(name) == kDigestFile) digests.push_back(name);
    }
    const bool is_summed = source_.Find(kDigestFile) != nullptr;
    return copier_.Equal(is_summed ? digests : names_, target_, "");
  }

  Status CheckMayReplace() const {
    if (!options_.overwrite) {
      return AlreadyThere(target_.place.path(),
                          "another checkpoint, or something else, is there "
                          "(overwrite replaces it)");
    }
    return CheckMayReplaceAnyFormat(target_.place);
  }

  void Keep(const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      const uint64_t bytes = source_.Find(name)->byte_count;
      ++result_.kept_file_count;
      result_.kept_byte_count += bytes;
      run_.AddDone(bytes);
    }
  }

  // Removes the journal that a crash between the marker and the end of a copy
  // left.
  Status DropJournalLeft() {
    if (target_.Find(kCopyJournal) == nullptr) return Status();
    HF_RETURN_IF_ERROR(RemoveReplaced());
    return target_.place.OpenStore()->Delete(kCopyJournal);
  }

  // --- Files.

  // Copies the files of one wave, except those that an earlier run has copied.
  Status CopyWave(const std::vector<std::string>& names,
                  const TreeListing* earlier, const CopyTarget& to) {
    std::vector<std::string> kept;
    std::vector<FileCopy> files;
    for (const std::string& name : names) {
      const ListedFile* const file = source_.Find(name);
      const ListedFile* const there =
          earlier == nullptr ? nullptr : earlier->Find(name);
      if (there != nullptr && there->byte_count == file->byte_count) {
        kept.push_back(name);
      } else {
        files.push_back({file, name});
      }
    }
    Keep(kept);
    return copier_.Copy(files, to, sums_);
  }

  // --- To a file system: written next to the target, then renamed.

  Status CopyToDirectory() {
    const std::string work = target_.place.path() + std::string(kCopySuffix);
    HF_RETURN_IF_ERROR(RecoverReplaced(target_.place).status());
    HF_ASSIGN_OR_RETURN(DirectoryLock lock, TakeWork(work));
    HF_ASSIGN_OR_RETURN(TreeListing earlier, ListWholeTree(Place(work)));
    HF_ASSIGN_OR_RETURN(const bool goes_on, GoesOn(earlier));
    if (!goes_on) {
      HF_RETURN_IF_ERROR(lock.Remove(work));
      HF_ASSIGN_OR_RETURN(lock, DirectoryLock::Make(work));
      earlier.files.clear();
    }
    const AccessRule access =
        AccessRule::Of(target_.place.path(), CopiedPaths());
    HF_RETURN_IF_ERROR(access.CloseWhileItGrows(work));
    const std::shared_ptr<Store> store = Place(work).OpenStore();
    if (!goes_on) HF_RETURN_IF_ERROR(store->Write(kCopyJournal, journal_));
    const CopyTarget to{store.get(), nullptr, ""};
    for (const auto* wave : {&unit_.data, &unit_.heads, &unit_.last}) {
      const Status copied = CopyWave(*wave, goes_on ? &earlier : nullptr, to);
      // A later run could not continue from damaged bytes.
      if (copied.code() == StatusCode::kDataLoss) {
        HF_RETURN_IF_ERROR(lock.Remove(work));
      }
      HF_RETURN_IF_ERROR(copied);
    }
    HF_RETURN_IF_ERROR(store->Delete(kCopyJournal));
    HF_RETURN_IF_ERROR(KeepTimes(source_, held_sources_, work));
    HF_RETURN_IF_ERROR(access.Apply(work, /*sync=*/true));
    HF_RETURN_IF_ERROR(store->SyncNames());
    const Status readable = CheckReadable(work);
    if (!readable.ok()) {
      HF_RETURN_IF_ERROR(lock.Remove(work));
      return readable;
    }
    return PublishWork(work);
  }

  // Refuses the copy of a checkpoint that refers to other checkpoints and would
  // not find them at the target.
  Status CheckReadable(const std::string& path) const {
    if (!unit_.is_orbax) return Status();
    OpenOptions open;
    open.stored_sizes = false;
    open.verify = true;  // for a view, checks the files its links lead to
    HF_ASSIGN_OR_RETURN(const bool refers, RefersToOthers());
    if (!refers) return Status();
    const Status opened = Open(path, open).status();
    if (opened.ok()) return Status();
    return FailedPreconditionError(
        "copy " + source_.place.path() + " to " + target_.place.path() +
        ": refused, because the copy could not be read: it refers to other "
        "checkpoints (" +
        std::string(opened.message()) +
        "); copy the whole root, or `holdfast materialize " +
        source_.place.path() + " " + target_.place.path() + "`");
  }

  // Returns true if the checkpoint refers to others. For a bucket the metadata
  // are not read, because each would be a request.
  Result<bool> RefersToOthers() const {
    for (const ListedFile& file : source_.files) {
      const std::string name = FileNameOf(file.name);
      if (name == kBaseFile) return true;
      if (source_.is_local() && name == kTreeMetadataFile) {
        const Place item = Place(source_.PathOf(file)).parent();
        HF_ASSIGN_OR_RETURN(const auto bases, BaseRecordsIn(item));
        if (!bases.empty()) return true;
      }
    }
    return !held_sources_.empty() ||
           (source_.is_local() && HasLinksBelow(source_.place.path()));
  }

  // Returns the paths of the source and of the targets of its links.
  std::vector<std::string> CopiedPaths() const {
    std::vector<std::string> paths;
    if (!source_.is_local()) return paths;
    paths.push_back(source_.place.path());
    for (const ListedFile& file : source_.files) {
      const std::string path = source_.PathOf(file);
      std::error_code ignored;
      if (fs::is_symlink(path, ignored)) paths.push_back(path);
    }
    return paths;
  }

  // Locks the directory where the copy is written: an earlier run's, or a new
  // one.
  static Result<DirectoryLock> TakeWork(const std::string& work) {
    std::error_code error;
    fs::create_directories(fs::path(work).parent_path(), error);
    if (error) return ErrnoStatus(error.value(), "create directory", work);
    HF_ASSIGN_OR_RETURN(const PathKind kind, GetPathKind(Place(work)));
    Result<DirectoryLock> lock = kind == PathKind::kMissing
                                     ? DirectoryLock::Make(work)
                                     : DirectoryLock::Take(work);
    if (lock.status().code() != StatusCode::kAlreadyExists) return lock;
    return AlreadyThere(work.substr(0, work.size() - kCopySuffix.size()),
                        "another copy is being made there");
  }

  Status PublishWork(const std::string& work) {
    HF_ASSIGN_OR_RETURN(const PathKind kind, GetPathKind(target_.place));
    if (kind == PathKind::kMissing) {
      return PublishDirectory(Place(work), target_.place);
    }
    if (kind != PathKind::kDirectory) {
      return AlreadyThere(target_.place.path(), "a file is there");
    }
    HF_ASSIGN_OR_RETURN(DirectoryLock replaced,
                        DirectoryLock::Take(target_.place.path()));
    // Examine the directory under its lock, so that no other process can fill
    // it after the check.
    HF_ASSIGN_OR_RETURN(const auto names, ListDirectory(target_.place));
    if (!names.empty() && !options_.overwrite) {
      return AlreadyThere(target_.place.path(), "something is there");
    }
    HF_RETURN_IF_ERROR(CheckMayReplaceAnyFormat(target_.place));
    HF_ASSIGN_OR_RETURN(
        const std::string at,
        local::ReplaceDirectory(work, target_.place.path(),
                                MovedPlace(target_.place).path()));
    return replaced.Remove(at);
  }

  Result<bool> GoesOn(const TreeListing& earlier) const {
    const ListedFile* const journal = earlier.Find(kCopyJournal);
    if (journal == nullptr || options_.restart) return false;
    HF_ASSIGN_OR_RETURN(const std::string text,
                        ReadListedFile(earlier, *journal));
    return text == journal_;
  }

  // --- To an object store: written to the target itself, the marker last.

  Status CopyToBucket() {
    const std::shared_ptr<Store> store = target_.place.OpenStore();
    HF_ASSIGN_OR_RETURN(const bool goes_on, PrepareBucket(*store));
    const CopyTarget to{store.get(), target_.bucket.get(),
                        target_.key.empty() ? "" : target_.key + "/"};
    const TreeListing* const earlier = goes_on ? &target_ : nullptr;
    HF_RETURN_IF_ERROR(CopyWave(unit_.data, earlier, to));
    HF_RETURN_IF_ERROR(CopyWave(unit_.heads, earlier, to));
    HF_RETURN_IF_ERROR(CheckAllThere());
    // Write the files that readers look for only now, and do not keep them from
    // an earlier run.
    HF_RETURN_IF_ERROR(CopyWave(unit_.last, nullptr, to));
    if (AddsMarker()) {
      const bool has_digests = source_.Find(kDigestFile) != nullptr;
      HF_RETURN_IF_ERROR(
          store->Write(kCommitMarkerFile,
                       CommitMarkerText(target_.place.path(), has_digests),
                       {.must_create = true}));
    }
    const Status readable = CheckReadable(target_.place.path());
    if (!readable.ok()) {
      HF_RETURN_IF_ERROR(RemoveTree(target_.place));
      const Place aside = ReplacedPlace(target_.place);
      HF_ASSIGN_OR_RETURN(const bool is_aside, LeadsToDirectory(aside));
      if (is_aside) {
        HF_RETURN_IF_ERROR(PublishDirectory(aside, target_.place));
      }
      return readable;
    }
    HF_RETURN_IF_ERROR(RemoveReplaced());
    return store->Delete(kCopyJournal);
  }

  // Returns true if an earlier run of this copy left files in the target.
  // Otherwise, leaves only this run's journal in the target.
  Result<bool> PrepareBucket(Store& store) {
    if (IsTargetFinished()) {
      // Remove what an interrupted overwrite has put aside.
      HF_RETURN_IF_ERROR(RemoveReplaced());
      HF_RETURN_IF_ERROR(
          PublishDirectory(target_.place, ReplacedPlace(target_.place)));
      HF_RETURN_IF_ERROR(store.Write(kCopyJournal, journal_));
      return false;
    }
    HF_ASSIGN_OR_RETURN(const bool goes_on, GoesOn(target_));
    if (goes_on) return true;
    const bool is_a_copys = target_.Find(kCopyJournal) != nullptr;
    if (!target_.files.empty() && !is_a_copys && !options_.overwrite) {
      return AlreadyThere(target_.place.path(),
                          "the files there are not a finished checkpoint "
                          "(overwrite removes them)");
    }
    if (!target_.files.empty()) {
      if (!is_a_copys) HF_RETURN_IF_ERROR(CheckMayReplace());
      HF_RETURN_IF_ERROR(RemoveTree(target_.place));
    }
    HF_RETURN_IF_ERROR(store.Write(kCopyJournal, journal_));
    return false;
  }

  // Checks by a new listing that the server has all files, and that this
  // process still holds the lease.
  Status CheckAllThere() {
    HF_ASSIGN_OR_RETURN(const TreeListing now, ListWholeTree(target_.place));
    for (const auto* wave : {&unit_.data, &unit_.heads}) {
      for (const std::string& name : *wave) {
        const ListedFile* const there = now.Find(name);
        const uint64_t want = source_.Find(name)->byte_count;
        if (there != nullptr && there->byte_count == want) continue;
        return DataLossError(
            "copy to " + (target_.place / name).path() + ": the store has " +
            (there == nullptr ? "nothing"
                              : std::to_string(there->byte_count) + " bytes") +
            ", want " + std::to_string(want) + " bytes");
      }
    }
    const ListedFile* const journal = now.Find(kCopyJournal);
    if (journal != nullptr) {
      HF_ASSIGN_OR_RETURN(const std::string text,
                          ReadListedFile(now, *journal));
      if (text == journal_) return Status();
    }
    return FailedPreconditionError("copy to " + target_.place.path() +
                                   ": another copy to this place has begun");
  }

  // Removes the checkpoint that an overwrite put aside, in this run or an
  // earlier one.
  Status RemoveReplaced() {
    const Place aside = ReplacedPlace(target_.place);
    HF_ASSIGN_OR_RETURN(const bool is_there, LeadsToDirectory(aside));
    return is_there ? RemoveTree(aside) : Status();
  }

  const TreeListing& source_;
  const CopyUnit& unit_;
  const TreeListing& target_;
  const CopyOptions& options_;
  Run& run_;
  CopyResult& result_;
  FileCopier copier_;
  const std::string journal_;
  std::vector<std::string> names_;
  // Files that a view recognizes by their times; empty if the source is remote.
  std::vector<std::string> held_sources_;
  ListedSums sums_;
};

class TreeCopier {
 public:
  TreeCopier(const std::string& source, const std::string& target,
             const CopyOptions& options)
      : source_place_(Place(source).Absolute()),
        target_place_(Place(target).Absolute()),
        options_(options),
        run_(RunOptionsOfCopy(options.run, source_place_.is_remote() ||
                                               target_place_.is_remote())) {}

  Result<CopyResult> Execute() {
    HF_RETURN_IF_ERROR(CheckPlaces(source_place_, target_place_));
    HF_RETURN_IF_ERROR(ListSource());
    if (source_.files.empty()) {
      return NotFoundError("copy " + source_place_.path() +
                           ": there is no file");
    }
    HF_RETURN_IF_ERROR(ListTarget());
    plan_ = PlanTreeCopy(source_.files, source_place_.name());
    HF_RETURN_IF_ERROR(LeaveOutUnfinished());
    if (options_.verify && plan_.units.empty() && !IsForeignFile()) {
      return FailedPreconditionError("verify the copy of " +
                                     source_place_.path() +
                                     ": it holds no checkpoint");
    }
    CountFiles();
    HF_RETURN_IF_ERROR(MakeDirectories());
    run_.StartPhase("copy", result_.byte_count);
    HF_RETURN_IF_ERROR(OrderUnits());
    for (const CopyUnit& unit : plan_.units) {
      HF_RETURN_IF_ERROR(CopyOne(unit));
    }
    // Loose files follow the checkpoints, and pointers to checkpoints come
    // last.
    HF_RETURN_IF_ERROR(CopyLoose(plan_.loose));
    HF_RETURN_IF_ERROR(CopyLoose(plan_.pointers));
    if (options_.verify) HF_RETURN_IF_ERROR(VerifyCopy());
    result_.total_seconds = watch_.Lap();
    return result_;
  }

 private:
  LinkPolicy links() const {
    return options_.follow_links ? LinkPolicy::kFollow : LinkPolicy::kInside;
  }

  // Lists the source. Other processes may save, replace and prune steps in it.
  // If an entry disappears during the listing, lists the source again.
  Status ListSource() {
    for (int attempt = 0; attempt < kListAttempts; ++attempt) {
      HF_ASSIGN_OR_RETURN(source_, ListWholeTree(source_place_, links()));
      if (!source_.has_vanished) break;
    }
    return Status();
  }

  // Sorts a delta's base before the delta, so that the delta can be read as
  // soon as it is published.
  Status OrderUnits() {
    std::map<std::string, std::vector<std::string>> bases;
    for (const CopyUnit& unit : plan_.units) {
      HF_ASSIGN_OR_RETURN(bases[unit.directory], BasesOf(unit));
    }
    std::map<std::string, size_t> depths;
    const auto depth = [&](const auto& self, const std::string& directory,
                           size_t above) -> size_t {
      const auto known = depths.find(directory);
      if (known != depths.end()) return known->second;
      size_t most = 0;
      if (above < bases.size()) {  // else the bases form a cycle
        for (const std::string& base : bases[directory]) {
          if (!bases.contains(base)) continue;
          most = std::max(most, self(self, base, above + 1) + 1);
        }
      }
      return depths[directory] = most;
    };
    std::ranges::stable_sort(plan_.units, {}, [&](const CopyUnit& unit) {
      return depth(depth, unit.directory, 0);
    });
    return Status();
  }

  // Returns the directories, relative to the source, that the unit may be based
  // on.
  Result<std::vector<std::string>> BasesOf(const CopyUnit& unit) const {
    std::vector<std::string> bases;
    const Place step = source_place_ / unit.directory;
    for (const auto* wave : {&unit.data, &unit.heads, &unit.last}) {
      for (const std::string& name : *wave) {
        const std::string file = FileNameOf(name);
        const bool may_tell = file == kBaseFile ||
                              (source_.is_local() && file == kTreeMetadataFile);
        if (!may_tell) continue;
        const Place item = (step / name).parent();
        const auto records = BaseRecordsIn(item);
        if (records.status().code() == StatusCode::kNotFound) continue;
        HF_RETURN_IF_ERROR(records.status());
        for (const BaseRecord& record : *records) {
          for (const Place& base : PlacesThatHoldBase(step, record)) {
            const std::string prefix = source_place_.path() + "/";
            if (!base.path().starts_with(prefix)) continue;
            bases.push_back(base.path().substr(prefix.size()));
          }
        }
      }
    }
    return bases;
  }

  // Copies one unit. A step that is replaced in the meantime is copied in its
  // new state. A step that is removed in the meantime is left out.
  Status CopyOne(const CopyUnit& unit) {
    CopyUnit now = unit;
    TreeListing from = PartOf(source_, unit.directory);
    const TreeListing to = PartOf(target_, unit.directory);
    for (int attempt = 1;; ++attempt) {
      const Status copied =
          UnitCopier(from, now, to, options_, run_, result_).Execute();
      const bool is_final = copied.ok() || attempt == kListAttempts ||
                            copied.code() == StatusCode::kCancelled ||
                            !from.is_local() || unit.directory.empty();
      if (is_final) return copied;
      HF_ASSIGN_OR_RETURN(TreeListing again,
                          ListWholeTree(from.place, links()));
      if (again.files.empty()) {
        left_out_.insert(unit.directory);
        const Status removed =
            RemoveTree(Place(to.place.path() + std::string(kCopySuffix)));
        return removed.code() == StatusCode::kNotFound ? Status() : removed;
      }
      if (ListingHash(again) == ListingHash(from)) return copied;
      TreeCopyPlan plan = PlanTreeCopy(again.files, from.place.name());
      if (plan.units.size() != 1) return copied;
      now = std::move(plan.units[0]);
      from = std::move(again);
    }
  }

  Status ListTarget() {
    HF_RETURN_IF_ERROR(target_place_.CheckWritable());
    HF_RETURN_IF_ERROR(CheckNamesNoStep(target_place_));
    HF_ASSIGN_OR_RETURN(target_, ListWholeTree(target_place_));
    if (source_.is_file || !target_.is_file) return Status();
    return AlreadyThere(target_place_.path(), "a file is there");
  }

  bool IsForeignFile() const {
    const std::string& path = source_place_.path();
    return source_.is_file &&
           (path.ends_with(".safetensors") || path.ends_with(".npz"));
  }

  // Removes unfinished saves, as their directories show, from the plan.
  Status LeaveOutUnfinished() {
    std::vector<CopyUnit> finished;
    for (CopyUnit& unit : plan_.units) {
      HF_ASSIGN_OR_RETURN(
          const bool is_unfinished,
          IsUnfinishedUnit(unit, source_place_ / unit.directory));
      if (!is_unfinished) {
        finished.push_back(std::move(unit));
      } else if (unit.directory.empty()) {
        return FailedPreconditionError(
            "copy " + source_place_.path() +
            ": an unfinished checkpoint, whose save or copy has not ended");
      } else {
        plan_.unfinished.push_back(unit.directory);
      }
    }
    plan_.units = std::move(finished);
    if (plan_.units.empty() && plan_.loose.empty() && plan_.pointers.empty()) {
      return FailedPreconditionError("copy " + source_place_.path() +
                                     ": there are only unfinished checkpoints");
    }
    return Status();
  }

  Result<bool> IsUnfinishedUnit(const CopyUnit& unit, const Place& place) {
    if (!unit.is_orbax) return false;
    const bool has_marker =
        !unit.last.empty() && unit.last[0] == kCommitMarkerFile;
    if (has_marker) return false;
    if (source_.Find(JoinNames(unit.directory, kCopyJournal)) != nullptr) {
      return true;
    }
    if (source_.Find(JoinNames(unit.directory, kCheckpointMetadataFile)) ==
        nullptr) {
      return false;
    }
    return IsTemporaryCheckpoint(place.path());
  }

  void CountFiles() {
    const auto count = [&](std::string_view directory,
                           const std::vector<std::string>& names) {
      for (const std::string& name : names) {
        ++result_.file_count;
        result_.byte_count +=
            source_.Find(name.empty() ? "" : JoinNames(directory, name))
                ->byte_count;
      }
    };
    for (const CopyUnit& unit : plan_.units) {
      ++result_.checkpoint_count;
      for (const auto* wave : {&unit.data, &unit.heads, &unit.last}) {
        count(unit.directory, *wave);
      }
    }
    count("", plan_.loose);
    count("", plan_.pointers);
  }

  // Creates the directories that contain checkpoints and loose files. Each gets
  // at most the permissions of the source's.
  Status MakeDirectories() const {
    if (!target_.is_local() || source_.is_file) return Status();
    std::set<std::string> directories;
    const auto add = [&](std::string_view name) {
      for (size_t end = name.rfind('/'); end != name.npos;
           end = name.rfind('/')) {
        name = name.substr(0, end);
        directories.emplace(name);
      }
      directories.emplace();
    };
    for (const CopyUnit& unit : plan_.units) {
      if (!unit.directory.empty()) add(unit.directory);
    }
    for (const auto* names : {&plan_.loose, &plan_.pointers}) {
      for (const std::string& name : *names) add(name);
    }
    for (const std::string& directory : directories) {
      const std::string below = directory.empty() ? "" : "/" + directory;
      HF_RETURN_IF_ERROR(MakeDirectoryLike(source_place_.path() + below,
                                           target_place_.path() + below));
    }
    return Status();
  }

  Status MakeDirectoryLike(const std::string& source,
                           const std::string& target) const {
    std::error_code error;
    fs::create_directories(fs::path(target).parent_path(), error);
    if (error) return ErrnoStatus(error.value(), "create directory", target);
    const uint32_t bits = source_.is_local() ? BitsAt(source) : 0777;
    if (::mkdir(target.c_str(), bits | 0700) == 0 || errno == EEXIST) {
      return Status();
    }
    return ErrnoStatus(errno, "create directory", target);
  }

  // Copies loose files, except those of which the target already has an equal
  // one.
  Status CopyLoose(const std::vector<std::string>& names) {
    FileCopier copier(source_, run_);
    const Place directory =
        source_.is_file ? target_place_.parent() : target_place_;
    std::vector<FileCopy> files;
    for (const std::string& name : names) {
      const ListedFile* const file = source_.Find(name);
      HF_ASSIGN_OR_RETURN(const bool is_kept, KeepsLoose(name, copier));
      if (!is_kept) {
        files.push_back({file, name.empty() ? target_place_.name() : name});
        continue;
      }
      ++result_.kept_file_count;
      result_.kept_byte_count += file->byte_count;
      run_.AddDone(file->byte_count);
    }
    if (files.empty()) return Status();
    const auto copy = [&] {
      return target_.is_local() ? CopyToFiles(files, directory, copier)
                                : CopyToKeys(files, directory, copier);
    };
    Status copied = copy();
    while (copied.code() == StatusCode::kNotFound && DropGone(files)) {
      copied = copy();
    }
    HF_RETURN_IF_ERROR(copied);
    result_.server_file_count += copier.server_file_count();
    result_.server_byte_count += copier.server_byte_count();
    return Status();
  }

  // Drops files that were removed after the listing. Returns true if there were
  // any.
  bool DropGone(std::vector<FileCopy>& files) const {
    if (!source_.is_local() || source_.is_file) return false;
    const size_t count = files.size();
    std::erase_if(files, [&](const FileCopy& file) {
      std::error_code error;
      return !fs::exists(source_.PathOf(*file.source), error) && !error;
    });
    return files.size() < count;
  }

  Status CopyToKeys(const std::vector<FileCopy>& files, const Place& directory,
                    FileCopier& copier) {
    const std::shared_ptr<Store> store = directory.OpenStore();
    HF_ASSIGN_OR_RETURN(const BucketPlace place, directory.InBucket());
    return copier.Copy(files,
                       {store.get(), target_.bucket.get(), place.prefix()}, {});
  }

  Status CopyToFiles(const std::vector<FileCopy>& files, const Place& directory,
                     FileCopier& copier) {
    const std::string& path = directory.path();
    std::error_code error;
    fs::create_directories(path, error);
    if (error) return ErrnoStatus(error.value(), "create directory", path);
    std::vector<FileCopy> open, closed;
    for (const FileCopy& file : files) {
      constexpr uint32_t kAllRead = 0444;
      const bool is_open = (BitsOf(file) & kAllRead) == kAllRead;
      (is_open ? open : closed).push_back(file);
    }
    const std::shared_ptr<Store> store = directory.OpenStore();
    HF_RETURN_IF_ERROR(copier.Copy(open, {store.get(), nullptr, ""}, {}));
    return closed.empty() ? Status() : CopyClosed(closed, path, copier);
  }

  uint32_t BitsOf(const FileCopy& file) const {
    return source_.is_local() ? BitsAt(source_.PathOf(*file.source)) : 0777;
  }

  // Copies files that are not readable by everyone. They are written in a
  // directory that only the owner may enter.
  Status CopyClosed(const std::vector<FileCopy>& files,
                    const std::string& directory, FileCopier& copier) const {
    const std::string work = directory + "/.holdfast-copy-closed";
    HF_ASSIGN_OR_RETURN(const PathKind kind, GetPathKind(Place(work)));
    HF_ASSIGN_OR_RETURN(DirectoryLock lock, kind == PathKind::kMissing
                                                ? DirectoryLock::Make(work)
                                                : DirectoryLock::Take(work));
    HF_RETURN_IF_ERROR(SetPermissions(Place(work), 0700));
    const std::shared_ptr<Store> store = Place(work).OpenStore();
    HF_RETURN_IF_ERROR(copier.Copy(files, {store.get(), nullptr, ""}, {}));
    for (const FileCopy& file : files) {
      const std::string grown = work + "/" + file.target;
      const std::string target = directory + "/" + file.target;
      const uint32_t bits = BitsAt(grown) & BitsOf(file) & BitsAt(target);
      const bool is_moved = ::chmod(grown.c_str(), bits) == 0 &&
                            ::rename(grown.c_str(), target.c_str()) == 0;
      if (!is_moved) return ErrnoStatus(errno, "publish", target);
      HF_RETURN_IF_ERROR(SyncDirectory(Place(ParentDirectory(target))));
    }
    return lock.Remove(work);
  }

  Result<bool> KeepsLoose(const std::string& name, FileCopier& copier) {
    const ListedFile* const there = target_.Find(name);
    if (there == nullptr) {
      const bool is_directory = source_.is_file && !target_.files.empty();
      if (!is_directory) return false;
      return AlreadyThere(target_place_.path(), "a directory is there");
    }
    if (!options_.restart) {
      HF_ASSIGN_OR_RETURN(const bool is_equal,
                          copier.Equal({name}, target_, ""));
      if (is_equal) return true;
    }
    if (options_.overwrite) return false;
    return AlreadyThere(target_.PathOf(*there),
                        "another file is there (overwrite replaces it)");
  }

  Status VerifyCopy() {
    std::vector<std::string> paths;
    for (const CopyUnit& unit : plan_.units) {
      if (left_out_.contains(unit.directory)) continue;
      paths.push_back((target_place_ / unit.directory).path());
    }
    if (paths.empty()) paths.push_back(target_place_.path());
    for (const std::string& path : paths) {
      RunOptions run = options_.run;
      if (run.progress) {
        run.progress = [&](Progress progress) {
          progress.phase = "verify";
          options_.run.progress(progress);
        };
      }
      HF_ASSIGN_OR_RETURN(const VerifyReport report, Verify(path, {}, run));
      if (report.damages.empty()) continue;
      const Damage& damage = report.damages.front();
      return DataLossError("verify the copy " + path + ": " +
                           std::string(damage.status.message()));
    }
    result_.is_verified = true;
    return Status();
  }

  const Place source_place_;
  const Place target_place_;
  const CopyOptions& options_;
  Run run_;
  Stopwatch watch_;
  TreeListing source_;
  TreeListing target_;
  TreeCopyPlan plan_;
  std::set<std::string> left_out_;  // units removed during the copy
  CopyResult result_;
};

}  // namespace

Result<CopyResult> Copy(const std::string& source, const std::string& target,
                        const CopyOptions& options) {
  return InCall(CallKind::kCopy, target, [&] {
    return CatchBadAlloc([&]() -> Result<CopyResult> {
      HF_ASSIGN_OR_RETURN(const std::string path, ResolveStepAddress(source));
      return TreeCopier(path, target, options).Execute();
    });
  });
}

}  // namespace holdfast
