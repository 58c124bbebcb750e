// SHA-256 of bytes, as lower-case hex.
//
// Thread-safety: one thread an object. Errors: none.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "holdfast/tensor.h"

namespace holdfast::pickle {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void Add(const void* data, size_t byte_count);
  // Once, at the end.
  std::string Hex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Of the elements in C order, little endian.
std::string Sha256OfElements(const ConstArrayView& view);

}  // namespace holdfast::pickle
