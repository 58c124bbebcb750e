// A checkpoint's own files, as they are.
//
// Links of a local checkpoint that lead out of it are followed only to the
// files that a view says it refers to; others are left out, since whoever made
// the checkpoint must not choose which files of this machine are read.
// Thread-safety: any thread. Ownership: a value of the listing.
// Units: bytes. Errors: those of listing and of the store; DataLoss for a file
// that is another by now.
#pragma once

#include <memory>
#include <string>

#include "holdfast/checkpoint.h"
#include "virtual/file_tree.h"

namespace holdfast {

class StoredFiles : public NamedFiles {
 public:
  // A hash of the names, sizes and versions of all files.
  virtual uint64_t hash() const = 0;
  // Whether a new listing would say the same; true where that is a request.
  virtual bool IsCurrent() const = 0;
};

Result<std::unique_ptr<StoredFiles>> ListStoredFiles(
    const CheckpointInfo& info);

}  // namespace holdfast
