#include "holdfast/shape.h"

#include <limits>
#include <new>

namespace holdfast {

void Shape::Grow(size_t rank) {
  const size_t room = std::max(rank, size_t{2} * capacity_);
  if (room > std::numeric_limits<uint32_t>::max()) throw std::bad_alloc();
  auto* const heap = new int64_t[room];
  std::copy(begin(), end(), heap);
  Free();
  heap_ = heap;
  capacity_ = static_cast<uint32_t>(room);
}

}  // namespace holdfast
