#include "engine/format/sidecar_text.h"

#include <charconv>

#include "ground/base/text.h"

namespace holdfast {

void AppendCrcHex(std::string& out, uint32_t crc) {
  out += HexNumber(crc, kCrcDigits);
}

bool ParseCrcHex(std::string_view text, uint32_t& crc) {
  if (text.size() != kCrcDigits) return false;
  if (text.find_first_not_of("0123456789abcdef") != text.npos) return false;
  std::from_chars(text.data(), text.data() + text.size(), crc, 16);
  return true;
}

Status ReadSidecarVersion(JsonScanner& in, uint64_t want) {
  uint64_t version = 0;
  HF_RETURN_IF_ERROR(in.ReadUint64(version));
  if (version == want) return Status();
  return UnimplementedError("version is not supported (got " +
                            std::to_string(version) + ", want " +
                            std::to_string(want) + ")");
}

}  // namespace holdfast
