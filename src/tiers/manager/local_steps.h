// LocalSteps: the steps of one run in this host's directory of the local tier.
//
// A step is written as `<name>.tmp`, and gets its name once it is completely on
// stable storage. To remove it, it is first renamed to `<name>.removing`. The
// next process removes what a dead process left under such names. The directory
// is locked, so only one process uses it at a time.
// Thread-safety: any thread. Ownership: owns the lock. Units: bytes.
// Errors: AlreadyExists (another process uses the directory), those of
// stores/storage/directory_ops.h.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/status.h"
#include "stores/storage/directory_lock.h"
#include "tiers/manager/tier_record.h"

namespace holdfast {

class LocalSteps {
 public:
  // Opens `<directory>/<run>`, and creates it if it is absent.
  static Result<std::unique_ptr<LocalSteps>> Open(const std::string& directory,
                                                  const std::string& run);

  const std::string& path() const { return path_; }
  std::string PathOf(const TierMember& member) const;
  std::string TemporaryPathOf(const TierMember& member) const;
  // Returns the members that have their final name, oldest first.
  Result<std::vector<TierMember>> List() const;
  bool IsProtected(const TierMember& member) const;

  // Creates an empty temporary directory in place of any older one.
  Status Begin(const TierMember& member);
  // Gives the temporary directory its final name. REQUIRES: everything below
  // the directory is durable, except the names in the directory itself.
  Status Publish(const TierMember& member);
  Status Abandon(const TierMember& member);
  Status MarkProtected(const TierMember& member);
  // Removes a step. Ok if it does not exist.
  Status Remove(const TierMember& member);

  // Returns the free space of the directory's file system.
  Result<uint64_t> FreeBytes() const;
  // Returns the total size of all files of a step that has its final name.
  uint64_t BytesOf(const TierMember& member) const;

 private:
  LocalSteps(std::string path, DirectoryLock lock)
      : path_(std::move(path)), lock_(std::move(lock)) {}
  Status RemoveLeftovers() const;

  const std::string path_;
  const DirectoryLock lock_;
};

// A step on a host, for StepsToRemove.
struct KeptStep {
  TierStep step;
  bool is_protected = false;
  bool is_in_use = false;  // being copied to the shared tier
  uint64_t byte_count = 0;
};
// Returns the steps that may be removed, oldest first. `steps` must be in the
// same order.
//
// The newest `max_to_keep` protected steps, and all steps newer than the newest
// of these, are kept as far as they fit into `bytes_max` bytes (0: no bound);
// older steps are removed first. The newest protected step and steps in use
// always stay. Without a protected step nothing is removed. Pure function.
std::vector<TierStep> StepsToRemove(const std::vector<KeptStep>& steps,
                                    int64_t max_to_keep, uint64_t bytes_max);

}  // namespace holdfast
