// CheckedFiles: reads the files below one directory of a checkpoint, each
// exactly as it was saved or not at all. Everything that a restore depends on,
// except the values of arrays, is read through it.
//
// The checksums are in `_HOLDFAST_DIGESTS` of the directory itself, and of the
// directories above it up to the checkpoint's: an item that the engine wrote
// has its own list, and files that others left in the item are in the
// checkpoint's list. A file that is in no list (as with stock Orbax) is read
// without a check.
// Thread-safety: immutable. Ownership: shares the store and the lists; copies
// are cheap. Units: bytes.
// Errors: DataLoss for a file that differs from its checksum, or is listed and
// missing; NotFound for a missing file that is in no list.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/check/digest_index.h"
#include "stores/place/place.h"
#include "stores/storage/store.h"

namespace holdfast {

class CheckedFiles {
 public:
  // Uses no list, so nothing is checked.
  static CheckedFiles Unchecked(std::shared_ptr<Store> store);
  // Uses only the directory's own list.
  static Result<CheckedFiles> OfDirectory(std::shared_ptr<Store> store);
  // Also uses the lists above `directory`: up to kLevelsAboveMax levels, but
  // none above the checkpoint's list, which is the one that includes
  // `_CHECKPOINT_METADATA`.
  static Result<CheckedFiles> OfItem(const Place& directory);
  // Returns the rows for the files in `directory`, whose store is `store`. They
  // come from its own list, or from the nearest list above that has such rows;
  // null if no list has any. On disk, the directory's own list is checked
  // against the lists above, as for an item.
  static Result<std::shared_ptr<const DigestIndex>> ListFor(
      const std::shared_ptr<Store>& store, const Place& directory);
  // Returns the files of the directory `name` below this one. Adds that
  // directory's own list to the lists of this one.
  Result<CheckedFiles> Below(std::string_view name,
                             std::shared_ptr<Store> store) const;

  Result<Bytes> Read(std::string_view name) const;
  // Returns ok if the content matches the list, or the file is not listed.
  Status Check(std::string_view name, std::string_view content) const;
  // Call for a missing file: returns DataLoss "P is gone ..." if it is listed.
  Status CheckGone(std::string_view name) const;
  bool Lists(std::string_view name) const;
  // Calls `visit` for every listed file below `prefix` ("" means all). A file
  // in several lists is visited once for each.
  void ForEachListed(std::string_view prefix,
                     const std::function<void(const FileDigest&)>& visit) const;

  // Returns the directory's own list; null if it has none.
  const DigestIndex* own() const { return own_.get(); }
  const std::shared_ptr<const DigestIndex>& own_list() const { return own_; }
  // Messages about missing lists.
  const std::vector<std::string>& notes() const { return notes_; }
  Store& store() const { return *store_; }

 private:
  // A list, and the prefix that this directory's file names have in it.
  struct Sums {
    std::shared_ptr<const DigestIndex> list;
    std::string prefix;  // "state/"; empty in its own list
  };

  explicit CheckedFiles(std::shared_ptr<Store> store)
      : store_(std::move(store)) {}
  using List = std::shared_ptr<const DigestIndex>;

  // Returns a directory's list, or null if it has none; sets `text` to its
  // text.
  Result<List> ReadList(Store& store, Bytes& text);
  void AddList(List list, std::string prefix);
  // Checks the directory's own list against the lists above.
  Status CheckOwnList(const Bytes& text);

  std::shared_ptr<Store> store_;
  std::shared_ptr<const DigestIndex> own_;
  std::vector<Sums> sums_;
  std::vector<std::string> notes_;
};

// Like ReadCheckedFile (holdfast/detail/checked_file.h), for a Place.
Result<Bytes> ReadChecked(const Place& file);

// How many levels below its checkpoint a file's directory can be: random keys
// are items in items, and array_metadatas is a directory in an item.
inline constexpr int kLevelsAboveMax = 3;

// Returns DataLoss if the directory's marker says that the checkpoint has a
// `_HOLDFAST_DIGESTS` file, and the file is missing.
Status CheckDigestsAreThere(Store& store);

// Removes the list; for callers that are about to change files in it. The
// fingerprints file may stay, since it is ignored without the list; this saves
// a request.
Status DropDigests(Store& store);

}  // namespace holdfast
