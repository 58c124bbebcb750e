// NodeSource: reads nodes of one database from its base store, decodes them,
// and keeps decoded B+tree nodes in a bounded cache.
//
// Thread-safety: any thread; a node that several threads request concurrently
// is read once. Ownership: the store is borrowed. Units: bytes.
// Errors: those of the store and the decoders, prefixed with `Error reading
// Byte range [B, E) of <file>`; OutOfRange for a range that the file does not
// have.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "formats/ocdbt/format/btree_node.h"
#include "formats/ocdbt/format/data_file_table.h"
#include "formats/ocdbt/format/version_tree.h"
#include "ground/base/bytes.h"
#include "holdfast/status.h"
#include "stores/storage/store.h"

namespace holdfast::ocdbt {

class NodeSource {
 public:
  NodeSource(Store* store, uint64_t cache_bytes_max, const DecodeLimits& limits)
      : store_(store), cache_bytes_max_(cache_bytes_max), limits_(limits) {}

  Store* store() const { return store_; }

  // `file` and `range` name the place of the node.
  Result<std::shared_ptr<const BtreeNode>> ReadBtreeNode(
      const DataFile& file, const Reference& range);
  // Reads nodes that will be needed next into the cache, all of them
  // concurrently, because a server takes one round trip for each node. A
  // failure is reported to the reader that requests the node.
  struct NodePlace {
    DataFile file;
    Reference range;
  };
  void FetchAhead(const std::vector<NodePlace>& places);
  bool fetches_ahead() const { return store_->requests_in_flight() > 1; }

  Result<VersionTreeNode> ReadVersionTreeNode(const DataFile& file,
                                              const Reference& range);

 private:
  struct CacheEntry {
    std::shared_ptr<const BtreeNode> node;  // null while it is being read
    std::list<std::string>::iterator place;
  };

  Result<Bytes> ReadObject(const DataFile& file, const Reference& range);
  Result<std::shared_ptr<const BtreeNode>> LoadBtreeNode(
      const DataFile& file, const Reference& range);
  // Waits for other readers of the node. If it returns null, the caller must
  // read the node and then call EndRead, even if reading fails.
  std::shared_ptr<const BtreeNode> BeginRead(const std::string& cache_key);
  void EndRead(const std::string& cache_key,
               std::shared_ptr<const BtreeNode> node);
  bool TryBeginRead(const std::string& cache_key);
  void DropOldest();  // REQUIRES: mutex_ held

  Store* const store_;
  const uint64_t cache_bytes_max_;
  const DecodeLimits limits_;

  std::mutex mutex_;
  std::condition_variable read_ended_;
  std::unordered_map<std::string, CacheEntry> cache_;
  std::list<std::string> cache_order_;  // keys of loaded nodes, newest first
  uint64_t cache_byte_count_ = 0;
};

// Reads [offset, offset + byte_count) of `path`. If the file is shorter, fails
// with OutOfRange `Requested byte range [B, E) is not valid for value of size
// N`.
Result<Bytes> ReadFileRange(Store& store, std::string_view path,
                            uint64_t offset, uint64_t byte_count);
Status RangeError(uint64_t offset, uint64_t byte_count,
                  uint64_t file_byte_count);
// Returns "Byte range [B, E) of <place of the file>".
std::string RangeText(const Store& store, std::string_view path,
                      uint64_t offset, uint64_t byte_count);

}  // namespace holdfast::ocdbt
