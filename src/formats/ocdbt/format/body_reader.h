// BodyReader: reads the fields of an object's body. Its errors say, in
// TensorStore's words, what is wrong and at which byte.
//
// Thread-safety: one thread. Ownership: the body is borrowed; views returned
// point into it. Units: bytes.
// Errors: DataLoss; InvalidArgument for bytes left at the end.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "ground/base/coding.h"
#include "ground/base/status_macros.h"
#include "holdfast/status.h"

namespace holdfast::ocdbt {

class BodyReader {
 public:
  // `body_offset` is added to positions in messages.
  BodyReader(std::string_view body, uint64_t body_offset)
      : cursor_(body), body_offset_(body_offset) {}

  size_t offset() const { return cursor_.offset(); }
  size_t remaining() const { return cursor_.remaining(); }

  Status ReadByte(uint8_t& value) {
    return cursor_.ReadByte(value) ? Status() : UnexpectedEnd();
  }
  Status ReadU32Little(uint32_t& value) {
    return cursor_.ReadU32Little(value) ? Status() : UnexpectedEnd();
  }
  Status ReadU64Little(uint64_t& value) {
    return cursor_.ReadU64Little(value) ? Status() : UnexpectedEnd();
  }
  Status ReadBytes(size_t byte_count, std::string_view& value) {
    return cursor_.ReadBytes(byte_count, value) ? Status() : UnexpectedEnd();
  }
  Status ReadVarint16(uint16_t& value) { return ReadVarint(value); }
  Status ReadVarint32(uint32_t& value) { return ReadVarint(value); }
  Status ReadVarint64(uint64_t& value) { return ReadVarint(value); }

  // Fails unless `record_count` records of at least `record_bytes_min` bytes
  // each can still follow. Call this before allocating memory for the records.
  Status CheckRoomFor(uint64_t record_count, uint64_t record_bytes_min) {
    return record_count <= remaining() / record_bytes_min ? Status()
                                                          : UnexpectedEnd();
  }

  // Fails unless the body ends here, with `unread_byte_count` bytes after it.
  Status ExpectEnd(uint64_t unread_byte_count);

  Status DataLoss(std::string why) const {
    return DataLossError(std::move(why) + Where());
  }
  Status InvalidArgument(std::string why) const {
    return InvalidArgumentError(std::move(why) + Where());
  }

 private:
  template <typename T>
  Status ReadVarint(T& value) {
    uint64_t wide = 0;
    const auto result = cursor_.ReadVarint(std::numeric_limits<T>::max(), wide);
    if (result != Cursor::VarintResult::kOk) {
      return BadVarint(result, std::numeric_limits<T>::digits);
    }
    value = static_cast<T>(wide);
    return Status();
  }
  Status BadVarint(Cursor::VarintResult result, int bit_count) const;
  Status UnexpectedEnd() const;
  std::string Where() const;

  Cursor cursor_;
  uint64_t body_offset_;
};

}  // namespace holdfast::ocdbt
