// FloatSums: what a save writes of its floating-point arrays, as FloatArrays.
// It is made of the checksums that the save computes anyway, so no element is
// read for it.
//
// Thread-safety: Wants and Add on any thread; Total when all have returned.
// Ownership: borrows the plan. Errors: none.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string_view>

#include "engine/format/digest_file.h"
#include "engine/save/save_plan.h"

namespace holdfast {

// Returns whether such an array counts for FloatArrays.
bool CountsAsFloats(DType dtype, const Shape& shape);

class FloatSums {
 public:
  explicit FloatSums(const SavePlan& plan) : plan_(plan) {}

  // Returns whether value `index` of the plan is a chunk of an array that
  // counts.
  bool Wants(uint64_t index) const;
  // Adds such a chunk, which is stored under `key`.
  void Add(std::string_view key, const ValueDigest& row);
  // Returns the sum over the part that this process writes. Nullopt if the plan
  // has arrays that other code writes, or that are only referred to. REQUIRES:
  // every chunk that the sums want was added.
  std::optional<FloatArrays> Total() const;

 private:
  const SavePlan& plan_;
  std::atomic<uint64_t> hash_{0};
};

}  // namespace holdfast
