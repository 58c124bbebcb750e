#include "formats/codec/bytes_chain.h"

#include <cassert>
#include <cstring>
#include <utility>

#include "formats/codec/codec_context.h"
#include "formats/codec/crc32c_codec.h"
#include "formats/codec/size_error.h"
#include "ground/base/status_macros.h"

namespace holdfast {
namespace {

// Returns bounds on the encoded size before each codec; [0] is the decoded size
// itself.
std::vector<size_t> StageBytesMax(BytesCodecSpan codecs, size_t decoded_bytes) {
  std::vector<size_t> bounds = {decoded_bytes};
  for (const auto& codec : codecs) {
    bounds.push_back(codec->EncodedBytesMax(bounds.back()));
  }
  return bounds;
}

// Undoes all codecs but the first. Their decoded sizes are known only as
// bounds.
Result<Bytes> DecodeToFirst(BytesCodecSpan codecs, std::string_view in,
                            size_t decoded_bytes, CodecContext& context) {
  Bytes data(nullptr, in);
  if (codecs.size() <= 1) return data;
  const std::vector<size_t> bounds = StageBytesMax(codecs, decoded_bytes);
  for (size_t i = codecs.size(); i-- > 1;) {
    HF_ASSIGN_OR_RETURN(Bytes decoded, codecs[i]->DecodeBounded(
                                           data.view(), bounds[i], context));
    // A slice of `data`, which is about to be dropped, must keep it alive. A
    // separate buffer may begin right after `data`, so both ends are checked.
    const bool is_slice =
        decoded.data() >= data.data() &&
        decoded.data() + decoded.size() <= data.data() + data.size();
    data = is_slice ? data.Slice(decoded.data() - data.data(), decoded.size())
                    : std::move(decoded);
  }
  return data;
}

Status CheckSize(size_t want, size_t got) {
  return got == want ? Status() : DecodedSizeError("chunk", want, got);
}

// Decodes the first codec, whose decoded size is known.
Status DecodeLast(BytesCodecSpan codecs, std::string_view in,
                  std::span<char> out, DecodedRange wanted,
                  CodecContext& context) {
  if (!codecs.empty()) {
    return codecs[0]->DecodeRange(in, out, wanted, context);
  }
  HF_RETURN_IF_ERROR(CheckSize(out.size(), in.size()));
  if (!out.empty()) std::memcpy(out.data(), in.data(), out.size());
  return Status();
}

}  // namespace

Result<EncodedChunk> EncodeBytesChain(BytesCodecSpan codecs,
                                      std::string_view in, size_t spare_bytes,
                                      CodecContext& context) {
  assert(!codecs.empty());
  EncodedChunk chunk;
  for (size_t i = 0; i < codecs.size(); ++i) {
    const bool last = i + 1 == codecs.size();
    const size_t bytes_max = codecs[i]->EncodedBytesMax(in.size());
    // Two scratch buffers alternate: a codec reads one while it writes the
    // other.
    Buffer& target = last ? chunk.storage : context.impl().stages[i % 2];
    HF_RETURN_IF_ERROR(
        ReserveOrFail(bytes_max + (last ? spare_bytes : 0), target));
    HF_ASSIGN_OR_RETURN(
        const size_t byte_count,
        codecs[i]->Encode(in, {target.data(), bytes_max}, context));
    in = {target.data(), byte_count};
  }
  chunk.pieces = {in};
  chunk.byte_count = in.size();
  return chunk;
}

bool DecodesInPlace(BytesCodecSpan codecs) {
  for (const auto& codec : codecs) {
    if (dynamic_cast<const Crc32cCodec*>(codec.get()) == nullptr) return false;
  }
  return true;
}

Result<std::string_view> DecodeInPlace(BytesCodecSpan codecs,
                                       std::string_view in,
                                       size_t decoded_bytes,
                                       CodecContext& context) {
  assert(DecodesInPlace(codecs));
  for (size_t i = codecs.size(); i-- > 0;) {
    HF_ASSIGN_OR_RETURN(const Bytes content,
                        codecs[i]->DecodeBounded(in, in.size(), context));
    in = content.view();
  }
  HF_RETURN_IF_ERROR(CheckSize(decoded_bytes, in.size()));
  return in;
}

Result<std::span<char>> DecodeToScratch(BytesCodecSpan codecs,
                                        std::string_view in,
                                        size_t decoded_bytes,
                                        DecodedRange wanted, Buffer& scratch,
                                        CodecContext& context) {
  HF_ASSIGN_OR_RETURN(const Bytes data,
                      DecodeToFirst(codecs, in, decoded_bytes, context));
  const uint64_t justified =
      codecs.empty() ? data.size() : codecs[0]->DecodedBytesMax(data.view());
  if (justified < decoded_bytes) {
    if (codecs.empty()) return CheckSize(decoded_bytes, justified);
    // The size cannot be right, but only the codec can tell whether the bytes
    // are damaged or merely too few.
    HF_ASSIGN_OR_RETURN(
        const Bytes decoded,
        codecs[0]->DecodeBounded(data.view(), decoded_bytes, context));
    return DecodedSizeError("chunk", decoded_bytes, decoded.size());
  }
  HF_RETURN_IF_ERROR(ReserveOrFail(decoded_bytes, scratch));
  const std::span<char> out(scratch.data(), decoded_bytes);
  HF_RETURN_IF_ERROR(DecodeLast(codecs, data.view(), out, wanted, context));
  return out;
}

Status DecodeBytesChain(BytesCodecSpan codecs, std::string_view in,
                        std::span<char> out, CodecContext& context) {
  HF_ASSIGN_OR_RETURN(const Bytes data,
                      DecodeToFirst(codecs, in, out.size(), context));
  return DecodeLast(codecs, data.view(), out, {0, out.size()}, context);
}

}  // namespace holdfast
