#include "engine/references/referrers.h"

#include <dirent.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "engine/check/digest_index.h"
#include "engine/check/view_sources.h"
#include "engine/format/directory_names.h"
#include "engine/references/base_record.h"
#include "ground/base/status_macros.h"
#include "holdfast/steps/steps.h"
#include "stores/place/directory_ops.h"
#include "stores/place/look.h"
#include "stores/storage/directory_lock.h"
#include "stores/storage/errno_status.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;

struct DirectoryEntry {
  std::string name;
  PathKind kind = PathKind::kOther;
};

PathKind KindOf(const Place& directory, const ::dirent& entry) {
  switch (entry.d_type) {
    case DT_DIR:
      return PathKind::kDirectory;
    case DT_LNK:
      return PathKind::kSymlink;
    case DT_REG:
      return PathKind::kFile;
    case DT_UNKNOWN:
      break;
    default:
      return PathKind::kOther;
  }
  const auto kind = GetPathKind(directory / entry.d_name);
  return kind.ok() ? *kind : PathKind::kOther;
}

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

// Returns the entries of a directory on disk. The types come with the names,
// since a root may have thousands of entries. (The iterators of std::filesystem
// end the process when memory runs out.)
Result<std::vector<DirectoryEntry>> LocalEntriesOf(const Place& directory) {
  std::vector<DirectoryEntry> entries;
  const std::unique_ptr<DIR, CloseDirectory> opened(
      ::opendir(directory.path().c_str()));
  if (opened == nullptr) {
    const bool is_none = errno == ENOENT || errno == ENOTDIR || errno == ELOOP;
    if (is_none) return entries;
    return ErrnoStatus(errno, "list", directory.path());
  }
  for (;;) {
    errno = 0;
    const ::dirent* const entry = ::readdir(opened.get());
    if (entry == nullptr) break;
    const std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    entries.push_back({std::string(name), KindOf(directory, *entry)});
  }
  if (errno != 0) return ErrnoStatus(errno, "list", directory.path());
  return entries;
}

// Returns the entries of a directory. Empty for anything but a directory, and
// for a directory that no longer exists.
Result<std::vector<DirectoryEntry>> EntriesOf(const Place& directory) {
  if (!directory.is_remote()) return LocalEntriesOf(directory);
  std::vector<DirectoryEntry> entries;
  const Result<std::vector<std::string>> names = ListDirectory(directory);
  if (names.status().code() == StatusCode::kNotFound) return entries;
  HF_RETURN_IF_ERROR(names.status());
  for (const std::string& name : *names) {
    HF_ASSIGN_OR_RETURN(const PathKind kind, GetPathKind(directory / name));
    entries.push_back({name, kind});
  }
  return entries;
}

bool HasName(const std::vector<DirectoryEntry>& entries,
             std::string_view name) {
  return std::ranges::any_of(
      entries, [&](const DirectoryEntry& entry) { return entry.name == name; });
}

// Returns whether the process that writes this directory is alive.
bool IsBeingWritten(const Place& directory) {
  if (!directory.can_rename()) return true;
  const auto lock = DirectoryLock::Take(directory.path());
  return lock.status().code() == StatusCode::kAlreadyExists;
}

class ReferenceFinder {
 public:
  explicit ReferenceFinder(const Place& root) : root_(root) {
    std::error_code error;
    if (!root.is_remote()) real_root_ = fs::canonical(root.path(), error);
  }

  // Returns the references of the root's entry `name` to other entries there.
  Result<std::vector<Reference>> Find(const std::string& name) {
    found_.clear();
    step_ = directory_ = root_ / name;
    HF_ASSIGN_OR_RETURN(const PathKind kind, GetPathKind(step_));
    // A link to a step of this root is another name for that step.
    const bool is_other_name =
        kind == PathKind::kSymlink && NameInRoot(step_).has_value();
    if (name == kTrashDirectoryName) {
      HF_RETURN_IF_ERROR(LookIntoTrash());
    } else if (!is_other_name) {
      HF_RETURN_IF_ERROR(LookIntoStep(step_));
    }
    return OthersThan(name);
  }

  // Returns the same for the contents of `directory`, which will be the entry
  // `name`.
  Result<std::vector<Reference>> FindIn(const Place& directory,
                                        const std::string& name) {
    found_.clear();
    step_ = root_ / name;
    directory_ = directory;
    HF_RETURN_IF_ERROR(LookIntoStep(directory_));
    return OthersThan(name);
  }

  // Returns whether any link of the view at `directory` leads to the root's
  // entry `name`. The view may be outside the root.
  Result<bool> LinksTo(const Place& directory, const std::string& name) {
    found_.clear();
    wants_bases_ = false;
    step_ = directory_ = directory;
    HF_RETURN_IF_ERROR(LookIntoStep(directory_));
    return std::ranges::any_of(found_, [&](const Reference& reference) {
      return reference.target == name;
    });
  }

 private:
  std::vector<Reference> OthersThan(const std::string& name) {
    std::erase_if(found_, [&](const Reference& reference) {
      return reference.target == name;
    });
    return std::move(found_);
  }

  // Collects the references of the steps in the trash. A step that may be
  // restored needs what it needed before.
  Status LookIntoTrash() {
    const Place trash = step_;
    HF_ASSIGN_OR_RETURN(const auto steps, EntriesOf(trash));
    for (const DirectoryEntry& step : steps) {
      if (step.kind != PathKind::kDirectory) continue;
      if (step.name.ends_with(kRemovingSuffix)) continue;
      // The step's references are relative to where it was.
      step_ = root_ / step.name;
      directory_ = trash / step.name;
      HF_RETURN_IF_ERROR(LookIntoStep(directory_));
    }
    return Status();
  }

  // Collects the references of a step and its items. A view's links are in its
  // items, and only items with their own list can be views.
  Status LookIntoStep(const Place& directory) {
    HF_ASSIGN_OR_RETURN(const auto entries, EntriesOf(directory));
    HF_RETURN_IF_ERROR(AddBases(directory, entries));
    for (const DirectoryEntry& entry : entries) {
      const Place below = directory / entry.name;
      if (entry.kind == PathKind::kSymlink) AddLink(below);
      if (entry.kind != PathKind::kDirectory) continue;
      if (IsLeftover(below)) continue;
      if (entry.name == kSourcesDirectory) {
        HF_RETURN_IF_ERROR(LookBelow(below));
      } else if (MayBeItem(below)) {
        HF_RETURN_IF_ERROR(LookIntoItem(below));
      }
    }
    return Status();
  }

  // Returns whether a killed save left the directory. (The items of an
  // unfinished step are locked with the step.)
  static bool IsLeftover(const Place& directory) {
    return IsTemporaryName(directory.name()) &&
           !IsTemporaryName(directory.parent().name()) &&
           !IsBeingWritten(directory);
  }

  // Returns whether the directory may be an item. On disk, a step may contain
  // other directories of any size, which must not be listed.
  bool MayBeItem(const Place& directory) const {
    return root_.is_remote() || IsThere(directory / kTreeMetadataFile) ||
           IsThere(directory / kBaseFile) || IsThere(directory / kDigestFile);
  }

  Status LookIntoItem(const Place& item) {
    HF_ASSIGN_OR_RETURN(const auto entries, EntriesOf(item));
    HF_RETURN_IF_ERROR(AddBases(item, entries));
    if (root_.is_remote()) return Status();  // no links there
    if (!HasName(entries, kDigestFile)) return Status();
    for (const DirectoryEntry& entry : entries) {
      if (entry.kind == PathKind::kSymlink) AddLink(item / entry.name);
    }
    return LookBelow(item / kSourcesDirectory);
  }

  Status LookBelow(const Place& directory) {
    HF_ASSIGN_OR_RETURN(const auto entries, EntriesOf(directory));
    for (const DirectoryEntry& entry : entries) {
      const Place below = directory / entry.name;
      if (entry.kind == PathKind::kSymlink) AddLink(below);
      if (entry.kind == PathKind::kDirectory) {
        HF_RETURN_IF_ERROR(LookBelow(below));
      }
    }
    return Status();
  }

  // Adds the steps that a delta may have been made from.
  Status AddBases(const Place& directory,
                  const std::vector<DirectoryEntry>& entries) {
    if (!wants_bases_) return Status();
    const bool has_file = HasName(entries, kBaseFile);
    // In a bucket, each read of metadata would be a request.
    const bool may_be_delta =
        has_file || (!root_.is_remote() && HasName(entries, kTreeMetadataFile));
    if (!may_be_delta) return Status();
    HF_ASSIGN_OR_RETURN(const auto records, BaseRecordsIn(directory));
    for (const BaseRecord& record : records) {
      for (const Place& place : PlacesOfBase(step_, record)) {
        if (place.parent().path() == root_.path()) {
          Add(place.name(), "the delta", record);
        }
        if (const auto name = NameInRoot(place)) {
          Add(*name, "the delta", record);
        }
      }
    }
    return Status();
  }

  // Adds the entry of the root that a link leads to, even if the link's target
  // no longer exists. A link in the trash is relative to where its step was.
  void AddLink(const Place& link) {
    std::error_code error;
    const fs::path target = fs::read_symlink(link.path(), error);
    if (error) return;
    const fs::path at = link.path();
    fs::path from = fs::weakly_canonical(at.parent_path(), error);
    if (error) return;
    if (directory_.path() != step_.path()) {
      const fs::path inside = at.lexically_relative(directory_.path());
      from = (step_.path() / inside).parent_path();
    }
    const Place leads_to((from / target).string());
    if (const auto name = NameInRoot(leads_to)) Add(*name, "the view", {});
  }

  void Add(std::string target, std::string_view what, const BaseRecord& base) {
    found_.push_back({std::move(target), what, base});
  }

  // Returns the entry of the root that a place leads to, or into, by its real
  // path.
  std::optional<std::string> NameInRoot(const Place& place) const {
    if (place.is_remote() || real_root_.empty()) return std::nullopt;
    std::error_code error;
    const fs::path real = fs::weakly_canonical(place.path(), error);
    if (error) return std::nullopt;
    const fs::path inside = real.lexically_relative(real_root_);
    if (inside.empty() || *inside.begin() == ".." || inside == ".") {
      return std::nullopt;
    }
    return inside.begin()->string();
  }

  const Place root_;
  fs::path real_root_;
  Place step_;       // the path that references are relative to
  Place directory_;  // where the files are
  bool wants_bases_ = true;
  std::vector<Reference> found_;
};

// Decides whether an entry next to a step counts when the step is replaced.
bool CountsBesideReplaced(const Place& root, const std::string& name,
                          const std::string& replaced) {
  if (name == kTrashDirectoryName) return false;
  if (FinalName(name) == replaced) return false;  // what will replace it
  return !IsTemporaryName(name) || IsBeingWritten(root / name);
}

Status NeededError(const Place& place, const Reference& reference,
                   const std::string& by) {
  const std::string referrer = (place.parent() / by).path();
  return FailedPreconditionError(
      "replace " + place.path() + ": refused, because " +
      std::string(reference.what) + " " + referrer +
      " refers to it and would be lost; `holdfast materialize " + referrer +
      "` gives it bytes of its own, or remove it first");
}

// Returns FailedPrecondition for an item of a step whose list of checksums
// covers the item.
Status CheckIsNoItem(const Place& place) {
  const Place step = place.parent();
  const std::shared_ptr<Store> store = step.OpenStore();
  if (!IsThere(step / kDigestFile)) return Status();
  const auto digests = DigestIndex::Read(*store);
  if (!digests.ok() || !digests->has_value()) return Status();
  const std::string below = place.name() + "/";
  const bool is_item = std::ranges::any_of(
      (*digests)->files(),
      [&](const FileDigest& row) { return row.path.starts_with(below); });
  if (!is_item) return Status();
  return FailedPreconditionError(
      "replace " + place.path() + ": refused, because it is an item of " +
      step.path() +
      ", whose list of checksums would be wrong; replace the "
      "whole step");
}

}  // namespace

Result<std::map<std::string, std::string>> NeededByOthers(
    const Place& root, const std::vector<std::string>& names) {
  std::map<std::string, std::string> needed;
  if (names.empty()) return needed;
  const LookScope look(root);  // in a bucket one listing covers all steps
  HF_ASSIGN_OR_RETURN(const auto entries, EntriesOf(look.place()));
  std::set<std::string> going(names.begin(), names.end());
  std::vector<std::string> staying;  // not searched yet
  for (const DirectoryEntry& entry : entries) {
    const bool may_refer =
        entry.kind == PathKind::kDirectory || entry.kind == PathKind::kSymlink;
    if (may_refer && !going.contains(entry.name)) staying.push_back(entry.name);
  }
  ReferenceFinder finder(look.place());
  while (!staying.empty()) {
    const std::string step = std::move(staying.back());
    staying.pop_back();
    HF_ASSIGN_OR_RETURN(const auto found, finder.Find(step));
    for (const Reference& reference : found) {
      // A step that another step keeps also keeps what it refers to, so it is
      // searched in turn, and only once.
      if (going.erase(reference.target) == 0) continue;
      needed.emplace(reference.target,
                     std::string(reference.what) + " " + step);
      staying.push_back(reference.target);
    }
  }
  return needed;
}

std::vector<std::string> ReferrersFirst(const Place& root,
                                        const std::vector<std::string>& names) {
  if (names.size() < 2) return names;
  const LookScope look(root);
  ReferenceFinder finder(look.place());
  std::map<std::string, std::vector<std::string>> targets;
  for (const std::string& name : names) {
    const auto found = finder.Find(name);
    if (!found.ok()) continue;
    for (const Reference& reference : *found) {
      targets[name].push_back(reference.target);
    }
  }
  std::vector<std::string> order;  // steps that others refer to come first
  std::set<std::string> left(names.begin(), names.end());
  std::vector<std::string> path;
  for (const std::string& name : names) {
    if (left.erase(name) != 0) path.push_back(name);
    while (!path.empty()) {
      std::vector<std::string>& below = targets[path.back()];
      if (below.empty()) {
        order.push_back(std::move(path.back()));
        path.pop_back();
        continue;
      }
      // A step comes after all steps that it refers to. A cycle ends, since
      // each step leaves `left` once.
      std::string next = std::move(below.back());
      below.pop_back();
      if (left.erase(next) != 0) path.push_back(std::move(next));
    }
  }
  std::ranges::reverse(order);
  return order;
}

Result<std::vector<Reference>> ReferencesOf(const Place& root,
                                            const std::string& name,
                                            const Place& directory) {
  return ReferenceFinder(root).FindIn(directory, name);
}

Result<bool> IsMadeFrom(const std::string& path,
                        const std::vector<std::string>& bases,
                        const Place& bare) {
  const Place target = bare.Absolute();
  if (!target.is_remote()) {
    HF_ASSIGN_OR_RETURN(const PathKind kind, GetPathKind(target));
    // A new step, the usual case: the directories of the bases, which may hold
    // thousands of files, need not be listed.
    if (kind == PathKind::kMissing) return false;
  }
  std::vector<std::string> chain = {path};
  chain.insert(chain.end(), bases.begin(), bases.end());
  ReferenceFinder finder(target.parent());
  for (const std::string& step : chain) {
    const Place place(step);
    if (IsSamePlace(place, target)) return true;
    if (place.is_remote() || target.is_remote()) continue;  // no links there
    HF_ASSIGN_OR_RETURN(const bool links, finder.LinksTo(place, target.name()));
    if (links) return true;
  }
  return false;
}

Status CheckNothingNeeds(const Place& bare, const std::string& result_id) {
  const Place place = bare.Absolute();
  HF_RETURN_IF_ERROR(CheckIsNoItem(place));
  const LookScope look(place.parent());
  const Place& root = look.place();
  HF_ASSIGN_OR_RETURN(const auto entries, EntriesOf(root));
  ReferenceFinder finder(root);
  for (const DirectoryEntry& entry : entries) {
    const bool may_refer =
        entry.kind == PathKind::kDirectory || entry.kind == PathKind::kSymlink;
    if (!may_refer || entry.name == place.name()) continue;
    const auto found = finder.Find(entry.name);
    // A directory that cannot be read here is not a step of this run.
    if (found.status().code() == StatusCode::kPermissionDenied) continue;
    if (found.status().code() == StatusCode::kNotFound) continue;
    HF_RETURN_IF_ERROR(found.status());
    for (const Reference& reference : *found) {
      if (reference.target != place.name()) continue;
      const BaseRecord& base = reference.base;
      // The new checkpoint has the content that the delta was made from. A
      // damaged delta that records only a path refers to whatever is there.
      const bool stays_good =
          !result_id.empty() && (base.is_known() ? base.id == result_id
                                                 : HasResult(place, result_id));
      if (stays_good) continue;
      if (!CountsBesideReplaced(root, entry.name, place.name())) continue;
      // A delta of an earlier checkpoint at this path loses nothing.
      if (!base.content_hash.empty()) {
        const auto is_base = IsBaseAt(place, base);
        if (is_base.ok() && !*is_base) continue;
      }
      return NeededError(place, reference, entry.name);
    }
  }
  return Status();
}

}  // namespace holdfast
