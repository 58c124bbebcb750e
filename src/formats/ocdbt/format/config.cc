#include "formats/ocdbt/format/config.h"

#include <cstring>

#include "ground/base/coding.h"
#include "ground/base/status_macros.h"

namespace holdfast::ocdbt {
namespace {

Status ReadCompression(BodyReader& reader, Compression& compression) {
  uint32_t method = 0;
  HF_RETURN_IF_ERROR(reader.ReadVarint32(method));
  if (method > 1) {
    return reader.InvalidArgument("Invalid compression method: " +
                                  std::to_string(method));
  }
  compression = {.zstd = method == 1};
  if (!compression.zstd) return Status();
  uint32_t bits = 0;
  HF_RETURN_IF_ERROR(reader.ReadU32Little(bits));
  compression.level = static_cast<int32_t>(bits);
  if (compression.level < kZstdLevelMin || compression.level > kZstdLevelMax) {
    return reader.InvalidArgument("Zstd compression level " +
                                  std::to_string(compression.level) +
                                  " is outside valid range [-131072, 22]");
  }
  return Status();
}

Status Mismatch(const std::string& member, const std::string& expected,
                const std::string& received) {
  return FailedPreconditionError("Configuration mismatch on " + member +
                                 ": expected " + expected + " but received " +
                                 received);
}

std::string CompressionText(const Compression& compression) {
  if (!compression.zstd) return "null";
  return "{\"id\":\"zstd\",\"level\":" + std::to_string(compression.level) +
         "}";
}

}  // namespace

std::string UuidText(const Uuid& uuid) {
  return ToHex({reinterpret_cast<const char*>(uuid.data()), uuid.size()});
}

Status ReadArityLog2(BodyReader& reader, uint8_t& arity_log2) {
  HF_RETURN_IF_ERROR(reader.ReadByte(arity_log2));
  if (arity_log2 >= 1 && arity_log2 <= kVersionTreeArityLog2Max) {
    return Status();
  }
  return reader.InvalidArgument(
      "Expected version_tree_arity_log2 in range [1, 16] but received: " +
      std::to_string(arity_log2));
}

Result<Config> ReadConfig(BodyReader& reader) {
  Config config;
  std::string_view uuid;
  HF_RETURN_IF_ERROR(reader.ReadBytes(config.uuid.size(), uuid));
  std::memcpy(config.uuid.data(), uuid.data(), uuid.size());
  uint8_t kind = 0;
  HF_RETURN_IF_ERROR(reader.ReadByte(kind));
  if (kind > 1) {
    return reader.DataLoss("Invalid manifest_kind " + std::to_string(kind));
  }
  config.manifest_kind = static_cast<ManifestKind>(kind);
  HF_RETURN_IF_ERROR(reader.ReadVarint32(config.max_inline_value_bytes));
  HF_RETURN_IF_ERROR(reader.ReadVarint32(config.max_decoded_node_bytes));
  HF_RETURN_IF_ERROR(ReadArityLog2(reader, config.version_tree_arity_log2));
  HF_RETURN_IF_ERROR(ReadCompression(reader, config.compression));
  return config;
}

void WriteConfig(const Config& config, BodyWriter& writer) {
  writer.PutBytes(
      {reinterpret_cast<const char*>(config.uuid.data()), config.uuid.size()});
  writer.PutByte(static_cast<uint8_t>(config.manifest_kind));
  writer.PutVarint(config.max_inline_value_bytes);
  writer.PutVarint(config.max_decoded_node_bytes);
  writer.PutByte(config.version_tree_arity_log2);
  writer.PutVarint(config.compression.zstd ? 1 : 0);
  if (!config.compression.zstd) return;
  writer.PutU32(static_cast<uint32_t>(config.compression.level));
}

Status CheckSameConfig(const Config& expected, const Config& received) {
  const auto check_number = [](const char* member, uint64_t want,
                               uint64_t got) {
    if (want == got) return Status();
    return Mismatch(member, std::to_string(want), std::to_string(got));
  };
  if (expected.uuid != received.uuid) {
    return Mismatch("uuid", '"' + UuidText(expected.uuid) + '"',
                    '"' + UuidText(received.uuid) + '"');
  }
  HF_RETURN_IF_ERROR(check_number("max_inline_value_bytes",
                                  expected.max_inline_value_bytes,
                                  received.max_inline_value_bytes));
  HF_RETURN_IF_ERROR(check_number("max_decoded_node_bytes",
                                  expected.max_decoded_node_bytes,
                                  received.max_decoded_node_bytes));
  HF_RETURN_IF_ERROR(check_number("version_tree_arity_log2",
                                  expected.version_tree_arity_log2,
                                  received.version_tree_arity_log2));
  if (expected.compression == received.compression) return Status();
  return Mismatch("compression", CompressionText(expected.compression),
                  CompressionText(received.compression));
}

}  // namespace holdfast::ocdbt
