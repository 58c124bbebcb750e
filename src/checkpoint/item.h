// Item: one opened item of a checkpoint: its leaves, and where each lies.
//
// Opening reads metadata only. A leaf whose own metadata is missing or damaged
// keeps its place in the list with the reason in `problem`; reading it fails
// with that reason, and the others stay readable.
// Thread-safety: immutable after Open; const methods may run concurrently.
// Ownership: an Item owns its stores.
// Errors: of Open: NotFound, DataLoss, FailedPrecondition for the item as a
// whole, naming the file.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/array_layout.h"
#include "checkpoint/digest_index.h"
#include "checkpoint/format/tree_metadata.h"
#include "checkpoint/layout.h"
#include "ocdbt/ocdbt_store.h"
#include "storage/file_store.h"
#include "tree/key_path.h"

namespace holdfast {

struct StoredLeaf {
  LeafInfo info;
  KeyPath path;
  // An array: keys of its zarr array start with `prefix`.
  std::string prefix;
  std::shared_ptr<const ArrayLayout> layout;  // null when it is no array
  // Strings, empties, values of the msgpack file.
  Tree value;
  std::string sharding_json;  // jax arrays, when recorded
  Status problem;
};

// How much Open finds out.
enum class ItemDetail : uint8_t {
  kForReading,  // what Load needs
  kFull,        // also stored sizes, which costs a walk of the directories
};

class Item {
 public:
  static Result<std::unique_ptr<Item>> Open(const ItemPlace& place,
                                            const OpenOptions& options,
                                            ItemDetail detail);

  const ItemPlace& place() const { return place_; }
  const std::vector<StoredLeaf>& leaves() const { return leaves_; }
  bool use_ocdbt() const { return ocdbt_store_ != nullptr; }
  int zarr_format() const { return zarr_format_; }
  // Holds the arrays: the OCDBT database, or the files.
  Store& array_store() const;
  FileStore& file_store() const { return *file_store_; }
  // Null when the arrays are files.
  ocdbt::Database* database() const {
    return use_ocdbt() ? &ocdbt_store_->database() : nullptr;
  }
  const DigestIndex* digests() const { return digests_ ? &*digests_ : nullptr; }
  // Absent chunks are errors.
  bool refuses_missing_chunks() const { return refuses_missing_; }

 private:
  friend class ItemOpener;
  explicit Item(ItemPlace place) : place_(std::move(place)) {}

  ItemPlace place_;
  std::unique_ptr<FileStore> file_store_;
  std::unique_ptr<ocdbt::OcdbtStore> ocdbt_store_;
  std::optional<DigestIndex> digests_;
  std::vector<StoredLeaf> leaves_;
  int zarr_format_ = 0;
  bool refuses_missing_ = false;
};

}  // namespace holdfast
