// Item: one opened item of a checkpoint: its leaves, and where each is stored.
//
// Opening reads metadata only. A leaf whose own metadata is missing or damaged
// keeps its place in the list with the reason in `problem`; reading it fails
// with that reason, and the other leaves stay readable.
// Thread-safety: immutable after Open; const methods may run concurrently.
// Ownership: an Item shares the store of its files.
// Errors: Open returns NotFound, DataLoss, FailedPrecondition for the complete
// item, naming the file.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/check/checked_files.h"
#include "engine/commit/layout.h"
#include "engine/format/sharding_file.h"
#include "engine/format/tree_metadata.h"
#include "engine/restore/array_home.h"
#include "formats/ocdbt/ocdbt_store.h"
#include "ground/tree/key_path.h"
#include "stores/storage/store.h"

namespace holdfast {

struct StoredLeaf {
  // Without the members that only Open needs and that can be derived from the
  // rest: key, key_kinds, sharding_json, array_metadata, problem.
  LeafInfo info;
  KeyPath path;
  // For an array: keys of its zarr array start with `prefix`.
  std::string prefix;
  std::shared_ptr<const ArrayLayout> layout;  // null if it is not an array
  // For strings, empties, and values from the msgpack file.
  Tree value;
  std::string_view sharding_json;  // owned by the Item; empty unless recorded
  // Only one of the caller's TypeHandlers can read it, as `problem` says.
  bool is_external = false;
  Status problem;

  // Returns the array to read. REQUIRES: layout is not null.
  ReadableArray array() const {
    return {info.name, prefix, layout.get(), nullptr, info.fingerprint};
  }
};

class Item final : public ArrayHome {
 public:
  static Result<std::unique_ptr<Item>> Open(const ItemPlace& place,
                                            const OpenOptions& options);

  // An array to be opened by its own metadata.
  struct ArrayRequest {
    std::string name;          // the parameter's
    std::string metadata_key;  // ".zarray", "zarr.json", or another name
  };
  // Opens only the requested arrays, in the order of `requests`. A missing
  // array keeps its place, with the reason.
  // REQUIRES: options.missing_chunks is not kAsRecorded.
  static Result<std::unique_ptr<Item>> OpenArrays(
      const std::string& directory, bool use_ocdbt,
      const std::vector<ArrayRequest>& requests, const OpenOptions& options);

  const ItemPlace& place() const { return place_; }
  const std::vector<StoredLeaf>& leaves() const { return leaves_; }
  bool use_ocdbt() const { return ocdbt_store_ != nullptr; }
  int zarr_format() const { return zarr_format_; }
  // Returns `_METADATA` without its entries; null if it is missing.
  const TreeMetadata* tree_metadata() const {
    return tree_metadata_ ? &*tree_metadata_ : nullptr;
  }
  // Returns the store with the arrays: the OCDBT database, or the files.
  Store& array_store() const override;
  // Returns null if the arrays are files.
  ocdbt::Database* database() const {
    return use_ocdbt() ? &ocdbt_store_->database() : nullptr;
  }
  // Returns the item's own list of checksums, including values; null if it has
  // none, or nothing is to be checked.
  const DigestIndex* digests() const { return checked_.own(); }
  ByteCheck byte_check() const override {
    return digests() != nullptr ? ByteCheck::kListed : ByteCheck::kByCodecAlone;
  }
  // Returns Unavailable if the item's directory on disk is no longer the one
  // that was opened. Data that was read may then belong to another item, and
  // missing data need not mean the fill value.
  Status CheckStillThere() const override;
  // Returns whether absent chunks are errors.
  bool refuses_missing_chunks() const override { return refuses_missing_; }

 private:
  friend class ItemOpener;
  explicit Item(ItemPlace place)
      : place_(std::move(place)),
        directory_id_(PlaceId(place_.directory)),
        checked_(CheckedFiles::Unchecked(nullptr)) {}

  ItemPlace place_;
  std::string directory_id_;
  std::shared_ptr<Store> files_;
  CheckedFiles checked_;  // the item's files with their checksums
  std::unique_ptr<ocdbt::OcdbtStore> ocdbt_store_;
  std::optional<TreeMetadata> tree_metadata_;
  ShardingFile shardings_;
  std::vector<StoredLeaf> leaves_;
  int zarr_format_ = 0;
  bool refuses_missing_ = false;
};

}  // namespace holdfast
