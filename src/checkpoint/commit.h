// PendingCheckpoint: a checkpoint directory that does not exist yet.
//
// Files are written below directory(), a sibling of the final path named
// `<final>.orbax-checkpoint-tmp`; Commit makes the final path exist in one
// atomic rename. Destruction without Commit removes the temporary directory.
// It promises atomicity on its own, and durability if everything below
// directory() was synced before.
//
// A lock on the temporary directory keeps a second save to the same path out;
// one left behind by a dead process is removed.
// Thread-safety: one thread. Ownership: owns the temporary directory.
// Errors: AlreadyExists (`Destination P already exists.`, or another save is
// running), FailedPrecondition (overwrite of something that is no checkpoint),
// and those of the file system.
#pragma once

#include <memory>
#include <string>

#include "holdfast/status.h"
#include "storage/unique_fd.h"

namespace holdfast {

class PendingCheckpoint {
 public:
  // `final_path` is absolute. With `overwrite` an existing checkpoint (or an
  // empty directory) there is replaced at Commit; nothing else ever is.
  static Result<std::unique_ptr<PendingCheckpoint>> Begin(
      const std::string& final_path, bool overwrite);
  ~PendingCheckpoint();
  PendingCheckpoint(const PendingCheckpoint&) = delete;
  PendingCheckpoint& operator=(const PendingCheckpoint&) = delete;

  const std::string& directory() const { return directory_; }
  const std::string& final_path() const { return final_path_; }

  // Once. The rename is durable when it returns.
  Status Commit();

 private:
  PendingCheckpoint(std::string final_path, std::string directory,
                    bool overwrite, UniqueFd lock);

  std::string final_path_;
  std::string directory_;
  bool overwrite_;
  bool committed_ = false;
  UniqueFd lock_;
};

}  // namespace holdfast
