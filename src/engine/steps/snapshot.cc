#include "engine/steps/snapshot.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "engine/commit/replaceable.h"
#include "engine/references/base_record.h"
#include "ground/base/no_throw.h"
#include "ground/base/sha256.h"
#include "ground/base/status_macros.h"
#include "holdfast/steps/wait_for_checkpoint.h"
#include "stores/place/directory_ops.h"
#include "stores/place/make_directories.h"
#include "stores/storage/errno_status.h"

namespace holdfast {
namespace {

// Distinguishes holdfast's snapshots from everything else in the directory.
constexpr std::string_view kSnapshotInfix = ".snapshot_";

// Locks a snapshot. The result is not valid while another process holds the
// lock.
UniqueFd LockSnapshot(const std::string& path) {
  UniqueFd fd(
      ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (fd.valid() && ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) fd.Reset();
  return fd;
}

// Removes snapshots of dead processes.
void RemoveAbandoned(const std::string& directory) {
  const auto names = ListDirectory(Place(directory));
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    if (name.find(kSnapshotInfix) == name.npos) continue;
    const std::string path = directory + "/" + name;
    const UniqueFd lock = LockSnapshot(path);
    if (lock.valid()) (void)RemoveTree(Place(path));
  }
}

// Links a file, or copies it. Files of a committed step never change, so a link
// is as good as a copy. A view's links lead to the same files from anywhere.
Status LinkOrCopy(const std::string& from, const std::string& to) {
  std::error_code none;
  if (std::filesystem::is_symlink(from, none)) {
    const auto real = std::filesystem::canonical(from, none);
    if (!none && ::symlink(real.c_str(), to.c_str()) == 0) return Status();
    return ErrnoStatus(none ? none.value() : errno, "link " + from + " as", to);
  }
  if (::link(from.c_str(), to.c_str()) == 0) return Status();
  if (errno == ENOENT) return ErrnoStatus(errno, "link " + from + " as", to);
  std::error_code failure;
  std::filesystem::copy_file(from, to, failure);
  if (!failure) return Status();
  return ErrnoStatus(failure.value(), "copy " + from + " to", to);
}

// Refuses a delta. A snapshot outlives its own step, but does not keep the
// bases that a delta needs.
Status CheckIsWhole(const std::string& source) {
  HF_ASSIGN_OR_RETURN(const auto bases, BaseRecordsOfStep(Place(source)));
  if (bases.empty()) return Status();
  return FailedPreconditionError(
      "snapshot of " + source + ": it is a delta, which needs its base " +
      bases.front().path + "; `holdfast materialize` makes a whole step of it");
}

Status LinkInto(const std::string& source, const std::string& target) {
  HF_RETURN_IF_ERROR(CheckIsWhole(source));
  HF_ASSIGN_OR_RETURN(const DirectoryTree tree, ListTree(Place(source)));
  // The list has parents after their children.
  for (auto directory = tree.directories.rbegin();
       directory != tree.directories.rend(); ++directory) {
    HF_RETURN_IF_ERROR(CreateDirectoryNew(Place(target + "/" + *directory)));
  }
  HF_ASSIGN_OR_RETURN(const auto files, EntriesBelow(Place(source)));
  for (const std::string& file : files) {
    HF_RETURN_IF_ERROR(LinkOrCopy(source + "/" + file, target + "/" + file));
  }
  // A listing that ran while the step was being removed would miss files. A
  // step is removed in one rename, so checking that its directory still exists
  // is enough.
  HF_ASSIGN_OR_RETURN(const PathKind kind, GetPathKind(Place(source)));
  if (kind == PathKind::kDirectory) return Status();
  return NotFoundError("link " + source + ": it is gone");
}

Status CheckSnapshot(const std::string& source, const std::string& snapshot) {
  if (Place(source).is_remote() || Place(snapshot).is_remote()) {
    return InvalidArgumentError(
        "Snapshot is not supported in object stores, which have no links: " +
        source + " to " + snapshot + ".");
  }
  if (!snapshot.starts_with('/')) {
    return InvalidArgumentError(
        "Snapshot destination must be absolute, but was '" + snapshot + "'.");
  }
  if (IsThere(Place(source))) return Status();
  return InvalidArgumentError("Snapshot source does not exist: " + source +
                              "'.");
}

}  // namespace

Status CreateSnapshot(const std::string& source, const std::string& snapshot) {
  HF_RETURN_IF_ERROR(CheckSnapshot(source, snapshot));
  const std::string unfinished = snapshot + ".pending_" + RandomHex32();
  HF_RETURN_IF_ERROR(CreateDirectoryNew(Place(unfinished)));
  Status made = LinkInto(source, unfinished);
  if (made.ok()) made = PublishDirectory(Place(unfinished), Place(snapshot));
  if (!made.ok()) (void)RemoveTree(Place(unfinished));
  return made;
}

Status ReleaseSnapshot(const std::string& snapshot) {
  if (IsThere(Place(snapshot))) return RemoveTree(Place(snapshot));
  return NotFoundError("Snapshot does not exist: " + snapshot);
}

Result<std::unique_ptr<Snapshot>> Snapshot::Make(const std::string& source,
                                                 const std::string& directory,
                                                 const std::string& name) {
  if (Place(source).is_remote() || Place(directory).is_remote()) {
    return InvalidArgumentError(
        "snapshot of " + source +
        ": only checkpoints on a file system can be linked");
  }
  static std::atomic<uint64_t> made_count{0};
  HF_RETURN_IF_ERROR(MakeDirectories(directory, std::nullopt));
  RemoveAbandoned(directory);
  const std::string path = directory + "/" + name +
                           std::string(kSnapshotInfix) +
                           std::to_string(::getpid()) + "_" +
                           std::to_string(made_count.fetch_add(1));
  HF_RETURN_IF_ERROR(CreateDirectoryNew(Place(path)));
  // Another process may have mistaken the new directory for an abandoned one.
  UniqueFd lock = LockSnapshot(path);
  if (!lock.valid()) {
    (void)RemoveTree(Place(path));
    return UnavailableError("snapshot " + path + ": it cannot be locked");
  }
  // From here on, the destructor removes it if linking fails.
  std::unique_ptr<Snapshot> snapshot(new Snapshot(path, std::move(lock)));
  HF_RETURN_IF_ERROR(LinkInto(source, path));
  return snapshot;
}

Snapshot::~Snapshot() {
  (void)CatchBadAlloc([&] { return RemoveTree(Place(path_)); });
}

}  // namespace holdfast
