// A checkpoint's own files, as they were saved: bytes for which its lists have
// checksums are checked when they are read (stored_sums.h).
//
// Links of a local checkpoint that lead out of it are followed only to files to
// which a view says it refers. Other links are left out, because the author of
// a checkpoint must not choose which files of this machine are read. Links to a
// directory, and broken links, are left out, too.
// Thread-safety: any thread. Ownership: a value of the listing.
// Units: bytes. Errors: those of listing and of the store; DataLoss for a file
// that was replaced, is damaged, or is listed but missing, and for listing a
// directory above a missing file.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "holdfast/checkpoint.h"
#include "tools/virtual/file_tree.h"

namespace holdfast {

class StoredFiles : public NamedFiles {
 public:
  // A hash of the names, sizes and versions of all files, and of the other
  // files from which the checkpoint is read: a delta's bases, linked items.
  virtual uint64_t hash() const = 0;
  // Whether a new listing would return the same; if that takes a request,
  // whether CheckUnchanged has found so.
  virtual bool IsCurrent() const = 0;
  // Returns DataLoss, from then on, once one of the files was replaced or
  // removed. It checks as often as costs a twentieth of the time, and a server
  // at most once a second; it always checks if `looks_now`. Another directory
  // that has taken the checkpoint's name is noticed immediately.
  virtual Status CheckUnchanged(bool looks_now) const = 0;
  // Whether the checkpoint may have got its name at or after `time`; false for
  // a server, whose versions reveal a change.
  virtual bool MayHaveMovedSince(
      std::chrono::system_clock::time_point time) const = 0;
};

Result<std::unique_ptr<StoredFiles>> ListStoredFiles(
    const CheckpointInfo& info);

}  // namespace holdfast
