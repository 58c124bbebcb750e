// BufferPool: memory for pieces of tensors, used again and again.
//
// Touching new memory costs more than filling it: it was half the processor
// time of a conversion of 1 GiB. A buffer of 1 MiB or more that is given back
// waits for the next request for about as many bytes; malloc keeps smaller
// ones.
// Thread-safety: any thread. Ownership: buffers that were got keep the pool's
// memory alive, not the pool's object. Units: bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "ground/base/bytes.h"

namespace holdfast {

class BufferPool {
 public:
  // byte_count bytes, or up to a quarter more; null when there is no memory.
  // The pool takes the buffer back when its last owner lets go of it.
  std::shared_ptr<Buffer> Get(uint64_t byte_count);

 private:
  struct Spares {
    std::mutex mutex;
    std::vector<Buffer> buffers;
  };

  const std::shared_ptr<Spares> spares_ = std::make_shared<Spares>();
};

}  // namespace holdfast
