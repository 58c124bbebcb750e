// CheckedFiles: the files below one directory of a checkpoint, each read as it
// was saved or not at all. Whatever a restore depends on, beside the values of
// arrays, is read by it.
//
// The checksums lie in the directory's own `_HOLDFAST_DIGESTS`, and in those of
// the directories above it up to the checkpoint's: an item has a list of its
// own when the engine wrote it, and what others left in it is in the
// checkpoint's. A file that is in none (those of stock Orbax) is read as it is.
// Thread-safety: immutable. Ownership: shares the store and the lists; copies
// are cheap. Units: bytes.
// Errors: DataLoss for a file that differs from its checksum, or is listed and
// gone; NotFound for one that is not there and in no list.
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
  // Has no list: nothing is checked.
  static CheckedFiles Unchecked(std::shared_ptr<Store> store);
  // Has only the directory's own list.
  static Result<CheckedFiles> OfDirectory(std::shared_ptr<Store> store);
  // Also has the lists above `directory`: at most kLevelsAboveMax of them, and
  // none above the checkpoint's, which is the one that lists
  // `_CHECKPOINT_METADATA`.
  static Result<CheckedFiles> OfItem(const Place& directory);
  // The rows of the files in `directory`, whose store is `store`: those of its
  // own list, or of the nearest above that has any; null when none has. On disk
  // the lists above vouch for it, as for an item.
  static Result<std::shared_ptr<const DigestIndex>> ListFor(
      const std::shared_ptr<Store>& store, const Place& directory);
  // Those of the directory `name` below this one: with its own list.
  Result<CheckedFiles> Below(std::string_view name,
                             std::shared_ptr<Store> store) const;

  Result<Bytes> Read(std::string_view name) const;
  // Ok when the content is the listed one, or the file is not listed.
  Status Check(std::string_view name, std::string_view content) const;
  // DataLoss "P is gone ..." when the file is listed; for one that is missing.
  Status CheckGone(std::string_view name) const;
  bool Lists(std::string_view name) const;
  // All listed files below `prefix` (empty: all), once a list.
  void ForEachListed(std::string_view prefix,
                     const std::function<void(const FileDigest&)>& visit) const;

  // The directory's own list; null when it has none.
  const DigestIndex* own() const { return own_.get(); }
  const std::shared_ptr<const DigestIndex>& own_list() const { return own_; }
  // Says in words which lists are missing.
  const std::vector<std::string>& notes() const { return notes_; }
  Store& store() const { return *store_; }

 private:
  // A list, and what its names of files below the directory begin with.
  struct Sums {
    std::shared_ptr<const DigestIndex> list;
    std::string prefix;  // "state/"; empty in the own list
  };

  explicit CheckedFiles(std::shared_ptr<Store> store)
      : store_(std::move(store)) {}
  using List = std::shared_ptr<const DigestIndex>;

  // The list of a directory, and its text; null when it has none.
  Result<List> ReadList(Store& store, Bytes& text);
  void AddList(List list, std::string prefix);
  // Compares the own list with what those above say of it.
  Status CheckOwnList(const Bytes& text);

  std::shared_ptr<Store> store_;
  std::shared_ptr<const DigestIndex> own_;
  std::vector<Sums> sums_;
  std::vector<std::string> notes_;
};

// ReadCheckedFile (holdfast/detail/checked_file.h) of a place.
Result<Bytes> ReadChecked(const Place& file);

// How far a file's directory is below its checkpoint's: random keys are items
// of items, and array_metadatas is a directory in an item.
inline constexpr int kLevelsAboveMax = 3;

// DataLoss when the directory's marker says that `_HOLDFAST_DIGESTS` is one of
// the checkpoint's files, and it is gone.
Status CheckDigestsAreThere(Store& store);

// For who is to change what they vouch for. Without the list fingerprints count
// for nothing, so it costs no request to leave their file where it is.
Status DropDigests(Store& store);

}  // namespace holdfast
