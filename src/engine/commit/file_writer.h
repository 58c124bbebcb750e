// FileWriter: writes the small files of one directory of a checkpoint that is
// not visible yet, and records them for its `_HOLDFAST_DIGESTS`.
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
  // A nonempty `guarded_path` is the path of the store. The writer then never
  // replaces an existing file, and writes nothing after a lease above the path
  // was lost (CheckLeasesAbove).
  FileWriter(Store& store, bool sync, std::string guarded_path = "")
      : store_(store), sync_(sync), guarded_path_(std::move(guarded_path)) {}
  // `store` must be the store of `place`. Syncs only where the place needs it.
  // Guards the path if a save that was taken over may still be writing there,
  // unless `may_replace` says that the files may already exist.
  FileWriter(Store& store, const Place& place, bool sync, bool may_replace)
      : FileWriter(store, sync && place.needs_sync(),
                   place.can_rename() || may_replace ? "" : place.path()) {}

  // Writes the file and lists it, replacing any earlier entry of this name.
  Status Write(std::string_view name, std::string_view text);
  // Only lists the file; for a file that is written after the list.
  void List(std::string_view name, std::string_view text);
  Status WriteUnlisted(std::string_view name, std::string_view text);
  // Writes `_HOLDFAST_DIGESTS` itself, with everything listed so far.
  Status WriteDigests();
  // Returns the text of `_HOLDFAST_DIGESTS`; empty before it is written.
  const std::string& digest_text() const { return digest_text_; }
  // Makes the store write everything queued. If the writer syncs, also makes
  // the names durable.
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
