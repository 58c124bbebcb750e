#include "convert/buffer_pool.h"

#include <algorithm>
#include <new>
#include <utility>

namespace holdfast {

std::shared_ptr<Buffer> BufferPool::Get(uint64_t byte_count) {
  Buffer buffer;
  {
    const std::lock_guard lock(spares_->mutex);
    std::vector<Buffer>& spares = spares_->buffers;
    const auto found =
        std::find_if(spares.begin(), spares.end(), [&](const Buffer& spare) {
          return spare.size() >= byte_count &&
                 spare.size() - byte_count <= byte_count / 4;
        });
    if (found != spares.end()) {
      buffer = std::move(*found);
      spares.erase(found);
    } else {
      // So that all of them together do not grow, as much goes as is made.
      uint64_t dropped_bytes = 0;
      while (!spares.empty() && dropped_bytes < byte_count) {
        dropped_bytes += spares.front().size();
        spares.erase(spares.begin());
      }
    }
  }
  if (buffer.data() == nullptr) buffer = Buffer::TryAllocate(byte_count);
  if (buffer.data() == nullptr) return nullptr;
  return std::shared_ptr<Buffer>(
      new Buffer(std::move(buffer)), [spares = spares_](Buffer* used) {
        const std::unique_ptr<Buffer> owner(used);
        const std::lock_guard lock(spares->mutex);
        try {
          spares->buffers.push_back(std::move(*owner));
        } catch (const std::bad_alloc&) {
          // It is not kept, then.
        }
      });
}

}  // namespace holdfast
