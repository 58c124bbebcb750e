#include "formats/ocdbt/format/envelope.h"

#include <cstring>
#include <string>

#include "formats/ocdbt/format/body_reader.h"
#include "formats/ocdbt/format/compressed_body.h"
#include "ground/base/coding.h"
#include "ground/base/crc32c.h"
#include "ground/base/status_macros.h"

namespace holdfast::ocdbt {
namespace {

constexpr uint64_t kObjectBytesMin = 16;
constexpr size_t kMagicBytes = 4;
constexpr size_t kLengthEnd = 12;
constexpr size_t kCrcBytes = 4;
// Magic, length, and two varints of one byte each in objects that we write.
constexpr size_t kWrittenHeaderBytes = kLengthEnd + 2;

void StoreMagic(ObjectKind kind, char* target) {
  const uint32_t magic = static_cast<uint32_t>(kind);
  for (int i = 0; i < 4; ++i) {
    target[i] = static_cast<char>(magic >> (24 - 8 * i));
  }
}

Status CheckFrame(std::string_view object, ObjectKind kind) {
  if (object.size() < kObjectBytesMin) {
    return DataLossError("Encoded length (" + std::to_string(object.size()) +
                         ") is less than minimum length (16)");
  }
  char magic[kMagicBytes];
  StoreMagic(kind, magic);
  const std::string_view want(magic, kMagicBytes);
  const std::string_view got = object.substr(0, kMagicBytes);
  if (got != want) {
    return DataLossError("Expected to start with hex bytes " + ToHex(want) +
                         " but received: 0x" + ToHex(got));
  }
  const uint64_t stated = LoadLittle<uint64_t>(object.data() + kMagicBytes);
  if (stated != object.size()) {
    return DataLossError("Length in header (" + std::to_string(stated) +
                         ") does not match actual length (" +
                         std::to_string(object.size()) + "); at byte 12");
  }
  const std::string_view checked = object.substr(0, object.size() - kCrcBytes);
  const uint32_t stored = LoadLittle<uint32_t>(object.data() + checked.size());
  const uint32_t computed = Crc32c(checked);
  if (stored != computed) {
    return DataLossError("CRC-32C checksum verification failed: expected=" +
                         std::to_string(stored) +
                         ", actual=" + std::to_string(computed));
  }
  return Status();
}

void StoreHeader(ObjectKind kind, uint64_t object_byte_count, bool zstd,
                 char* target) {
  StoreMagic(kind, target);
  StoreLittle<uint64_t>(target + kMagicBytes, object_byte_count);
  target[kLengthEnd] = 0;
  target[kLengthEnd + 1] = zstd ? 1 : 0;
}

}  // namespace

Result<OpenedObject> OpenEnvelope(const Bytes& object, ObjectKind kind,
                                  const DecodeLimits& limits) {
  HF_RETURN_IF_ERROR(CheckFrame(object.view(), kind));
  const size_t inner_byte_count = object.size() - kLengthEnd - kCrcBytes;
  const Bytes inner = object.Slice(kLengthEnd, inner_byte_count);
  BodyReader reader(inner.view(), kLengthEnd);
  uint32_t version = 0;
  HF_RETURN_IF_ERROR(reader.ReadVarint32(version));
  if (version > 0) {
    return reader.DataLoss("Maximum supported version is 0 but received: " +
                           std::to_string(version));
  }
  uint32_t compression = 0;
  HF_RETURN_IF_ERROR(reader.ReadVarint32(compression));
  if (compression > 1) {
    return reader.DataLoss("Unsupported compression format: " +
                           std::to_string(compression));
  }
  const size_t start = reader.offset();
  OpenedObject opened;
  opened.body = inner.Slice(start, inner_byte_count - start);
  opened.body_offset = kLengthEnd + start;
  if (compression == 0) {
    HF_RETURN_IF_ERROR(
        CheckBodyBytes(opened.body.size(), limits.decompressed_bytes_max));
    return opened;
  }

  HF_ASSIGN_OR_RETURN(
      DecompressedFrame frame,
      DecompressFrame(opened.body.view(), limits.decompressed_bytes_max));
  opened.body = std::move(frame.body);
  opened.body_offset = 0;
  opened.unread_byte_count = frame.unread_byte_count;
  return opened;
}

Result<Bytes> SealEnvelope(ObjectKind kind, std::string_view body,
                           const Compression& compression) {
  const uint64_t room =
      compression.zstd ? CompressedBytesMax(body.size()) : body.size();
  Buffer object(kWrittenHeaderBytes + room + kCrcBytes);
  char* const target = object.data() + kWrittenHeaderBytes;
  uint64_t stored = body.size();
  if (compression.zstd) {
    HF_ASSIGN_OR_RETURN(stored,
                        CompressFrame(body, compression.level, target, room));
  } else if (!body.empty()) {
    std::memcpy(target, body.data(), body.size());
  }
  const uint64_t checked = kWrittenHeaderBytes + stored;
  StoreHeader(kind, checked + kCrcBytes, compression.zstd, object.data());
  const uint32_t crc = Crc32c({object.data(), checked});
  StoreLittle<uint32_t>(object.data() + checked, crc);
  return Bytes(std::move(object), checked + kCrcBytes);
}

}  // namespace holdfast::ocdbt
