// OpenedCheckpoint: the Checkpoint that Open returns for Orbax's formats. It
// adds what loading and verifying need beyond the public interface.
//
// Also declares Open, Load and Verify for only these formats. (The public
// functions in foreign/open/open.cc support other formats as well.)
//
// Thread-safety, ownership, errors: as holdfast/checkpoint.h.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/checkpoint/stored_extents.h"
#include "engine/restore/encoded_sink.h"
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

// Returns what an open with these options must look for.
LookFor LookForOf(const OpenOptions& options);

class OpenedCheckpoint final : public Checkpoint,
                               public StoredExtents,
                               public EncodedReads {
 public:
  // leaves() is empty until DescribeLeaves is called, so functions that need
  // leaves() must not be called before that. LeafName, items and TreeOf do not
  // need it, and are enough for a load.
  static Result<std::unique_ptr<OpenedCheckpoint>> Open(
      const Place& place, const OpenOptions& options);

  // Returns a checkpoint of one item that is already open.
  static std::unique_ptr<OpenedCheckpoint> OfItem(std::unique_ptr<Item> item);

  void DescribeLeaves();

  Result<LeafExtents> ExtentsOf(size_t leaf) const override;
  const ValueDigest* DigestOf(const std::string& file, uint64_t offset,
                              uint64_t byte_count) const override;

  Result<Stats> ReadEncoded(const std::vector<ReadRequest>& requests,
                            const RunOptions& run,
                            EncodedSink& sink) const override;

  const std::vector<std::unique_ptr<Item>>& items() const { return items_; }
  // Returns the leaf that leaves()[leaf] describes, and the item that holds it.
  std::pair<const Item*, const StoredLeaf*> StoredLeafAt(size_t leaf) const {
    return leaves_[leaf];
  }
  // Returns what leaves()[leaf].name is after DescribeLeaves.
  std::string_view LeafName(size_t leaf) const;
  // Returns one tree of some or all items. If the checkpoint has a single item,
  // it is that item's own tree.
  Result<Tree> TreeOf(std::vector<ItemEntries> items) const;

 protected:
  Result<Stats> DoReadInto(const std::vector<ReadRequest>& requests,
                           const RunOptions& run) const override;
  Result<std::string> DoReadText(size_t leaf) const override;
  Result<Tree> DoStructure() const override;

 private:
  OpenedCheckpoint() = default;
  Result<Stats> ReadLeaves(const std::vector<ReadRequest>& requests,
                           const RunOptions& run, EncodedSink* sink) const;
  void AddItem(std::unique_ptr<Item> item, bool name_it);
  void AddItemInfo(const Item& item);
  // Returns the value of a leaf without a layout, which the old msgpack file
  // holds inline.
  Result<ConstArrayView> ViewOfValue(size_t leaf) const;

  std::vector<std::unique_ptr<Item>> items_;
  std::vector<std::pair<const Item*, const StoredLeaf*>> leaves_;  // as infos_
  std::vector<std::string> names_;  // names of leaves_, if items have names
};

Result<std::unique_ptr<Checkpoint>> OpenCheckpoint(
    const Place& place, const OpenOptions& options = {});

Result<LoadResult> LoadCheckpoint(const Place& place,
                                  const LoadOptions& options = {});
// Loads an open checkpoint. REQUIRES: it was opened with options.open.
Result<LoadResult> LoadCheckpoint(const OpenedCheckpoint& checkpoint,
                                  const LoadOptions& options);

Result<VerifyReport> VerifyCheckpoint(const Place& place,
                                      const OpenOptions& options = {},
                                      const RunOptions& run = {},
                                      ProcessGroup* group = nullptr);

}  // namespace holdfast
