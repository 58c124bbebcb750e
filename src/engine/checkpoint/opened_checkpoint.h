// OpenedCheckpoint: the Checkpoint that Open returns for Orbax's formats, with
// what loading and verifying need beyond the public interface; and Open, Load
// and Verify for only those formats. (The public functions in
// foreign/open/open.cc also support others.)
//
// Thread-safety, ownership, errors: as holdfast/checkpoint.h.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/checkpoint/stored_extents.h"
#include "engine/restore/item.h"
#include "ground/tensor/box.h"
#include "ground/tree/flatten.h"
#include "holdfast/checkpoint.h"
#include "stores/place/look.h"
#include "stores/place/place.h"

namespace holdfast {

// The leaves of one item, ready to become its part of the tree.
struct ItemEntries {
  const Item* item = nullptr;
  std::vector<UnflattenEntry> entries;
};

// The things that an opener with these options must look for.
LookFor LookForOf(const OpenOptions& options);

class OpenedCheckpoint final : public Checkpoint, public StoredExtents {
 public:
  // leaves() stays empty until DescribeLeaves, so until then nothing that needs
  // it may be called: a load does without it. LeafName, items and TreeOf work
  // right away.
  static Result<std::unique_ptr<OpenedCheckpoint>> Open(
      const Place& place, const OpenOptions& options);

  // Opens one item of which only these arrays are read.
  static std::unique_ptr<OpenedCheckpoint> OfItem(std::unique_ptr<Item> item);

  void DescribeLeaves();

  Result<LeafExtents> ExtentsOf(size_t leaf) const override;
  const ValueDigest* DigestOf(const std::string& file, uint64_t offset,
                              uint64_t byte_count) const override;

  const std::vector<std::unique_ptr<Item>>& items() const { return items_; }
  // leaves()[leaf], and the item that holds it.
  std::pair<const Item*, const StoredLeaf*> StoredLeafAt(size_t leaf) const {
    return leaves_[leaf];
  }
  // leaves()[leaf].name.
  std::string_view LeafName(size_t leaf) const;
  // One tree from some or all items; the item's own tree if there is only one.
  Result<Tree> TreeOf(std::vector<ItemEntries> items) const;

 protected:
  Result<Stats> DoReadInto(const std::vector<ReadRequest>& requests,
                           const RunOptions& run) const override;
  Result<std::string> DoReadText(size_t leaf) const override;
  Result<Tree> DoStructure() const override;

 private:
  OpenedCheckpoint() = default;
  void AddItem(std::unique_ptr<Item> item, bool name_it);
  void AddItemInfo(const Item& item);
  // For a leaf without a layout: the old msgpack file holds its value inline.
  Result<ConstArrayView> ViewOfValue(size_t leaf) const;

  std::vector<std::unique_ptr<Item>> items_;
  std::vector<std::pair<const Item*, const StoredLeaf*>> leaves_;  // as infos_
  std::vector<std::string> names_;  // names of leaves_, if items have names
};

Result<std::unique_ptr<Checkpoint>> OpenCheckpoint(
    const Place& place, const OpenOptions& options = {});

Result<LoadResult> LoadCheckpoint(const Place& place,
                                  const LoadOptions& options = {});
// REQUIRES: opened with options.open.
Result<LoadResult> LoadCheckpoint(const OpenedCheckpoint& checkpoint,
                                  const LoadOptions& options);

Result<VerifyReport> VerifyCheckpoint(const Place& place,
                                      const OpenOptions& options = {},
                                      const RunOptions& run = {},
                                      ProcessGroup* group = nullptr);

}  // namespace holdfast
