#include "tools/convert/work_directory.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <utility>
#include <vector>

#include "engine/commit/replaceable.h"
#include "engine/commit/tree_listing.h"
#include "engine/commit/unfinished.h"
#include "engine/references/reference_lock.h"
#include "engine/references/referrers.h"
#include "foreign/open/may_replace.h"
#include "ground/base/coding.h"
#include "ground/base/no_throw.h"
#include "ground/base/status_macros.h"
#include "ground/base/string_coding.h"
#include "ground/base/xxh64.h"
#include "holdfast/checkpoint.h"
#include "stores/place/directory_ops.h"
#include "stores/place/step_address.h"
#include "stores/storage/errno_status.h"
#include "stores/storage/path_parts.h"
#include "stores/storage/rename_call.h"
#include "stores/storage/replace_directory.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;

Status TargetExistsError(const std::string& path) {
  return AlreadyExistsError("Destination " + path + " already exists.");
}

bool IsCheckpoint(const Place& place) {
  OpenOptions open;
  open.stored_sizes = false;
  return Open(place.path(), open).ok();
}

// Allows overwriting only a checkpoint, so that a mistyped path cannot delete a
// home directory.
Status CheckTarget(const Place& target, const WorkDirectory::Options& options) {
  HF_ASSIGN_OR_RETURN(const PathKind kind, GetPathKind(target));
  if (kind == PathKind::kMissing) return Status();
  const bool is_dir = kind == PathKind::kDirectory;
  if (!options.overwrite || (!is_dir && kind != PathKind::kFile)) {
    return TargetExistsError(target.path());
  }
  if (is_dir) return CheckMayReplaceAnyFormat(target, options.result_id);
  if (IsCheckpoint(target)) return CheckNothingNeeds(target);
  return FailedPreconditionError("overwrite " + target.path() +
                                 ": refused, because it is not a checkpoint");
}

Status MakeParents(const std::string& path) {
  std::error_code error;
  fs::create_directories(fs::path(path).parent_path(), error);
  if (!error) return Status();
  return ErrnoStatus(error.value(), "create directory",
                     fs::path(path).parent_path().string());
}

// Returns false, and adds nothing, for anything but a regular file.
bool AddFile(const std::string& path, std::string_view name, Xxh64& hash) {
  struct stat info;
  if (::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return false;
  std::string text;
  PutString(text, name);
  PutVarint(text, static_cast<uint64_t>(info.st_size));
  PutVarint(text, static_cast<uint64_t>(info.st_mtim.tv_sec));
  PutVarint(text, static_cast<uint64_t>(info.st_mtim.tv_nsec));
  hash.Update(text);
  return true;
}

// Returns all files below `path`, without directories, relative to `path` and
// with a leading slash.
Result<std::vector<std::string>> FilesBelow(const std::string& path) {
  std::vector<std::string> files;
  HF_ASSIGN_OR_RETURN(const std::vector<std::string> entries,
                      EntriesBelow(Place(path)));
  for (const std::string& entry : entries) {
    std::error_code ignored;  // a link may lead to a directory
    if (!fs::is_directory(path + "/" + entry, ignored)) {
      files.push_back("/" + entry);
    }
  }
  return files;
}

}  // namespace

uint64_t FilesHash(const Place& place) {
  if (place.is_remote()) {
    const Result<TreeListing> listing = ListWholeTree(place);
    return listing.ok() ? ListingHash(*listing) : 0;
  }
  const std::string& path = place.path();
  Xxh64 hash;
  if (std::error_code ignored; !fs::is_directory(path, ignored)) {
    return AddFile(path, "", hash) ? hash.Digest() : 0;
  }
  const Result<std::vector<std::string>> names = FilesBelow(path);
  if (!names.ok()) return 0;
  for (const std::string& name : *names) AddFile(path + name, name, hash);
  return hash.Digest();
}

WorkDirectory::WorkDirectory(const Place& target, const JournalHead& head,
                             const Options& options)
    : target_(target),
      path_(target.path() + std::string(kWorkSuffix)),
      head_(head),
      options_(options),
      access_(AccessRule::Of(target.path(), options_.copies_of)) {}

std::vector<std::string> SourcePathsOf(const Checkpoint& source,
                                       const ConvertOptions& options) {
  std::vector<std::string> paths = options.copies_of;
  paths.push_back(source.info().path);
  for (const auto* more : {&source.info().bases, &source.info().sources}) {
    paths.insert(paths.end(), more->begin(), more->end());
  }
  return paths;
}

Result<std::unique_ptr<WorkDirectory>> WorkDirectory::Begin(
    const Place& target, const JournalHead& head, const Options& options) {
  if (target.name().empty()) {
    return InvalidArgumentError("convert to " + target.path() +
                                ": the path names no file or directory");
  }
  HF_RETURN_IF_ERROR(CheckNamesNoStep(target));
  HF_RETURN_IF_ERROR(RecoverReplaced(target).status());
  HF_RETURN_IF_ERROR(CheckTarget(target, options));
  HF_RETURN_IF_ERROR(MakeParents(target.path()));
  std::unique_ptr<WorkDirectory> work(new WorkDirectory(target, head, options));
  HF_RETURN_IF_ERROR(work->Prepare());
  return work;
}

Status WorkDirectory::Prepare() {
  HF_ASSIGN_OR_RETURN(const PathKind kind, GetPathKind(Place(path_)));
  if (kind != PathKind::kMissing && kind != PathKind::kDirectory) {
    return TargetExistsError(path_);
  }
  if (kind == PathKind::kMissing) {
    HF_ASSIGN_OR_RETURN(lock_, DirectoryLock::Make(path_));
    is_begun_ = true;
    HF_RETURN_IF_ERROR(access_.CloseWhileItGrows(path_));
    return StartAnew("");
  }
  // Lock before reading the journal: another conversion may be appending to it.
  HF_ASSIGN_OR_RETURN(lock_, DirectoryLock::Take(path_));
  HF_ASSIGN_OR_RETURN(FoundJournal found, ReadJournal(JournalPath()));
  is_begun_ = true;
  HF_ASSIGN_OR_RETURN(const PathKind data, GetPathKind(Place(data_path())));
  using State = FoundJournal::State;
  if (options_.restart) return StartAnew("restart was requested");
  if (found.state == State::kMissing) {
    return StartAnew("an earlier conversion left no journal");
  }
  if (found.state == State::kDamaged) {
    return StartAnew("the journal of an earlier conversion is damaged");
  }
  if (found.head.source_hash != head_.source_hash) {
    return StartAnew(
        "the source is another one or has changed since an earlier "
        "conversion began");
  }
  if (found.head.plan_hash != head_.plan_hash) {
    return StartAnew("an earlier conversion had other options");
  }
  if (data != PathKind::kDirectory || found.marks.empty()) {
    return StartAnew("an earlier conversion had finished nothing");
  }
  // From here on, the files are kept after a failure.
  is_worth_keeping_ = true;
  HF_ASSIGN_OR_RETURN(journal_,
                      Journal::Continue(JournalPath(), found, options_.sync));
  found_ = std::move(found);
  resume_text_ = "continues an earlier conversion, whose files are in " + path_;
  return Status();
}

Status WorkDirectory::StartAnew(const std::string& why) {
  resume_text_ = why.empty() ? "" : "started over: " + why;
  found_ = FoundJournal();
  is_worth_keeping_ = false;
  journal_.reset();
  HF_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                      ListDirectory(Place(path_)));
  for (const std::string& name : names) {
    const std::string entry = path_ + "/" + name;
    HF_ASSIGN_OR_RETURN(const PathKind kind, GetPathKind(Place(entry)));
    if (kind == PathKind::kDirectory) {
      HF_RETURN_IF_ERROR(RemoveTree(Place(entry)));
    } else if (::unlink(entry.c_str()) != 0) {
      return ErrnoStatus(errno, "remove", entry);
    }
  }
  HF_ASSIGN_OR_RETURN(journal_,
                      Journal::Create(JournalPath(), head_, options_.sync));
  HF_RETURN_IF_ERROR(CreateDirectoryNew(Place(data_path())));
  if (!options_.sync) return Status();
  HF_RETURN_IF_ERROR(SyncDirectory(Place(path_)));
  return SyncDirectory(Place(ParentPath(path_)));
}

// Best effort: the next conversion to the same target removes leftovers.
WorkDirectory::~WorkDirectory() {
  if (!is_begun_ || is_worth_keeping_) return;
  (void)CatchBadAlloc([&] { return lock_.Remove(path_); });
}

Status WorkDirectory::Append(std::span<const JournalRecord> records) {
  if (records.empty()) return Status();
  HF_RETURN_IF_ERROR(journal_->Append(records));
  is_worth_keeping_ = true;
  return Status();
}

Status WorkDirectory::WithAdvice(const Status& failure) const {
  if (failure.code() != StatusCode::kResourceExhausted || !is_worth_keeping_) {
    return failure;
  }
  return ResourceExhaustedError(
      std::string(failure.message()) + "; the finished part is kept in " +
      path_ + ": make room, and the same call continues from there");
}

Status WorkDirectory::DropJournal() {
  is_worth_keeping_ = false;
  if (::unlink(JournalPath().c_str()) != 0 && errno != ENOENT) {
    return ErrnoStatus(errno, "remove", JournalPath());
  }
  return options_.sync ? SyncDirectory(Place(path_)) : Status();
}

Status WorkDirectory::Publish(const std::string& name) {
  // Drop the journal first: if names are exchanged, the work directory will
  // hold the old target's data.
  HF_RETURN_IF_ERROR(DropJournal());
  const std::string source =
      name.empty() ? data_path() : data_path() + "/" + name;
  HF_RETURN_IF_ERROR(access_.Apply(source, options_.sync));
  const std::string& target = target_.path();
  ReferenceLock lock(target_.parent());
  int error = RenameNew(AT_FDCWD, source.c_str(), target.c_str());
  if (error == EEXIST) {
    HF_ASSIGN_OR_RETURN(const PathKind kind, GetPathKind(target_));
    HF_ASSIGN_OR_RETURN(const PathKind made, GetPathKind(Place(source)));
    const bool are_files =
        kind != PathKind::kDirectory && made != PathKind::kDirectory;
    if (!are_files) return PublishOver(source);
    HF_RETURN_IF_ERROR(CheckTarget(target_, options_));
    error = ::rename(source.c_str(), target.c_str()) == 0 ? 0 : errno;
  }
  if (error != 0) {
    return ErrnoStatus(error, "publish " + source + " as", target);
  }
  lock.Unlock();
  if (options_.sync) {
    HF_RETURN_IF_ERROR(SyncDirectory(target_.parent()));
    // Sync both directories of the rename before the work directory is removed.
    HF_RETURN_IF_ERROR(SyncDirectory(Place(ParentPath(source))));
  }
  return Remove();
}

// Replaces the old target. It stays locked until it is removed: the exchange
// moves it into the work directory or next to the target.
Status WorkDirectory::PublishOver(const std::string& source) {
  HF_ASSIGN_OR_RETURN(const PathKind kind, GetPathKind(target_));
  DirectoryLock replaced;
  if (kind == PathKind::kDirectory) {
    HF_ASSIGN_OR_RETURN(replaced, DirectoryLock::Take(target_.path()));
  }
  HF_RETURN_IF_ERROR(CheckTarget(target_, options_));
  const std::string aside = MovedPlace(target_).path();
  HF_ASSIGN_OR_RETURN(const std::string at,
                      local::ReplaceDirectory(source, target_.path(), aside));
  if (at == aside && replaced.is_held()) {
    HF_RETURN_IF_ERROR(replaced.Remove(aside));
  } else if (at == aside && ::unlink(aside.c_str()) != 0) {
    return ErrnoStatus(errno, "remove", aside);
  }
  return Remove();
}

Status WorkDirectory::Remove() {
  is_begun_ = false;
  return lock_.Remove(path_);
}

}  // namespace holdfast
