// CountedStores: the stores that one restore reads from, each behind a counter,
// so that its statistics count real reads, not planned ones.
//
// Thread-safety: Add before other threads come; then any thread.
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
  // The counted one of `store`.
  Store* Add(Store* store);
  // REQUIRES: Add(&store) was called.
  Store& Of(Store& store) const;
  uint64_t read_bytes() const;

 private:
  class Counted;

  std::map<const Store*, std::unique_ptr<Counted>> stores_;
};

}  // namespace holdfast
