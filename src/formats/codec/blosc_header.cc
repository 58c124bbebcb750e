#include "formats/codec/blosc_header.h"

namespace holdfast {

Status BloscDamage(const std::string& what) {
  return DataLossError("blosc container: " + what);
}

Result<size_t> ReadBloscDecodedBytes(std::string_view in) {
  if (in.size() < kBloscHeaderBytes || BloscWord(in, 12) != in.size() ||
      BloscWord(in, 4) > kBloscDecodedBytesMax) {
    return BloscDamage("bad header or size (got " + std::to_string(in.size()) +
                       " bytes)");
  }
  return BloscWord(in, 4);
}

Result<BloscHeader> ReadBloscHeader(std::string_view in) {
  BloscHeader header;
  header.flags = static_cast<uint8_t>(in[2]);
  header.item_bytes = static_cast<uint8_t>(in[3]);
  header.decoded_bytes = BloscWord(in, 4);
  header.block_bytes = BloscWord(in, 8);
  const auto compressor =
      BloscCompressorOfFormat(header.flags >> kBloscFormatShift);
  if (!compressor) return BloscDamage("unknown compressor");
  header.compressor = *compressor;
  if (header.decoded_bytes == 0) return header;
  const bool is_known =
      in[0] == kBloscVersion && !header.Has(kBloscUnknownFlag) &&
      (header.Has(kBloscStored) || in[1] == kBloscStreamVersion);
  if (!is_known) return BloscDamage("unknown version");
  if (header.item_bytes == 0 || header.block_bytes == 0 ||
      header.block_bytes > header.decoded_bytes ||
      header.block_bytes > kBloscBlockBytesMax) {
    return BloscDamage("bad block size (got " +
                       std::to_string(header.block_bytes) + ")");
  }
  return header;
}

}  // namespace holdfast
