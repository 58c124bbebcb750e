// SaveLease: who may write a checkpoint in an object store, where there are no
// locks: the file `_HOLDFAST_SAVE` in the checkpoint's directory.
//
// A lease is taken by creating the file, or by replacing the one of a dead or
// rival save: the newcomer wins, and the other finds out before it commits. The
// two steps that count, taking the lease and beginning the commit, are compare
// and swap by the server, so of any number of savers one commits. A holder that
// has begun its commit is left alone for kCommitSeconds by the server's clock;
// it renews the lease well before they are over.
//
// A lease beside a commit marker means nothing. A lease without one says that
// the directory is not a checkpoint, whatever else is in it: a save has not
// ended, or a removal (MarkForDeletion).
//
// A server that ignores conditions would let two savers commit. It is found out
// at the first lease of a process in a bucket, and refused
// (FailedPrecondition), unless HOLDFAST_ALLOW_UNSAFE_COMMIT=1 is set.
//
// Thread-safety: one thread; the free functions any. Ownership: a lease that is
// dropped without Release stays in place.
// Units: seconds; nanoseconds since 1970.
// Errors: AlreadyExists (another save commits at this moment),
// FailedPrecondition (taken over; says by whom), those of the bucket.
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

// The content of the lease file.
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
// DataLoss for other texts.
Result<LeaseRecord> ParseLease(std::string_view text);

struct HeldLease;  // what of a lease this process knows

class SaveLease {
 public:
  static constexpr double kCommitSeconds = 60;

  // Takes the lease on `directory` (a URL) from any holder. `had_holder` says
  // whether there was one.
  static Result<SaveLease> Take(const Place& directory);

  bool had_holder() const { return had_holder_; }
  const std::string& save_id() const { return record_.save_id; }

  // Ok while it is ours. Asks the server.
  Status CheckHeld() const;
  // Protects the lease for a while: nobody takes it over. Call it before a
  // commit, and before objects are moved or removed, which must not go on when
  // another saver has taken over and written its own.
  Status BeginCommit();
  // Call between the steps of what BeginCommit protects; asks the server only
  // when it is time.
  Status KeepCommitting();
  // Nothing is moved or removed any more: it may be taken over again.
  Status EndProtection();
  // Deletes the file, if it is ours. FailedPrecondition when it is not; any
  // other failure leaves it to the next save.
  Status Release();

 private:
  friend Status RemoveMarked(const Place& directory);
  // Takes the lease without trying the server.
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

// Ok unless this process has a lease on the directory or one above it, and has
// lost it: then nothing must be written there any more. Asks the server when
// the last answer is older than that.
inline constexpr double kLeaseGuardSeconds = 2;
Status CheckLeasesAbove(const std::string& path, double age_seconds_max);

// False for paths of a file system, and for what cannot be looked at.
bool HasLease(const Place& directory);
// Says of a finished checkpoint in an object store that it is one no more, so
// that it can be removed piece by piece. Ok when nothing is there.
Status MarkForDeletion(const Place& directory);
bool IsMarkedForDeletion(const Place& directory);
// Removes a directory that is marked for it. Ok when it is not marked, or no
// longer: another save may have written there since, and the next saver waits
// until this is over.
Status RemoveMarked(const Place& directory);

// How to wait while another save commits; null: really. For tests.
void SetLeaseSleepForTest(std::function<void(double seconds)> sleep);

}  // namespace holdfast
