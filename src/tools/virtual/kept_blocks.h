// KeptBlocks: a cache of blocks of bytes that are made on demand. Concurrent
// requests for a block make it only once. A block is kept while there is room.
//
// Thread-safety: any thread. Ownership: a block stays alive while it is
// referenced.
// Units: bytes. Errors: those of `make`, for every caller that waits for the
// block; ResourceExhausted if memory runs out. A failed block is not kept.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "ground/base/bytes.h"
#include "holdfast/status.h"

namespace holdfast {

class KeptBlocks {
 public:
  // `bytes_max` limits the blocks that are kept or being made. Blocks that are
  // in use but no longer kept do not count.
  explicit KeptBlocks(uint64_t bytes_max) : bytes_max_(bytes_max) {}

  using Key = std::pair<uint64_t, uint64_t>;
  using Block = std::shared_ptr<const Buffer>;
  using MakeFn = std::function<Status(Buffer& buffer)>;
  Result<Block> Get(const Key& key, uint64_t byte_count, const MakeFn& make);

  uint64_t kept_bytes() const;

 private:
  struct Entry {
    Block block;  // null while it is being made
    uint64_t byte_count = 0;
    std::list<Key>::iterator age;
  };
  Result<Block> Make(const Key& key, uint64_t byte_count, const MakeFn& make);
  void MakeRoom();

  const uint64_t bytes_max_;
  mutable std::mutex mutex_;
  std::condition_variable made_;
  std::map<Key, Entry> entries_;
  std::list<Key> ages_;  // most recently used first
  uint64_t kept_bytes_ = 0;
};

}  // namespace holdfast
