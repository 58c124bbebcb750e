// LocalSteps: the steps of one run in this host's directory of the local tier.
//
// A step grows as `<name>.tmp` and gets its name when all of it is on stable
// storage; it goes by a rename to `<name>.removing`. Leftovers of a dead
// process under such names are removed by the next. The directory is locked:
// one process uses it at a time.
// Thread-safety: any thread. Ownership: the lock. Units: bytes.
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
  // `<directory>/<run>`, made when absent.
  static Result<std::unique_ptr<LocalSteps>> Open(const std::string& directory,
                                                  const std::string& run);

  const std::string& path() const { return path_; }
  std::string PathOf(const TierMember& member) const;
  std::string TemporaryPathOf(const TierMember& member) const;
  // The members that have their name; oldest first.
  Result<std::vector<TierMember>> List() const;
  bool IsProtected(const TierMember& member) const;

  // An empty temporary directory, in place of an older one.
  Status Begin(const TierMember& member);
  // REQUIRES: all below the temporary directory is durable but its own names.
  Status Publish(const TierMember& member);
  Status Abandon(const TierMember& member);
  Status MarkProtected(const TierMember& member);
  // Ok when it is not there.
  Status Remove(const TierMember& member);

  // Bytes that its file system has left.
  Result<uint64_t> FreeBytes() const;
  // The bytes of all files of a step that has its name.
  uint64_t BytesOf(const TierMember& member) const;

 private:
  LocalSteps(std::string path, DirectoryLock lock)
      : path_(std::move(path)), lock_(std::move(lock)) {}
  Status RemoveLeftovers() const;

  const std::string path_;
  const DirectoryLock lock_;
};

// A step of a host, for the policy below.
struct KeptStep {
  TierStep step;
  bool is_protected = false;
  bool is_in_use = false;  // being copied to the shared tier
  uint64_t byte_count = 0;
};
// The steps that may go, oldest first: all but the newest `max_to_keep`
// protected ones and what is newer than the newest of these, and of them the
// oldest, until they have at most `bytes_max` bytes (0: no bound). The newest
// protected step stays, and so does what is in use; without a protected one
// nothing goes. `steps`: oldest first. Pure.
std::vector<TierStep> StepsToRemove(const std::vector<KeptStep>& steps,
                                    int64_t max_to_keep, uint64_t bytes_max);

}  // namespace holdfast
