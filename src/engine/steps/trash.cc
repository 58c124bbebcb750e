#include "engine/steps/trash.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <ranges>
#include <set>

#include "engine/commit/by_files.h"
#include "engine/commit/layout.h"
#include "engine/commit/lease.h"
#include "engine/commit/replaceable.h"
#include "engine/commit/unfinished.h"
#include "engine/format/directory_names.h"
#include "engine/references/base_record.h"
#include "engine/references/referrers.h"
#include "engine/steps/step_scan.h"
#include "ground/base/clock.h"
#include "ground/base/status_macros.h"
#include "holdfast/steps/steps.h"
#include "stores/place/directory_ops.h"
#include "stores/place/file_walk.h"
#include "stores/storage/directory_lock.h"
#include "stores/storage/errno_status.h"
#include "stores/storage/path_parts.h"
#include "stores/storage/rename_call.h"

namespace holdfast {
namespace {


Status CheckPlainName(const std::string& name) {
  const bool is_plain = !name.empty() && name != "." && name != ".." &&
                        name.find('/') == name.npos &&
                        name.find('\0') == name.npos &&
                        name != kTrashDirectoryName;
  if (is_plain) return Status();
  return InvalidArgumentError("trash: \"" + name +
                              "\" is not the name of a step");
}

// Creates the trash, and makes its name durable.
Status MakeTrash(const std::string& root) {
  const std::string trash = TrashPath(root);
  const Status made = CreateDirectoryNew(Place(trash));
  if (made.ok()) return SyncDirectory(Place(root));
  if (made.code() != StatusCode::kAlreadyExists) return made;
  HF_ASSIGN_OR_RETURN(const PathKind kind, GetPathKind(Place(trash)));
  return kind == PathKind::kDirectory ? Status() : made;
}

// The place to which steps are moved.
struct TrashTarget {
  std::string directory;
  TrashUse use = TrashUse::kKeep;
  // True if there is no trash and it cannot be created: the disk may be full,
  // and the removal must make room. A temporary name hides a step as well.
  bool is_temporary_name = false;

  std::string PathOf(const std::string& name, int64_t time_ns) const {
    const std::string text =
        is_temporary_name
            ? TemporaryName(name) + "-" + std::to_string(time_ns)
            : TrashNameText({name, time_ns, use == TrashUse::kRemove});
    return directory + "/" + text;
  }
};

Result<TrashTarget> PrepareTrash(const std::string& root, TrashUse use) {
  const Status made = MakeTrash(root);
  if (made.ok()) return TrashTarget{TrashPath(root), use, false};
  if (use == TrashUse::kKeep) return made;
  return TrashTarget{root, use, true};
}

Result<bool> IsAnyThere(const std::string& root,
                        const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    HF_ASSIGN_OR_RETURN(const PathKind kind,
                        GetPathKind(Place(root + "/" + name)));
    if (kind != PathKind::kMissing) return true;
  }
  return false;
}

// Renames a directory; returns 0 or an errno. Never replaces anything.
int RenameIntoTrash(const std::string& source, const std::string& target) {
  return RenameNew(AT_FDCWD, source.c_str(), target.c_str());
}

// Returns the path in the trash, or nullopt if the step was already removed.
Result<std::optional<std::string>> MoveIntoTrash(const std::string& root,
                                                 const std::string& name,
                                                 const TrashTarget& target) {
  const std::string source = root + "/" + name;
  HF_ASSIGN_OR_RETURN(const PathKind kind, GetPathKind(Place(source)));
  if (kind == PathKind::kMissing) return std::optional<std::string>();
  if (kind != PathKind::kDirectory) {
    return FailedPreconditionError("trash " + source + ": not a directory");
  }
  // A save that is writing there, or replacing the step, must not lose it.
  const Result<DirectoryLock> lock = DirectoryLock::Take(source);
  if (lock.status().code() == StatusCode::kNotFound) {
    return std::optional<std::string>();
  }
  HF_RETURN_IF_ERROR(lock.status());
  // An existing name is never replaced: the next nanosecond is tried.
  for (int64_t time_ns = SystemNowNs();; ++time_ns) {
    const std::string path = target.PathOf(name, time_ns);
    const int error = RenameIntoTrash(source, path);
    if (error == 0) return std::optional<std::string>(path);
    const bool has_no_name =
        error == ENOSYS || error == EOPNOTSUPP || error == EXDEV;
    if (has_no_name && target.use == TrashUse::kRemove) {
      // The step is removed where it is, so the trash is not needed.
      (void)::rmdir(target.directory.c_str());
      HF_RETURN_IF_ERROR(MarkBegunOnly(Place(source)));
      return std::optional<std::string>(source);
    }
    if (error == ENOENT) {
      HF_ASSIGN_OR_RETURN(const PathKind still, GetPathKind(Place(source)));
      if (still == PathKind::kMissing) return std::optional<std::string>();
      // The trash directory is missing: another process removed it with its
      // last step.
      HF_RETURN_IF_ERROR(MakeTrash(root));
      continue;
    }
    if (error != EEXIST && error != ENOTEMPTY) {
      return ErrnoStatus(error, "rename " + source + " to", path);
    }
  }
}

uint64_t BytesBelow(const std::string& path) {
  uint64_t bytes = 0;
  // A directory whose files cannot be counted is still removed.
  (void)WalkFiles(Place(path),
                  [&](const WalkedFile& file) { bytes += file.byte_count; });
  return bytes;
}

// Trashes a step in an object store, where a new name would mean copying all
// files. So a step that is to be removed right away stays where it is, marked
// as not a checkpoint; only a step that may be restored is copied.
Result<std::optional<std::string>> TrashRemoteStep(const std::string& root,
                                                   const std::string& name,
                                                   TrashUse use) {
  const std::string source = root + "/" + name;
  HF_ASSIGN_OR_RETURN(const bool is_there, LeadsToDirectory(Place(source)));
  if (!is_there) return std::optional<std::string>();
  if (use == TrashUse::kRemove) {
    HF_RETURN_IF_ERROR(MarkForDeletion(Place(source)));
    return std::optional<std::string>(source);
  }
  if (IsFinished(Place(source), CommitMode::kAuto)) {
    HF_RETURN_IF_ERROR(WriteMissingMarker(Place(source)));
  }
  const TrashTarget target{TrashPath(root), use, false};
  const std::string path = target.PathOf(name, SystemNowNs());
  HF_RETURN_IF_ERROR(PublishDirectory(Place(source), Place(path)));
  return std::optional<std::string>(path);
}

Result<std::vector<std::string>> TrashRemoteSteps(
    const std::string& root, const std::vector<std::string>& names,
    TrashUse use) {
  std::vector<std::string> paths;
  for (const std::string& name : names) {
    HF_ASSIGN_OR_RETURN(auto path, TrashRemoteStep(root, name, use));
    if (path) paths.push_back(std::move(*path));
  }
  return paths;
}

// Marks the steps first, so that a partly removed step is never restored.
Result<std::vector<std::string>> MarkForRemoval(
    const std::string& root, const std::vector<TrashedStep>& steps) {
  const Place at(root);
  std::vector<std::string> marked;
  bool has_renamed = false;
  for (const TrashedStep& step : steps) {
    if (!at.can_rename()) {
      HF_RETURN_IF_ERROR(MarkForDeletion(Place(step.path)));
      marked.push_back(step.path);
      continue;
    }
    if (step.is_being_removed) {
      marked.push_back(step.path);
      continue;
    }
    const std::string target = step.path + std::string(kRemovingSuffix);
    const int error = RenameIntoTrash(step.path, target);
    if (error == ENOENT) continue;  // another process was faster
    if (error != 0) {
      return ErrnoStatus(error, "rename " + step.path + " to", target);
    }
    has_renamed = true;
    marked.push_back(target);
  }
  if (has_renamed) HF_RETURN_IF_ERROR(SyncDirectory(Place(TrashPath(root))));
  return marked;
}

// Moves directories that are not checkpoints from `steps` to `left_alone`. They
// were once mistaken for steps, and must not be deleted.
Status LeaveStrangers(std::vector<TrashedStep>& steps,
                      std::vector<std::string>& left_alone) {
  std::vector<TrashedStep> checkpoints;
  for (TrashedStep& step : steps) {
    bool goes = step.is_being_removed;
    if (!goes) {
      HF_ASSIGN_OR_RETURN(goes, HoldsCheckpoint(step.path));
    }
    if (goes) {
      checkpoints.push_back(std::move(step));
    } else {
      left_alone.push_back(step.path);
    }
  }
  steps = std::move(checkpoints);
  return Status();
}

// Returns the wanted step that was added to the trash last, among those that
// may be restored; null if no step is wanted.
template <typename IsWanted>
const TrashedStep* FindTrashed(const std::vector<TrashedStep>& trash,
                               const IsWanted& is_wanted) {
  const auto found = std::find_if(
      trash.rbegin(), trash.rend(), [&](const TrashedStep& trashed) {
        return !trashed.is_being_removed && is_wanted(trashed);
      });
  return found == trash.rend() ? nullptr : &*found;
}

// Collects a step in the trash, and the steps there that it refers to: the
// bases of a delta, or the sources of a view. In order() a step comes after all
// steps that it refers to, so that an interrupted restoration leaves no step
// without its base.
class ComingBack {
 public:
  ComingBack(const std::string& root, const std::vector<TrashedStep>& trash)
      : root_(root), trash_(trash) {}

  // Adds a step after the steps that it refers to. The recursion is as deep as
  // the chain of deltas.
  Status Add(const TrashedStep& step) {
    seen_.insert(step.name);
    HF_ASSIGN_OR_RETURN(
        const auto references,
        ReferencesOf(Place(root_), step.name, Place(step.path)));
    for (const Reference& reference : references) {
      HF_ASSIGN_OR_RETURN(
          const bool is_there,
          LeadsToAnything(Place(root_ + "/" + reference.target)));
      if (is_there || seen_.contains(reference.target)) continue;
      const TrashedStep* const found = Find(reference);
      if (found != nullptr) HF_RETURN_IF_ERROR(Add(*found));
    }
    order_.push_back(&step);
    return Status();
  }

  const std::vector<const TrashedStep*>& order() const { return order_; }

 private:
  // Returns the step in the trash that a reference means. The trash may hold
  // several steps with the name, and none of them need be the base.
  const TrashedStep* Find(const Reference& reference) const {
    return FindTrashed(trash_, [&](const TrashedStep& trashed) {
      if (trashed.name != reference.target) return false;
      if (!reference.base.is_known()) return true;
      const auto is_base = IsBaseAt(Place(trashed.path), reference.base);
      return is_base.ok() && *is_base;
    });
  }

  const std::string& root_;
  const std::vector<TrashedStep>& trash_;
  std::set<std::string> seen_;
  std::vector<const TrashedStep*> order_;
};

// Checks that a delta in the trash still has the bases that it was made from.
Status CheckBasesAreThere(const Place& trashed, const Place& step) {
  HF_ASSIGN_OR_RETURN(const auto records, BaseRecordsOfStep(trashed));
  for (const BaseRecord& record : records) {
    HF_ASSIGN_OR_RETURN(const bool is_there, IsBaseThere(step, record));
    if (is_there) continue;
    return FailedPreconditionError(
        "undelete " + step.path() + ": refused, because it is a delta, and " +
        record.path +
        ", which it was made from, is gone or was written "
        "again; it stays in the trash until its base is back");
  }
  return Status();
}

// Returns whether a step in the trash of an object store is incomplete. The
// marker shows this: it is the last file to be copied and the first to be
// removed.
bool IsHalfGone(const std::string& path) {
  return !Place(path).can_rename() && !HasCommitMarker(Place(path));
}

}  // namespace

std::string TrashNameText(const TrashName& name) {
  std::string text = name.name + "." + std::to_string(name.time_ns);
  if (name.is_being_removed) text += kRemovingSuffix;
  return text;
}

std::optional<TrashName> ParseTrashName(std::string_view text) {
  TrashName name;
  if (text.ends_with(kRemovingSuffix)) {
    name.is_being_removed = true;
    text.remove_suffix(kRemovingSuffix.size());
  }
  const size_t dot = text.rfind('.');
  if (dot == text.npos || dot == 0) return std::nullopt;
  const std::string_view digits = text.substr(dot + 1);
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, name.time_ns);
  if (digits.empty() || error != std::errc() || stop != end) {
    return std::nullopt;
  }
  if (name.time_ns < 0) return std::nullopt;
  name.name = text.substr(0, dot);
  return name;
}

std::string TrashPath(const std::string& root) {
  return root + "/" + std::string(kTrashDirectoryName);
}

Result<std::vector<std::string>> TrashSteps(
    const std::string& root, const std::vector<std::string>& names,
    TrashUse use) {
  const std::string base = AbsolutePath(root);
  for (const std::string& name : names) {
    HF_RETURN_IF_ERROR(CheckPlainName(name));
  }
  if (!Place(base).can_rename()) return TrashRemoteSteps(base, names, use);
  std::vector<std::string> paths;
  // The trash is not created if all steps are already removed.
  HF_ASSIGN_OR_RETURN(const bool is_any_there, IsAnyThere(base, names));
  if (!is_any_there) return paths;
  HF_ASSIGN_OR_RETURN(const TrashTarget target, PrepareTrash(base, use));
  Status failure;
  for (const std::string& name : names) {
    auto path = MoveIntoTrash(base, name, target);
    if (!path.ok()) {
      failure = path.status();
      break;
    }
    if (*path) paths.push_back(std::move(**path));
  }
  if (!paths.empty()) {
    // The new names first: nothing may be deleted before both are durable.
    const Status synced = SyncDirectory(Place(target.directory));
    // A trash directory that is missing was empty.
    if (synced.code() != StatusCode::kNotFound) HF_RETURN_IF_ERROR(synced);
    if (target.directory != base) {
      HF_RETURN_IF_ERROR(SyncDirectory(Place(base)));
    }
  }
  HF_RETURN_IF_ERROR(failure);
  return paths;
}

Result<std::string> TrashStep(const std::string& root, const std::string& name,
                              TrashUse use) {
  HF_ASSIGN_OR_RETURN(const std::vector<std::string> paths,
                      TrashSteps(root, {name}, use));
  if (!paths.empty()) return paths[0];
  return NotFoundError("trash: no step " + name + " in " + AbsolutePath(root));
}

Result<std::vector<TrashedStep>> ListTrash(const std::string& root) {
  const std::string trash = TrashPath(AbsolutePath(root));
  std::vector<TrashedStep> steps;
  HF_ASSIGN_OR_RETURN(const PathKind kind, GetPathKind(Place(trash)));
  if (kind != PathKind::kDirectory) return steps;
  HF_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                      ListDirectory(Place(trash)));
  for (const std::string& text : names) {
    const std::optional<TrashName> name = ParseTrashName(text);
    if (!name) continue;
    const std::string path = trash + "/" + text;
    HF_ASSIGN_OR_RETURN(const PathKind entry, GetPathKind(Place(path)));
    if (entry != PathKind::kDirectory) continue;
    const auto step = StepFromCheckpointName(name->name);
    steps.push_back({name->name, step.ok() ? *step : -1, path, name->time_ns,
                     name->is_being_removed || IsHalfGone(path)});
  }
  std::stable_sort(steps.begin(), steps.end(),
                   [](const TrashedStep& a, const TrashedStep& b) {
                     return a.trashed_time_ns < b.trashed_time_ns;
                   });
  return steps;
}

Result<std::string> UndeleteStep(const std::string& root, int64_t step) {
  const std::string base = AbsolutePath(root);
  HF_ASSIGN_OR_RETURN(const std::vector<TrashedStep> trash, ListTrash(base));
  const TrashedStep* const found = FindTrashed(
      trash, [&](const TrashedStep& trashed) { return trashed.step == step; });
  if (found == nullptr) {
    return NotFoundError("undelete: no step " + std::to_string(step) +
                         " in the trash of " + base);
  }
  ComingBack coming(base, trash);
  HF_RETURN_IF_ERROR(coming.Add(*found));
  std::vector<const TrashedStep*> back;
  Status done;
  for (const TrashedStep* step : coming.order()) {
    const Place place = Place(base) / step->name;
    done = CheckBasesAreThere(Place(step->path), place);
    if (done.ok()) done = PublishDirectory(Place(step->path), place);
    if (!done.ok()) break;
    back.push_back(step);
  }
  if (done.ok()) return base + "/" + found->name;
  // Moves all of them back, so that a refusal changes nothing.
  for (const TrashedStep* step : std::views::reverse(back)) {
    HF_RETURN_IF_ERROR(
        PublishDirectory(Place(base + "/" + step->name), Place(step->path)));
  }
  return done;
}

Status RemoveTrashed(const std::string& path) {
  if (!Place(path).can_rename()) return RemoveMarked(Place(path));
  HF_RETURN_IF_ERROR(RemoveDirectoryTree(path));
  const std::string trash = ParentPath(path);
  if (Place(trash).name() != kTrashDirectoryName) return Status();
  // Other steps may be in it, or another process was faster.
  const bool is_done = ::rmdir(trash.c_str()) == 0 || errno == ENOTEMPTY ||
                       errno == EEXIST || errno == ENOENT;
  return is_done ? Status() : ErrnoStatus(errno, "remove", trash);
}

Result<EmptiedTrash> EmptyTrash(const std::string& root, bool only_leftovers) {
  const std::string base = AbsolutePath(root);
  HF_ASSIGN_OR_RETURN(std::vector<TrashedStep> steps, ListTrash(base));
  if (only_leftovers) {
    std::erase_if(steps,
                  [](const TrashedStep& s) { return !s.is_being_removed; });
  }
  EmptiedTrash emptied;
  HF_RETURN_IF_ERROR(LeaveStrangers(steps, emptied.left_alone));
  HF_ASSIGN_OR_RETURN(const std::vector<std::string> paths,
                      MarkForRemoval(base, steps));
  for (const std::string& path : paths) {
    const uint64_t bytes = BytesBelow(path);
    HF_RETURN_IF_ERROR(RemoveTrashed(path));
    ++emptied.step_count;
    emptied.bytes += bytes;
  }
  return emptied;
}

Status RemoveDirectoryTree(const std::string& path) {
  const Status removed = RemoveTree(Place(path));
  return removed.code() == StatusCode::kNotFound ? Status() : removed;
}

}  // namespace holdfast
