// Strings for ground/base/coding.h: a varint length, then the bytes.
//
// Thread-safety: one thread per cursor. Errors: as Cursor; a length beyond the
// end allocates nothing.
#pragma once

#include <limits>
#include <string>
#include <string_view>

#include "ground/base/coding.h"

namespace holdfast {

inline void PutString(std::string& out, std::string_view text) {
  PutVarint(out, text.size());
  out += text;
}

inline bool ReadString(Cursor& cursor, std::string& text) {
  uint64_t size = 0;
  std::string_view bytes;
  if (cursor.ReadVarint(std::numeric_limits<uint64_t>::max(), size) !=
          Cursor::VarintResult::kOk ||
      size > cursor.remaining() || !cursor.ReadBytes(size, bytes)) {
    return false;
  }
  text = bytes;
  return true;
}

inline bool ReadVarint64(Cursor& cursor, uint64_t& value) {
  return cursor.ReadVarint(std::numeric_limits<uint64_t>::max(), value) ==
         Cursor::VarintResult::kOk;
}

}  // namespace holdfast
