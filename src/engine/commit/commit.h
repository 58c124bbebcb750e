// PendingCheckpoint: the directory of a checkpoint that is not committed yet.
//
// Files are written below directory(). Commit turns them into a checkpoint;
// destruction without Commit removes them and restores whatever was at the
// final path. There are two methods (CommitMode):
//
// kRename: directory() is a sibling of the final path named
// `<final>.orbax-checkpoint-tmp`; Commit renames it in one step. An overwrite
// exchanges the two names and removes the old checkpoint.
//
// kMarkerFile: directory() is the final path itself, which is not a checkpoint
// until the caller has written `commit_success.txt`, as the last file. An
// overwrite needs both checkpoints at one path, so the old one is first put
// aside as `<final>.holdfast-replaced`, complete and durable. Commit removes
// it; an abort restores its name, and after a crash the next Begin or
// CleanupTemporaryPaths does. (Orbax removes the old checkpoint before it
// writes the new one.)
//
// In object stores only kMarkerFile is possible. remote_commit.h does all of
// this there, and the caller writes the last two files through remote() before
// Commit.
//
// Atomicity is guaranteed unconditionally, durability only if everything below
// directory() was synced before. A lock (stores/storage/directory_lock.h) on
// directory() keeps a second save to the same path out; a directory left behind
// by a dead process is removed. A directory to be replaced is locked before it
// is renamed, and stays locked until it is removed. If two savers compete, one
// may fail, but the checkpoint that remains is complete.
//
// Thread-safety: one thread.
// Ownership: owns the directory until Commit. Errors: AlreadyExists
// (`Destination P already exists.`, or another save is running),
// InvalidArgument (kRename in an object store), FailedPrecondition (overwrite
// of something other than a checkpoint, or of one that neighboring checkpoints
// refer to; directory() no longer exists at Commit), and those of the file
// system.
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
  // Replaces an existing checkpoint (or an empty directory) at Commit. Anything
  // else is never replaced.
  bool overwrite = false;
  CommitMode mode = CommitMode::kAuto;
  // Like SaveOptions::directory_mode.
  std::optional<uint32_t> directory_mode;
  // Replaces an empty directory even without `overwrite`.
  bool takes_empty_directory = false;
  // Like the members of PendingSaveOptions.
  std::string result_id;
  std::function<Status()> may_commit;
  bool keeps_other_files = false;
};

// Returns the directory that holds the files of a save to `final_path` until it
// is committed.
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
  // Returns whether the marker commits the checkpoint. If so, everything else
  // must be durable before the marker is written.
  bool is_committed_by_marker() const {
    return options_.mode == CommitMode::kMarkerFile;
  }

  // Returns null for a path in a file system.
  RemoteCommit* remote() const { return remote_.get(); }

  // Limits the permissions to those of `sources`, the checkpoints that are
  // being copied, completely or in part. Call it before anything is written
  // below directory().
  Status BoundAccess(const std::vector<std::string>& sources);
  // Sets the permissions of everything below directory() to those of the
  // checkpoint that it replaces, limited to those of its sources. Call it again
  // after writing more files.
  Status SetAccess(bool sync) const;
  // Call once, after everything below directory() is written, including the
  // marker. The checkpoint is durable when this returns.
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
  // True if the caller did not choose a mode: then a marker commits where
  // directories cannot be renamed.
  const bool may_choose_mode_;
  const CommitOptions options_;
  const Place directory_;
  bool is_committed_ = false;
  bool is_moved_by_files_ = false;  // directory() is left over
  DirectoryLock lock_;              // of directory_, once that exists
  // The checkpoint that was moved away from the final path, and its current
  // path. It is moved back unless this save is committed.
  DirectoryLock replaced_;
  std::string replaced_at_;
  std::unique_ptr<RemoteCommit> remote_;
  AccessRule access_;
};

}  // namespace holdfast
