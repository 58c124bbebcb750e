// A checkpoint's own files, as they were saved. Bytes for which the
// checkpoint's lists have checksums are checked when they are read
// (stored_sums.h).
//
// Links that lead out of a local checkpoint are followed only in a view, to the
// files that it lists as sources. Other such links are left out, because a
// checkpoint's author must not choose which of this machine's files are read.
// Links to a directory, and broken links, are left out, too.
// Thread-safety: any thread. Ownership: a value of the listing.
// Units: bytes. Errors: those of listing and of the store; DataLoss for a file
// that was replaced, is damaged, or is listed but missing, and for listing a
// directory that should contain a missing file.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "holdfast/checkpoint.h"
#include "tools/virtual/file_tree.h"

namespace holdfast {

class StoredFiles : public NamedFiles {
 public:
  // Returns a hash of the names, sizes and versions of all files. It includes
  // files elsewhere from which the checkpoint is read: a delta's bases, linked
  // items.
  virtual uint64_t hash() const = 0;
  // Returns true if a new listing would be the same. Where that takes a request
  // to a server, returns what CheckUnchanged last found.
  virtual bool IsCurrent() const = 0;
  // Returns DataLoss once one of the files was replaced or removed, and in all
  // later calls. To save time, it does not look at the files in every call: it
  // spends at most a twentieth of the time on looking, and asks a server at
  // most once a second. With `looks_now` it always looks. It always notices
  // another directory under the checkpoint's name.
  virtual Status CheckUnchanged(bool looks_now) const = 0;
  // Returns true if the checkpoint may have received its name at or after
  // `time`. Returns false for a bucket, where versions reveal changes.
  virtual bool MayHaveMovedSince(
      std::chrono::system_clock::time_point time) const = 0;
};

Result<std::unique_ptr<StoredFiles>> ListStoredFiles(
    const CheckpointInfo& info);

}  // namespace holdfast
