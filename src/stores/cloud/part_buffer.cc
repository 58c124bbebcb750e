#include "stores/cloud/part_buffer.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <iterator>
#include <string>
#include <utility>

namespace holdfast {
namespace {

// Returns the zeros that are sent for unwritten blocks.
std::string_view ZeroBlock() {
  static const std::string zeros(PartBuffer::kBlockBytes, '\0');
  return zeros;
}

}  // namespace

PartBuffer::PartBuffer(uint64_t byte_count)
    : byte_count_(byte_count),
      blocks_((byte_count + kBlockBytes - 1) / kBlockBytes) {}

uint64_t PartBuffer::block_bytes(uint64_t offset) const {
  const uint64_t begin = offset / kBlockBytes * kBlockBytes;
  return std::min(kBlockBytes, byte_count_ - begin);
}

std::shared_ptr<Buffer> PartBuffer::BlockAt(uint64_t offset) const {
  return blocks_[offset / kBlockBytes];
}

void PartBuffer::SetBlock(uint64_t offset, std::shared_ptr<Buffer> block) {
  std::shared_ptr<Buffer>& place = blocks_[offset / kBlockBytes];
  assert(place == nullptr);
  held_bytes_ += block_bytes(offset);
  place = std::move(block);
}

bool PartBuffer::MarkFilled(uint64_t offset, uint64_t byte_count) {
  uint64_t begin = offset, end = offset + byte_count;
  auto next = filled_.lower_bound(begin);
  if (next != filled_.end() && next->first < end) return false;
  if (next != filled_.begin() && std::prev(next)->second > begin) return false;
  if (next != filled_.begin() && std::prev(next)->second == begin) {
    --next;
    begin = next->first;
    next = filled_.erase(next);
  }
  if (next != filled_.end() && next->first == end) {
    end = next->second;
    filled_.erase(next);
  }
  filled_[begin] = end;
  filled_bytes_ += byte_count;
  return true;
}

void PartBuffer::FillWithZeros(uint64_t begin, uint64_t end) {
  while (begin < end) {
    const uint64_t block_end =
        std::min(end, (begin / kBlockBytes + 1) * kBlockBytes);
    const std::shared_ptr<Buffer> block = BlockAt(begin);
    if (block != nullptr) {
      std::memset(block->data() + begin % kBlockBytes, 0, block_end - begin);
    }
    begin = block_end;
  }
}

void PartBuffer::Cut(uint64_t byte_count) {
  assert(byte_count <= byte_count_);
  byte_count_ = byte_count;
  uint64_t done = 0;
  for (const auto& [begin, end] : filled_) {
    FillWithZeros(done, begin);
    done = end;
  }
  FillWithZeros(done, byte_count_);
  filled_bytes_ = byte_count_;
}

std::vector<std::string_view> PartBuffer::Pieces() const {
  assert(is_full());
  std::vector<std::string_view> pieces;
  for (uint64_t offset = 0; offset < byte_count_; offset += kBlockBytes) {
    const uint64_t count = std::min(kBlockBytes, byte_count_ - offset);
    const std::shared_ptr<Buffer>& block = blocks_[offset / kBlockBytes];
    pieces.push_back(block == nullptr ? ZeroBlock().substr(0, count)
                                      : std::string_view(block->data(), count));
  }
  return pieces;
}

}  // namespace holdfast
