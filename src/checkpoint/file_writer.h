// FileWriter: the small files of one directory of a checkpoint that nobody can
// see yet, remembered for its `_HOLDFAST_DIGESTS`.
//
// Thread-safety: one thread. Ownership: borrows the store.
// Errors: those of the store.
#pragma once

#include <string_view>

#include "checkpoint/format/digest_file.h"
#include "storage/store.h"

namespace holdfast {

class FileWriter {
 public:
  // `must_create`: no file is there yet, and one that is is not replaced.
  FileWriter(Store& store, bool sync, bool must_create = false)
      : store_(store), sync_(sync), must_create_(must_create) {}

  // Also lists it, in place of what was listed under this name.
  Status Write(std::string_view name, std::string_view text);
  // For a file that is written after the list.
  void List(std::string_view name, std::string_view text);
  Status WriteUnlisted(std::string_view name, std::string_view text);
  // `_HOLDFAST_DIGESTS` itself, of all that is listed.
  Status WriteDigests();
  // Names are durable when it returns, if the writer syncs; in any case the
  // store has written what was queued.
  Status SyncNames();

  Store& store() { return store_; }
  bool sync() const { return sync_; }
  bool must_create() const { return must_create_; }
  DigestFile& digests() { return digests_; }
  const DigestFile& digests() const { return digests_; }

 private:
  Store& store_;
  const bool sync_;
  const bool must_create_;
  DigestFile digests_;
};

}  // namespace holdfast
