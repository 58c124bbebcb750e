#include "engine/save/float_sums.h"

#include <algorithm>
#include <string>

#include "ground/base/coding.h"
#include "ground/base/xxh64.h"

namespace holdfast {
namespace {

uint64_t HashOf(std::string_view text) {
  Xxh64 hash;
  hash.Update(text);
  return hash.Digest();
}

bool Counts(const PlannedArray& array) {
  return CountsAsFloats(array.layout->dtype(), array.source.shape());
}

uint64_t HashOf(const PlannedArray& array) {
  std::string text(DTypeName(array.layout->dtype()));
  for (const int64_t extent : array.source.shape()) {
    PutU64Little(text, static_cast<uint64_t>(extent));
  }
  return HashOf(text + array.name);
}

}  // namespace

// Scalars do not count: a learning rate changes even if the weights do not.
bool CountsAsFloats(DType dtype, const Shape& shape) {
  const DTypeKind kind = DTypeKindOf(dtype);
  const bool is_float =
      kind == DTypeKind::kFloat || kind == DTypeKind::kComplex;
  return is_float && !shape.empty() && ElementCount(shape) > 1;
}

bool FloatSums::Wants(uint64_t index) const {
  const PlannedArray& array = plan_.arrays[ArrayOfValue(plan_, index)];
  return index >= array.first_chunk_value() && Counts(array);
}

void FloatSums::Add(std::string_view key, const ValueDigest& row) {
  std::string text;
  PutU64Little(text, row.byte_count);
  PutU64Little(text, uint64_t{row.crc32c} << 32 | row.tail.value_or(0));
  text += key;
  hash_.fetch_add(HashOf(text), std::memory_order_relaxed);
}

std::optional<FloatArrays> FloatSums::Total() const {
  const bool is_complete =
      std::none_of(plan_.leaves.begin(), plan_.leaves.end(), IsExternal);
  if (!is_complete) return std::nullopt;
  FloatArrays total{.hash = hash_.load(std::memory_order_relaxed)};
  for (const PlannedArray& array : plan_.arrays) {
    if (!Counts(array)) continue;
    if (array.stored != nullptr) return std::nullopt;
    if (!array.has_metadata) continue;  // counted by the process that has it
    total += {HashOf(array), 1,
              static_cast<uint64_t>(ElementCount(array.source.shape())) *
                  DTypeBytes(array.layout->dtype())};
  }
  return total;
}

}  // namespace holdfast
