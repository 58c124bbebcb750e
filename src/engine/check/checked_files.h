// CheckedFiles: reads the files below one directory of a checkpoint, each
// exactly as it was saved or not at all. Everything that a restore depends on,
// except the values of arrays, is read through it.
//
// The checksums are in `_HOLDFAST_DIGESTS` of the directory itself, and of the
// directories above it up to the checkpoint's: an item has its own list if the
// engine wrote it, and files that others left in it are in the checkpoint's
// list. A file that is in no list (as with stock Orbax) is read without a
// check.
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
  // Has no list, so nothing is checked.
  static CheckedFiles Unchecked(std::shared_ptr<Store> store);
  // Has only the directory's own list.
  static Result<CheckedFiles> OfDirectory(std::shared_ptr<Store> store);
  // Also has the lists above `directory`: at most kLevelsAboveMax, and none
  // above the checkpoint's, which is the list that includes
  // `_CHECKPOINT_METADATA`.
  static Result<CheckedFiles> OfItem(const Place& directory);
  // The rows for the files in `directory`, whose store is `store`: from its own
  // list, or from the nearest list above that has any; otherwise null. On disk
  // its own list is checked against the lists above, as for an item.
  static Result<std::shared_ptr<const DigestIndex>> ListFor(
      const std::shared_ptr<Store>& store, const Place& directory);
  // For the directory `name` below this one, including its own list.
  Result<CheckedFiles> Below(std::string_view name,
                             std::shared_ptr<Store> store) const;

  Result<Bytes> Read(std::string_view name) const;
  // Ok if the content matches the list, or the file is not listed.
  Status Check(std::string_view name, std::string_view content) const;
  // For a missing file: DataLoss "P is gone ..." if the file is listed.
  Status CheckGone(std::string_view name) const;
  bool Lists(std::string_view name) const;
  // Visits all listed files below `prefix` (empty: all), once per list.
  void ForEachListed(std::string_view prefix,
                     const std::function<void(const FileDigest&)>& visit) const;

  // The directory's own list; null if it has none.
  const DigestIndex* own() const { return own_.get(); }
  const std::shared_ptr<const DigestIndex>& own_list() const { return own_; }
  // Messages about missing lists.
  const std::vector<std::string>& notes() const { return notes_; }
  Store& store() const { return *store_; }

 private:
  // A list, and the prefix that names of files below the directory have in it.
  struct Sums {
    std::shared_ptr<const DigestIndex> list;
    std::string prefix;  // "state/"; empty in its own list
  };

  explicit CheckedFiles(std::shared_ptr<Store> store)
      : store_(std::move(store)) {}
  using List = std::shared_ptr<const DigestIndex>;

  // The list of a directory, and its text; null if it has none.
  Result<List> ReadList(Store& store, Bytes& text);
  void AddList(List list, std::string prefix);
  // Checks the own list against its entries in the lists above.
  Status CheckOwnList(const Bytes& text);

  std::shared_ptr<Store> store_;
  std::shared_ptr<const DigestIndex> own_;
  std::vector<Sums> sums_;
  std::vector<std::string> notes_;
};

// ReadCheckedFile (holdfast/detail/checked_file.h) for a Place.
Result<Bytes> ReadChecked(const Place& file);

// How many levels below its checkpoint a file's directory can be: random keys
// are items in items, and array_metadatas is a directory in an item.
inline constexpr int kLevelsAboveMax = 3;

// DataLoss if the directory's marker says that the checkpoint has a
// `_HOLDFAST_DIGESTS` file, and the file is missing.
Status CheckDigestsAreThere(Store& store);

// For callers that are about to change files in the list. Without the list
// fingerprints are ignored, so their file can stay, which saves a request.
Status DropDigests(Store& store);

}  // namespace holdfast
