// PendingCheckpoint: a checkpoint directory that does not count yet.
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
// this there; the caller writes the last two files through remote(), before
// Commit.
//
// Atomicity is guaranteed unconditionally, durability only if everything below
// directory() was synced before. A lock (stores/storage/directory_lock.h) on
// directory() keeps a second save to the same path out; a directory left behind
// by a dead process is removed. A directory to be replaced is locked before it
// is renamed, and stays locked until it is removed: of two savers one may fail,
// and the checkpoint that remains is complete. Thread-safety: one thread.
// Ownership: owns the directory until Commit. Errors: AlreadyExists
// (`Destination P already exists.`, or another save is running),
// InvalidArgument (kRename in an object store), FailedPrecondition (overwrite
// of something other than a checkpoint, or of one that neighbouring checkpoints
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
  // An existing checkpoint (or an empty directory) is replaced at Commit;
  // nothing else ever is.
  bool overwrite = false;
  CommitMode mode = CommitMode::kAuto;
  // As SaveOptions::directory_mode.
  std::optional<uint32_t> directory_mode;
  // Replaces an empty directory even without `overwrite`.
  bool takes_empty_directory = false;
  // As PendingSaveOptions.
  std::string result_id;
  std::function<Status()> may_commit;
  bool keeps_other_files = false;
};

// The directory that holds the files of a save to `final_path` until it is
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
  // Whether the marker commits the checkpoint, so that everything else must be
  // durable before the marker is written.
  bool is_committed_by_marker() const {
    return options_.mode == CommitMode::kMarkerFile;
  }

  // Null for paths of a file system.
  RemoteCommit* remote() const { return remote_.get(); }

  // For a copy of the checkpoints at `sources`, or of parts of them: limits the
  // permissions to those of the sources. Call it before anything is written
  // below directory().
  Status BoundAccess(const std::vector<std::string>& sources);
  // Sets the permissions of everything below directory(): those of the
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
  // The caller did not ask for a mode: where directories cannot be renamed, a
  // marker commits.
  const bool may_choose_mode_;
  const CommitOptions options_;
  const Place directory_;
  bool is_committed_ = false;
  bool is_moved_by_files_ = false;  // leaves directory() over
  DirectoryLock lock_;              // of directory_, once that exists
  // The checkpoint that was at the final path, once it was moved away, and its
  // current path: it is moved back unless this save is committed.
  DirectoryLock replaced_;
  std::string replaced_at_;
  std::unique_ptr<RemoteCommit> remote_;
  AccessRule access_;
};

}  // namespace holdfast
