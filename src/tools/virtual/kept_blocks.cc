#include "tools/virtual/kept_blocks.h"

#include <string>

#include "ground/base/no_throw.h"
#include "ground/base/status_macros.h"

namespace holdfast {
namespace {

// The overhead of a block in bytes. It must be counted because many blocks are
// tiny.
constexpr uint64_t kEntryBytes = 256;

}  // namespace

Result<KeptBlocks::Block> KeptBlocks::Get(const Key& key, uint64_t byte_count,
                                          const MakeFn& make) {
  std::unique_lock lock(mutex_);
  for (;;) {
    const auto found = entries_.find(key);
    if (found == entries_.end()) break;
    Entry& entry = found->second;
    if (entry.block != nullptr) {
      ages_.splice(ages_.begin(), ages_, entry.age);
      return entry.block;
    }
    // Another caller is making the block. If that fails, this caller tries.
    made_.wait(lock);
  }
  ages_.push_front(key);
  entries_[key] = {nullptr, byte_count + kEntryBytes, ages_.begin()};
  kept_bytes_ += byte_count + kEntryBytes;
  MakeRoom();
  lock.unlock();
  Result<Block> made =
      CatchBadAlloc([&] { return Make(key, byte_count, make); });
  lock.lock();
  const auto entry = entries_.find(key);
  if (made.ok()) {
    entry->second.block = *made;
  } else {
    kept_bytes_ -= byte_count + kEntryBytes;
    ages_.erase(entry->second.age);
    entries_.erase(entry);
  }
  MakeRoom();
  made_.notify_all();
  return made;
}

Result<KeptBlocks::Block> KeptBlocks::Make(const Key&, uint64_t byte_count,
                                           const MakeFn& make) {
  auto buffer = std::make_shared<Buffer>(Buffer::TryAllocate(byte_count));
  if (buffer->data() == nullptr && byte_count > 0) {
    return ResourceExhaustedError("no memory for a block of " +
                                  std::to_string(byte_count) + " bytes");
  }
  HF_RETURN_IF_ERROR(make(*buffer));
  return Block(std::move(buffer));
}

void KeptBlocks::MakeRoom() {
  auto age = ages_.end();
  while (kept_bytes_ > bytes_max_ && age != ages_.begin()) {
    --age;
    const auto entry = entries_.find(*age);
    if (entry->second.block == nullptr) continue;  // being made
    kept_bytes_ -= entry->second.byte_count;
    entries_.erase(entry);
    age = ages_.erase(age);
  }
}

uint64_t KeptBlocks::kept_bytes() const {
  const std::lock_guard lock(mutex_);
  return kept_bytes_;
}

}  // namespace holdfast
