#include "checkpoint/commit.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <filesystem>

#include "base/status_macros.h"
#include "checkpoint/format/directory_names.h"
#include "checkpoint/layout.h"
#include "storage/directory_ops.h"
#include "storage/errno_status.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;

Status DestinationExistsError(const std::string& path) {
  return AlreadyExistsError("Destination " + path + " already exists.");
}

// Overwriting is for checkpoints; a mistyped path must not cost a home
// directory.
Status CheckMayReplace(const std::string& path) {
  HF_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                      ListDirectory(path));
  if (names.empty() || FindPlace(path, {}).ok()) return Status();
  return FailedPreconditionError(
      "overwrite " + path +
      ": refused, because it is neither a checkpoint nor an empty directory");
}

Status CheckDestination(const std::string& path, bool overwrite) {
  HF_ASSIGN_OR_RETURN(const PathKind kind, GetPathKind(path));
  if (kind == PathKind::kMissing) return Status();
  if (!overwrite || kind != PathKind::kDirectory) {
    return DestinationExistsError(path);
  }
  return CheckMayReplace(path);
}

// Held by a living save on its temporary directory.
Result<UniqueFd> LockDirectory(const std::string& path) {
  UniqueFd fd(
      open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd.valid()) return ErrnoStatus(errno, "open", path);
  if (flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return fd;
  if (errno == EWOULDBLOCK) {
    return AlreadyExistsError("another save is writing " + path);
  }
  // File systems without locks: go on without the guard.
  return fd;
}

Status RemoveLeftover(const std::string& directory) {
  HF_ASSIGN_OR_RETURN(const PathKind kind, GetPathKind(directory));
  if (kind == PathKind::kMissing) return Status();
  if (kind != PathKind::kDirectory) return DestinationExistsError(directory);
  HF_ASSIGN_OR_RETURN(const UniqueFd lock, LockDirectory(directory));
  return RemoveTree(directory);
}

Status CreateParents(const std::string& path) {
  const fs::path parent = fs::path(path).parent_path();
  HF_ASSIGN_OR_RETURN(const PathKind kind, GetPathKind(parent.string()));
  if (kind == PathKind::kDirectory || kind == PathKind::kSymlink) {
    return Status();
  }
  if (kind == PathKind::kFile) {
    return FailedPreconditionError("save to " + path + ": " + parent.string() +
                                   " is a file");
  }
  HF_RETURN_IF_ERROR(CreateParents(parent.string()));
  const Status created = CreateDirectoryNew(parent.string());
  // Somebody else may have made it just now.
  if (created.code() == StatusCode::kAlreadyExists) return Status();
  HF_RETURN_IF_ERROR(created);
  return SyncDirectory(parent.parent_path().string());
}

}  // namespace

PendingCheckpoint::PendingCheckpoint(std::string final_path,
                                     std::string directory, bool overwrite,
                                     UniqueFd lock)
    : final_path_(std::move(final_path)),
      directory_(std::move(directory)),
      overwrite_(overwrite),
      lock_(std::move(lock)) {}

Result<std::unique_ptr<PendingCheckpoint>> PendingCheckpoint::Begin(
    const std::string& final_path, bool overwrite) {
  const std::string name = fs::path(final_path).filename().string();
  if (name.empty()) {
    return InvalidArgumentError("save to " + final_path +
                                ": the path names no directory");
  }
  if (IsTemporaryName(name)) {
    return InvalidArgumentError("save to " + final_path +
                                ": the name is that of a temporary directory");
  }
  HF_RETURN_IF_ERROR(CheckDestination(final_path, overwrite));
  HF_RETURN_IF_ERROR(CreateParents(final_path));
  const std::string directory = TemporaryName(final_path);
  HF_RETURN_IF_ERROR(RemoveLeftover(directory));
  HF_RETURN_IF_ERROR(CreateDirectoryNew(directory));
  HF_ASSIGN_OR_RETURN(UniqueFd lock, LockDirectory(directory));
  return std::unique_ptr<PendingCheckpoint>(
      new PendingCheckpoint(final_path, directory, overwrite, std::move(lock)));
}

PendingCheckpoint::~PendingCheckpoint() {
  // Best effort: a leftover is recognised by its name and removed by the next
  // save to the same path.
  if (!committed_) (void)RemoveTree(directory_);
}

Status PendingCheckpoint::Commit() {
  Status published = PublishDirectory(directory_, final_path_);
  if (published.code() == StatusCode::kAlreadyExists) {
    if (!overwrite_) return DestinationExistsError(final_path_);
    HF_RETURN_IF_ERROR(CheckMayReplace(final_path_));
    HF_RETURN_IF_ERROR(ExchangeDirectories(directory_, final_path_));
    committed_ = true;
    // The old checkpoint now has the temporary name; it is no longer needed.
    return RemoveTree(directory_);
  }
  HF_RETURN_IF_ERROR(published);
  committed_ = true;
  return Status();
}

}  // namespace holdfast
