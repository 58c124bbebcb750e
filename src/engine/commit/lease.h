// SaveLease: decides who may write a checkpoint in an object store, which has
// no locks. The lease is the file `_HOLDFAST_SAVE` in the checkpoint's
// directory.
//
// A saver takes a lease by creating the file, or by replacing the file of a
// dead or rival save: the newcomer wins, and the other finds out before it
// commits. The two decisive steps, taking the lease and beginning the commit,
// are compare-and-swap operations of the server, so only one of any number of
// savers commits. A holder that has begun its commit is left alone for
// kCommitSeconds by the server's clock; it renews the lease well before they
// have passed.
//
// A lease next to a commit marker means nothing. A lease without a marker means
// that the directory is not a checkpoint, whatever else it contains: a save has
// not ended, or a removal is under way (MarkForDeletion).
//
// A server that ignores conditions would let two savers commit. This is
// detected at a process's first lease in a bucket, and the server is refused
// (FailedPrecondition) unless HOLDFAST_ALLOW_UNSAFE_COMMIT=1 is set.
//
// Thread-safety: one thread; the free functions any. Ownership: a lease that is
// dropped without Release stays in place.
// Units: seconds; nanoseconds since 1970.
// Errors: AlreadyExists (another save is committing), FailedPrecondition (taken
// over; says by whom), those of the bucket.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "holdfast/status.h"
#include "stores/place/place.h"

namespace holdfast {

// The content of a lease file.
struct LeaseRecord {
  enum class State : uint8_t { kWriting, kCommitting, kRemoving };
  State state = State::kWriting;
  std::string save_id;
  std::string host;
  int64_t pid = 0;
  int64_t begun_ns = 0;
  int64_t renewal_count = 0;

  bool operator==(const LeaseRecord&) const = default;
};
std::string SerializeLease(const LeaseRecord& lease);
// Returns DataLoss for any other text.
Result<LeaseRecord> ParseLease(std::string_view text);

struct HeldLease;  // what this process records about a lease

class SaveLease {
 public:
  static constexpr double kCommitSeconds = 60;

  // Takes the lease on `directory` (a URL) from any holder. had_holder() says
  // whether there was one.
  static Result<SaveLease> Take(const Place& directory);

  bool had_holder() const { return had_holder_; }
  const std::string& save_id() const { return record_.save_id; }

  // Returns ok while this process holds the lease. Asks the server.
  Status CheckHeld() const;
  // Protects the lease from being taken over for a while. Call it before a
  // commit, and before moving or removing objects, which must not continue when
  // another saver has taken over and written its own.
  Status BeginCommit();
  // Call between the steps that BeginCommit protects; asks the server only when
  // a renewal is due.
  Status KeepCommitting();
  // Call when no more objects are moved or removed: the lease may be taken over
  // again.
  Status EndProtection();
  // Deletes the file if this process still holds the lease, otherwise
  // FailedPrecondition. After any other failure the next save deals with the
  // file.
  Status Release();

 private:
  friend Status RemoveMarked(const Place& directory);
  // Takes the lease without testing whether the server honors conditions.
  static Result<SaveLease> TakeUnasked(const Place& directory);
  SaveLease(Place directory, LeaseRecord record, bool had_holder);
  Status Swap(LeaseRecord next);
  std::string Text() const;  // of record_, as it is stored

  Place directory_;
  LeaseRecord record_;
  std::shared_ptr<HeldLease> held_;
  bool had_holder_ = false;
  std::chrono::steady_clock::time_point renewed_;
};

inline constexpr double kLeaseGuardSeconds = 2;
// Returns ok unless this process has lost a lease that it had on the directory
// `path` or on a directory above it; then it must not write there any more.
// Asks the server only if the last answer is older than `age_seconds_max`.
Status CheckLeasesAbove(const std::string& path, double age_seconds_max);

// Returns whether the directory has a lease file. Returns false for paths in a
// file system, and for directories that cannot be read.
bool HasLease(const Place& directory);
// Marks a finished checkpoint in an object store as not a checkpoint any more,
// so that it can be removed file by file. Returns ok if nothing exists there.
Status MarkForDeletion(const Place& directory);
bool IsMarkedForDeletion(const Place& directory);
// Removes a directory that is marked for deletion; a saver that begins in the
// meantime waits. Returns ok without removing anything if the directory is not
// marked, since another save may have written there.
Status RemoveMarked(const Place& directory);

// Sets how to wait while another save commits; null restores real waiting. For
// tests.
void SetLeaseSleepForTest(std::function<void(double seconds)> sleep);

}  // namespace holdfast
