#include "engine/together/wanted_box.h"

#include <limits>
#include <tuple>

#include "ground/base/coding.h"
#include "ground/base/status_macros.h"

namespace holdfast {
namespace {

constexpr uint64_t kInt64Max = std::numeric_limits<int64_t>::max();

// An entry has at least a byte each for its leaf, dtype and rank.
constexpr size_t kEntryBytesMin = 3;

bool ReadNumber(Cursor& cursor, uint64_t value_max, uint64_t& value) {
  return cursor.ReadVarint(value_max, value) == Cursor::VarintResult::kOk;
}

bool ReadShape(Cursor& cursor, size_t rank, Shape& shape) {
  shape.reserve(rank);
  for (size_t d = 0; d < rank; ++d) {
    uint64_t value = 0;
    if (!ReadNumber(cursor, kInt64Max, value)) return false;
    shape.push_back(static_cast<int64_t>(value));
  }
  return true;
}

bool ReadWanted(Cursor& cursor, WantedBox& wanted) {
  uint64_t leaf = 0, dtype = 0, rank = 0;
  if (!ReadNumber(cursor, kInt64Max, leaf) ||
      !ReadNumber(cursor, kDTypeCount - 1, dtype) ||
      !ReadNumber(cursor, kRankMax, rank)) {
    return false;
  }
  wanted.leaf = leaf;
  wanted.dtype = static_cast<DType>(dtype);
  return ReadShape(cursor, rank, wanted.box.origin) &&
         ReadShape(cursor, rank, wanted.box.shape);
}

}  // namespace

bool operator<(const WantedBox& a, const WantedBox& b) {
  return std::tie(a.leaf, a.box.origin, a.box.shape, a.dtype) <
         std::tie(b.leaf, b.box.origin, b.box.shape, b.dtype);
}

uint64_t MemoryBytesOf(const WantedBox& wanted) {
  uint64_t byte_count = 0;
  if (__builtin_mul_overflow(
          static_cast<uint64_t>(ElementCount(wanted.box.shape)),
          uint64_t{DTypeBytes(wanted.dtype)}, &byte_count)) {
    return std::numeric_limits<uint64_t>::max();
  }
  return byte_count;
}

std::string EncodeWanted(const std::vector<WantedBox>& wanted) {
  std::string bytes;
  PutVarint(bytes, wanted.size());
  for (const WantedBox& one : wanted) {
    PutVarint(bytes, one.leaf);
    PutVarint(bytes, static_cast<uint64_t>(one.dtype));
    PutVarint(bytes, one.box.origin.size());
    for (const int64_t start : one.box.origin) PutVarint(bytes, start);
    for (const int64_t extent : one.box.shape) PutVarint(bytes, extent);
  }
  return bytes;
}

Result<std::vector<WantedBox>> DecodeWanted(std::string_view bytes) {
  Cursor cursor(bytes);
  const Status damaged =
      DataLossError("a list of wanted boxes is damaged (of " +
                    std::to_string(bytes.size()) + " bytes)");
  uint64_t count = 0;
  if (!ReadNumber(cursor, bytes.size() / kEntryBytesMin, count)) return damaged;
  std::vector<WantedBox> wanted(count);
  for (WantedBox& one : wanted) {
    if (!ReadWanted(cursor, one)) return damaged;
  }
  if (cursor.remaining() != 0) return damaged;
  return wanted;
}

}  // namespace holdfast
