#include "formats/ocdbt/format/body_reader.h"

namespace holdfast::ocdbt {

Status BodyReader::ExpectEnd(uint64_t unread_byte_count) {
  const uint64_t left = remaining() != 0 ? remaining() : unread_byte_count;
  if (left == 0) return Status();
  return InvalidArgument("End of data expected; remaining length: " +
                         std::to_string(left));
}

Status BodyReader::BadVarint(Cursor::VarintResult result, int bit_count) const {
  if (result == Cursor::VarintResult::kTruncated) return UnexpectedEnd();
  return DataLoss("Invalid " + std::to_string(bit_count) + "-bit varint value");
}

Status BodyReader::UnexpectedEnd() const {
  return DataLoss("Unexpected end of data");
}

std::string BodyReader::Where() const {
  return "; at byte " + std::to_string(body_offset_ + offset());
}

}  // namespace holdfast::ocdbt
