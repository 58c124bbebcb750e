// CountedStores: wraps each store that one restore reads from in a counter, so
// that its statistics count actual reads, not planned ones.
//
// Thread-safety: call Add before other threads start; the rest from any thread.
// Ownership: borrows the stores; owns what it returns. Units: bytes.
#pragma once

#include <map>
#include <memory>

#include "stores/storage/store.h"

namespace holdfast {

class CountedStores {
 public:
  CountedStores();
  ~CountedStores();
  // Returns a wrapper of `store` that counts reads.
  Store* Add(Store* store);
  // Returns the wrapper of `store`.
  // REQUIRES: Add(&store) was called.
  Store& Of(Store& store) const;
  uint64_t read_bytes() const;

 private:
  class Counted;

  std::map<const Store*, std::unique_ptr<Counted>> stores_;
};

}  // namespace holdfast
