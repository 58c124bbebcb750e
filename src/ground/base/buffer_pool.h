// BufferPool: reusable memory for pieces of tensors.
//
// Touching new memory for the first time costs more than filling it: it took
// half the processor time of a 1 GiB conversion. A released buffer of 1 MiB or
// more is kept for the next request of about the same size; malloc keeps
// smaller buffers.
// Thread-safety: any thread. Ownership: buffers keep the pool's memory alive,
// not the pool object. Units: bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "ground/base/bytes.h"

namespace holdfast {

class BufferPool {
 public:
  // Returns byte_count bytes, or up to a quarter more; null when memory is
  // short. The pool takes the buffer back when its last owner releases it.
  std::shared_ptr<Buffer> Get(uint64_t byte_count);

 private:
  struct Spares {
    std::mutex mutex;
    std::vector<Buffer> buffers;
  };

  const std::shared_ptr<Spares> spares_ = std::make_shared<Spares>();
};

}  // namespace holdfast
