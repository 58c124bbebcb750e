// FileWriter: the small files of one directory of a checkpoint that nobody can
// see yet, remembered for its `_HOLDFAST_DIGESTS`.
//
// Thread-safety: one thread. Ownership: borrows the store.
// Errors: those of the store.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "engine/format/digest_file.h"
#include "stores/place/place.h"
#include "stores/storage/store.h"

namespace holdfast {

class FileWriter {
 public:
  // `guarded_path`: where the store is, if an existing file must never be
  // replaced, and nothing written when a lease above the path is lost
  // (CheckLeasesAbove).
  FileWriter(Store& store, bool sync, std::string guarded_path = "")
      : store_(store), sync_(sync), guarded_path_(std::move(guarded_path)) {}
  // `store` is that of `place`. Syncs only where the place needs it. Guarded
  // where a save that was taken over may still be writing, unless the writer's
  // files may be there already.
  FileWriter(Store& store, const Place& place, bool sync, bool may_replace)
      : FileWriter(store, sync && place.needs_sync(),
                   place.can_rename() || may_replace ? "" : place.path()) {}

  // Also lists it, in place of what was listed under this name.
  Status Write(std::string_view name, std::string_view text);
  // For a file that is written after the list.
  void List(std::string_view name, std::string_view text);
  Status WriteUnlisted(std::string_view name, std::string_view text);
  // `_HOLDFAST_DIGESTS` itself, of all that is listed.
  Status WriteDigests();
  // The text that it has written; empty before.
  const std::string& digest_text() const { return digest_text_; }
  // Names are durable when it returns, if the writer syncs; in any case the
  // store has written what was queued.
  Status SyncNames();

  Store& store() { return store_; }
  bool sync() const { return sync_; }
  const std::string& guarded_path() const { return guarded_path_; }
  bool must_create() const { return !guarded_path_.empty(); }
  DigestFile& digests() { return digests_; }
  const DigestFile& digests() const { return digests_; }

 private:
  Store& store_;
  const bool sync_;
  const std::string guarded_path_;
  DigestFile digests_;
  std::string digest_text_;
};

}  // namespace holdfast
