// RemoteCommit: commits a checkpoint in an object store, where nothing can be
// renamed or locked.
//
// Begin takes the lease of the path (lease.h), removes what a dead save left
// there (multipart uploads too), and puts a checkpoint that is to be replaced
// aside as `<path>.holdfast-replaced`: a copy made by the server. While the
// directory has a lease and no marker, no reader takes it for a checkpoint.
// Finish checks that every file exists with its size, and begins the commit by
// a swap of the lease, which only one of several savers wins. It then writes
// `_CHECKPOINT_METADATA`, also by a swap, and the marker, if it is absent.
//
// Destruction without Finish removes what was written and restores what was at
// the path, unless another save has taken over: then that save is responsible.
// The leftovers of a process that dies are recognized and cleared by the next
// save to the path, and by CleanupTemporaryPaths.
//
// Thread-safety: one thread. Ownership: owns the lease and the directory until
// Finish. Units: bytes; nanoseconds since 1970.
// Errors: AlreadyExists (`Destination P already exists.`, or another save is
// committing), FailedPrecondition (taken over, says by whom; the path to be
// replaced is not a checkpoint; the server ignores conditions), DataLoss (a
// file is not stored as written), those of the bucket.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "engine/commit/lease.h"
#include "holdfast/status.h"
#include "stores/place/directory_ops.h"

namespace holdfast {

// The size that a file must have, exactly or (for OCDBT data) at least.
struct WrittenSize {
  uint64_t byte_count = 0;
  bool is_exact = true;
};
using WrittenSizes = std::map<std::string, WrittenSize>;

class RemoteCommit {
 public:
  // `place` is absolute and in an object store; `result_id` is as in
  // CommitOptions.
  static Result<std::unique_ptr<RemoteCommit>> Begin(
      const Place& place, bool overwrite, const std::string& result_id = "");
  ~RemoteCommit();
  RemoteCommit(const RemoteCommit&) = delete;
  RemoteCommit& operator=(const RemoteCommit&) = delete;

  // Writes a `_CHECKPOINT_METADATA` that says when the save began.
  Status WriteBegun(uint64_t now_ns);
  // Returns `failure`, or an error that says so if another save's takeover
  // caused it.
  Status Explain(const Status& failure) const;
  // Call once, when all other writes are done: writes the last two files.
  Status Finish(const WrittenSizes& sizes, const std::string& metadata,
                const std::string& marker);

 private:
  RemoteCommit(Place place, SaveLease lease);
  Status Prepare(bool overwrite);
  Status ClearAway(bool overwrite);
  MayGoOn KeepsLease();
  Status PutAside();
  Status CheckComplete(const WrittenSizes& sizes) const;
  Status WriteMarker(const std::string& metadata, const std::string& marker);
  void Abort();

  const Place place_;
  SaveLease lease_;
  std::string begun_text_;
  bool is_ours_ = false;       // the files in the directory
  bool is_put_aside_ = false;  // an abort restores ReplacedPlace(place_)
  bool is_finished_ = false;
  bool may_release_ = true;  // the lease marks no leftovers
};

}  // namespace holdfast
