#include "steps/snapshot.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <utility>

#include "base/no_throw.h"
#include "base/status_macros.h"
#include "place/directory_ops.h"
#include "steps/make_directories.h"
#include "storage/errno_status.h"

namespace holdfast {
namespace {

// Tells our snapshots from anything else in the directory.
constexpr std::string_view kSnapshotInfix = ".snapshot_";

// Not valid while another process has the lock.
UniqueFd LockSnapshot(const std::string& path) {
  UniqueFd fd(
      ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (fd.valid() && ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) fd.Reset();
  return fd;
}

// Removes what dead processes left.
void RemoveAbandoned(const std::string& directory) {
  const auto names = ListDirectory(directory);
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    if (name.find(kSnapshotInfix) == name.npos) continue;
    const std::string path = directory + "/" + name;
    const UniqueFd lock = LockSnapshot(path);
    if (lock.valid()) (void)RemoveTree(path);
  }
}

Status LinkInto(const std::string& source, const std::string& target) {
  HF_ASSIGN_OR_RETURN(const DirectoryTree tree, ListTree(source));
  // The list has parents last.
  for (auto directory = tree.directories.rbegin();
       directory != tree.directories.rend(); ++directory) {
    HF_RETURN_IF_ERROR(CreateDirectoryNew(target + "/" + *directory));
  }
  for (const std::string& file : tree.files) {
    const std::string from = source + "/" + file;
    const std::string to = target + "/" + file;
    if (::link(from.c_str(), to.c_str()) != 0) {
      return ErrnoStatus(errno, "link " + from + " as", to);
    }
  }
  // A listing that ran while the step was removed would miss files. A step goes
  // as a whole, so it is enough that its directory is still there.
  HF_ASSIGN_OR_RETURN(const PathKind kind, GetPathKind(source));
  if (kind == PathKind::kDirectory) return Status();
  return NotFoundError("link " + source + ": it is gone");
}

}  // namespace

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
  HF_RETURN_IF_ERROR(CreateDirectoryNew(path));
  UniqueFd lock = LockSnapshot(path);
  if (!lock.valid()) {
    (void)RemoveTree(path);
    return UnavailableError("snapshot " + path + ": it cannot be locked");
  }
  // From here on the destructor removes it when the links fail.
  std::unique_ptr<Snapshot> snapshot(new Snapshot(path, std::move(lock)));
  HF_RETURN_IF_ERROR(LinkInto(source, path));
  return snapshot;
}

Snapshot::~Snapshot() {
  (void)CatchBadAlloc([&] { return RemoveTree(path_); });
}

}  // namespace holdfast
