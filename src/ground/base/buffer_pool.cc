#include "ground/base/buffer_pool.h"

#include <algorithm>
#include <new>
#include <utility>

namespace holdfast {
namespace {

constexpr uint64_t kPooledBytesMin = uint64_t{1} << 20;

}  // namespace

std::shared_ptr<Buffer> BufferPool::Get(uint64_t byte_count) {
  Buffer buffer;
  const bool is_pooled = byte_count >= kPooledBytesMin;
  if (is_pooled) {
    const std::lock_guard lock(spares_->mutex);
    std::vector<Buffer>& spares = spares_->buffers;
    const auto found =
        std::find_if(spares.begin(), spares.end(), [&](const Buffer& spare) {
          // A spare may be up to a quarter too large: neighboring pieces of a
          // tensor differ a little, and a much larger spare would waste memory
          // that no budget counts.
          return spare.size() >= byte_count &&
                 spare.size() - byte_count <= byte_count / 4;
        });
    if (found != spares.end()) {
      buffer = std::move(*found);
      spares.erase(found);
    } else {
      // No spare fits. Drop the oldest spares, as many bytes as are about to be
      // allocated, so that the pool does not grow when sizes change.
      uint64_t dropped_bytes = 0;
      while (!spares.empty() && dropped_bytes < byte_count) {
        dropped_bytes += spares.front().size();
        spares.erase(spares.begin());
      }
    }
  }
  if (buffer.data() == nullptr) buffer = Buffer::TryAllocate(byte_count);
  if (buffer.data() == nullptr) return nullptr;
  if (!is_pooled) return std::make_shared<Buffer>(std::move(buffer));
  return std::shared_ptr<Buffer>(
      new Buffer(std::move(buffer)), [spares = spares_](Buffer* used) {
        const std::unique_ptr<Buffer> owner(used);
        const std::lock_guard lock(spares->mutex);
        try {
          spares->buffers.push_back(std::move(*owner));
        } catch (const std::bad_alloc&) {
          // No memory is left for the list: the buffer is freed instead of
          // kept.
        }
      });
}

}  // namespace holdfast
