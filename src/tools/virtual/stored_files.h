// A checkpoint's own files, as they were saved: what its lists have checksums
// of is checked when it is read (stored_sums.h).
//
// Links of a local checkpoint that lead out of it are followed only to the
// files that a view says it refers to; others are left out, since whoever made
// the checkpoint must not choose which files of this machine are read.
// Links to a directory, or to nowhere, are left out, too.
// Thread-safety: any thread. Ownership: a value of the listing.
// Units: bytes. Errors: those of listing and of the store; DataLoss for a file
// that is another by now, is damaged, or is listed and gone, and for the
// listing of a directory above one that is gone.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "holdfast/checkpoint.h"
#include "tools/virtual/file_tree.h"

namespace holdfast {

class StoredFiles : public NamedFiles {
 public:
  // A hash of the names, sizes and versions of all files, and of those that the
  // checkpoint is read from besides: a delta's bases, items behind links.
  virtual uint64_t hash() const = 0;
  // Whether a new listing would say the same; where that is a request, whether
  // CheckUnchanged has found so.
  virtual bool IsCurrent() const = 0;
  // DataLoss, from then on, once one of the files is another, or gone. Looks as
  // often as costs a twentieth of the time, a server at most once a second, and
  // always when `looks_now`; whether another directory has the checkpoint's
  // name is seen at once.
  virtual Status CheckUnchanged(bool looks_now) const = 0;
  // Whether the checkpoint may have got its name at or after `time`; false of a
  // server, whose versions tell.
  virtual bool MayHaveMovedSince(
      std::chrono::system_clock::time_point time) const = 0;
};

Result<std::unique_ptr<StoredFiles>> ListStoredFiles(
    const CheckpointInfo& info);

}  // namespace holdfast
