// PendingCheckpoint: a checkpoint directory that does not count yet.
//
// Files are written below directory(). Commit makes them a checkpoint;
// destruction without Commit removes them, and what was at the final path is
// there again. Two ways (CommitMode):
//
// kRename: directory() is a sibling of the final path named
// `<final>.orbax-checkpoint-tmp`; Commit renames it in one step. An overwrite
// exchanges the two names and removes the old checkpoint.
//
// kMarkerFile: directory() is the final path itself, which is not a checkpoint
// before the caller has written `commit_success.txt`, as the last file. An
// overwrite needs both checkpoints at one path, so the old one is first put
// aside as `<final>.holdfast-replaced`, complete and durable; Commit removes
// it, an abort gives it its name back, and after a crash so does the next
// Begin, or CleanupTemporaryPaths. (Orbax removes the old checkpoint before it
// writes the new one.)
//
// In object stores only kMarkerFile can be: see remote_commit.h, by which all
// of this happens there; the caller has it write the last two files, by
// remote(), before Commit.
//
// It promises atomicity on its own, and durability if everything below
// directory() was synced before. A lock (stores/storage/directory_lock.h) on
// directory() keeps a second save to the same path out; one left behind by a
// dead process is removed. A directory to be replaced is locked before it gets
// another name, and until it is removed: of two savers one may fail, and the
// remaining one is whole. Thread-safety: one thread. Ownership: owns the
// directory until Commit. Errors: AlreadyExists (`Destination P already
// exists.`, or another save is running), InvalidArgument (kRename in an object
// store), FailedPrecondition (overwrite of something other than a checkpoint,
// or that other checkpoints beside it refer to; directory() is no longer there
// at Commit), and those of the file system.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/commit/remote_commit.h"
#include "holdfast/options.h"
#include "holdfast/status.h"
#include "stores/storage/directory_lock.h"
#include "stores/storage/tree_access.h"

namespace holdfast {

struct CommitOptions {
  // An existing checkpoint (or an empty directory) is replaced at Commit;
  // nothing else ever is.
  bool overwrite = false;
  CommitMode mode = CommitMode::kAuto;
  // As SaveOptions::directory_mode.
  std::optional<uint32_t> directory_mode;
  // An empty directory is replaced also without `overwrite`.
  bool takes_empty_directory = false;
  // As PendingSaveOptions.
  std::string result_id;
  std::function<Status()> may_commit;
  bool keeps_other_files = false;
};

// The directory in which a save to `final_path` puts its files until it is
// committed.
Place PendingDirectory(const Place& final_place, CommitMode mode);

class PendingCheckpoint {
 public:
  // `final_place` is absolute.
  static Result<std::unique_ptr<PendingCheckpoint>> Begin(
      const Place& final_place, const CommitOptions& options = {});
  ~PendingCheckpoint();
  PendingCheckpoint(const PendingCheckpoint&) = delete;
  PendingCheckpoint& operator=(const PendingCheckpoint&) = delete;

  const std::string& directory() const { return directory_.path(); }
  const std::string& final_path() const { return final_place_.path(); }
  // Whether the marker is what commits, so that everything else must be durable
  // before it is written.
  bool is_committed_by_marker() const {
    return options_.mode == CommitMode::kMarkerFile;
  }

  // Null for paths of a file system.
  RemoteCommit* remote() const { return remote_.get(); }

  // For a copy of, or of parts of, what is at `sources`: it will give nobody
  // more permissions than these do. Before anything is below directory().
  Status BoundAccess(const std::vector<std::string>& sources);
  // Everything below directory() gets the permissions that it is to have: those
  // of the checkpoint that it replaces, and no more than those of its sources.
  // Again for files that are written later.
  Status SetAccess(bool sync) const;
  // Once, when everything below directory() is written, the marker too. The
  // checkpoint is durable when it returns.
  Status Commit();

 private:
  PendingCheckpoint(Place final_place, const CommitOptions& options);
  Status BeginTemporary();
  Status BeginInPlace();
  Status PutAsideOrRemove();
  Status PutAsideByFiles();
  Status MakeDirectory();
  Status PutAside();
  Status Publish();
  Status PublishByFiles();
  Status KeepOtherFiles();
  void UndoRename();
  void Abort();

  const Place final_place_;
  // Nobody has asked for a mode: where directories are not renamed, a marker
  // commits.
  const bool may_choose_mode_;
  const CommitOptions options_;
  const Place directory_;
  bool is_committed_ = false;
  bool is_moved_by_files_ = false;  // and directory() is left over
  DirectoryLock lock_;              // of directory_, once it is there
  // The checkpoint that was at the final path, once it is moved away, and where
  // to: it comes back unless this save is committed.
  DirectoryLock replaced_;
  std::string replaced_at_;
  std::unique_ptr<RemoteCommit> remote_;
  AccessRule access_;
};

}  // namespace holdfast
