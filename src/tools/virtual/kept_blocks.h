// KeptBlocks: blocks of bytes that are made when somebody asks, once for all
// who ask meanwhile, and kept as long as there is room.
//
// Thread-safety: any thread. Ownership: whoever has a block keeps it alive.
// Units: bytes. Errors: those of the maker, to all who wait for it;
// ResourceExhausted when there is no memory. A failed block is not kept.
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
  // The bytes of blocks kept, and being made, beside blocks that are in use.
  explicit KeptBlocks(uint64_t bytes_max) : bytes_max_(bytes_max) {}

  using Key = std::pair<uint64_t, uint64_t>;
  using Block = std::shared_ptr<const Buffer>;
  using MakeFn = std::function<Status(Buffer& buffer)>;
  Result<Block> Get(const Key& key, uint64_t byte_count, const MakeFn& make);

  uint64_t kept_bytes() const;

 private:
  struct Entry {
    Block block;  // null: being made
    uint64_t byte_count = 0;
    std::list<Key>::iterator age;
  };
  Result<Block> Make(const Key& key, uint64_t byte_count, const MakeFn& make);
  void MakeRoom();

  const uint64_t bytes_max_;
  mutable std::mutex mutex_;
  std::condition_variable made_;
  std::map<Key, Entry> entries_;
  std::list<Key> ages_;  // the one used last is the first
  uint64_t kept_bytes_ = 0;
};

}  // namespace holdfast
