// Snapshot: a step's files under other names, by hard links (or copies, where
// links are not possible), so that they outlive the step.
//
// A snapshot is locked while it is in use; a snapshot left by a dead process is
// removed when the next one is made in the same directory.
// Thread-safety: any thread, any process. Ownership: owns its directory.
// Errors: those of the file system, including a lack of hard links.
#pragma once

#include <memory>
#include <string>

#include "holdfast/status.h"
#include "stores/storage/unique_fd.h"

namespace holdfast {

class Snapshot {
 public:
  // Makes a snapshot of the directory `source`, in `directory`, under a name
  // that begins with `name`.
  static Result<std::unique_ptr<Snapshot>> Make(const std::string& source,
                                                const std::string& directory,
                                                const std::string& name);
  ~Snapshot();
  Snapshot(const Snapshot&) = delete;
  Snapshot& operator=(const Snapshot&) = delete;

  const std::string& path() const { return path_; }

 private:
  Snapshot(std::string path, UniqueFd lock)
      : path_(std::move(path)), lock_(std::move(lock)) {}

  const std::string path_;
  const UniqueFd lock_;
};

}  // namespace holdfast
