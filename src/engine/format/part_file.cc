#include "engine/format/part_file.h"

#include <algorithm>

#include "engine/format/sidecar_text.h"
#include "ground/base/crc32c.h"
#include "ground/json/scanner.h"
#include "ground/json/text.h"

namespace holdfast {
namespace {

constexpr uint64_t kPartFileVersion = 1;

Status ReadChecksums(JsonScanner& in, PlanChecksums& plan) {
  std::string text;
  HF_RETURN_IF_ERROR(in.ReadString(text));
  bool is_hex = text.size() == kLeafBucketCount * kCrcDigits;
  for (size_t i = 0; is_hex && i < kLeafBucketCount; ++i) {
    const std::string_view digits =
        std::string_view(text).substr(i * kCrcDigits, kCrcDigits);
    is_hex = ParseCrcHex(digits, plan.buckets[i]);
  }
  return is_hex ? Status() : in.Error("want 2048 hex digits");
}

Status ReadUint32(JsonScanner& in, uint32_t& value) {
  uint64_t wide = 0;
  HF_RETURN_IF_ERROR(in.ReadUint64(wide));
  value = static_cast<uint32_t>(wide);
  return wide == value ? Status() : in.Error("want 32 bits");
}

Status ReadHead(std::string_view text, PartFile& part) {
  JsonScanner in(text);
  bool has_version = false;
  HF_RETURN_IF_ERROR(in.ReadObject([&](std::string_view key) {
    if (key == "holdfast_part") {
      has_version = true;
      return ReadSidecarVersion(in, kPartFileVersion);
    }
    if (key == "rank") return in.ReadInt64(part.rank);
    if (key == "is_primary") return in.ReadBool(part.is_primary);
    if (key == "save_id") return in.ReadString(part.save_id);
    if (key == "database") return in.ReadString(part.database);
    if (key == "manifest_checksum") {
      return ReadUint32(in, part.manifest_checksum);
    }
    if (key == "leaf_count") return in.ReadUint64(part.plan.leaf_count);
    if (key == "leaf_checksums") return ReadChecksums(in, part.plan);
    if (key == "fingerprints") {
      return ReadFingerprintTexts(in, part.fingerprints.emplace());
    }
    return in.SkipValue();
  }));
  return has_version ? in.ReadEnd() : in.Error("want holdfast_part");
}

}  // namespace

std::string PartFileName(int64_t rank) {
  return "_HOLDFAST_PART_" + std::to_string(rank);
}

uint32_t ManifestChecksum(std::string_view manifest) {
  return Crc32c(manifest.substr(
      0, manifest.size() - std::min<size_t>(manifest.size(), 4)));
}

std::string SerializePartFile(const PartFile& part) {
  std::string out =
      "{\"holdfast_part\":1,\"rank\":" + std::to_string(part.rank) +
      ",\"is_primary\":" + (part.is_primary ? "true" : "false") +
      ",\"save_id\":";
  AppendCompactJsonString(out, part.save_id);
  out += ",\"database\":";
  AppendCompactJsonString(out, part.database);
  out += ",\"manifest_checksum\":" + std::to_string(part.manifest_checksum) +
         ",\"leaf_count\":" + std::to_string(part.plan.leaf_count) +
         ",\"leaf_checksums\":\"";
  for (const uint32_t bucket : part.plan.buckets) AppendCrcHex(out, bucket);
  out += '"';
  if (part.fingerprints) {
    out += ",\"fingerprints\":";
    AppendFingerprintTexts(out, *part.fingerprints);
  }
  out += "}\n";
  out += SerializeDigestFile(part.digests);
  out += '\n';
  AppendCrcHex(out, Crc32c(out));
  return out;
}

Result<PartFile> ParsePartFile(std::string_view text) {
  uint32_t want = 0;
  const size_t body_bytes =
      text.size() < kCrcDigits ? 0 : text.size() - kCrcDigits;
  const std::string_view body = text.substr(0, body_bytes);
  // Checked before any line is parsed: a truncated part must not be accepted.
  if (!ParseCrcHex(text.substr(body_bytes), want) || Crc32c(body) != want) {
    return DataLossError("the file is damaged: its checksum does not match");
  }
  const size_t head_end = body.find('\n');
  if (head_end == std::string_view::npos || !body.ends_with('\n') ||
      head_end + 1 == body.size()) {
    return DataLossError("want three lines");
  }
  PartFile part;
  HF_RETURN_IF_ERROR(ReadHead(body.substr(0, head_end), part));
  HF_ASSIGN_OR_RETURN(
      part.digests,
      ParseDigestFile(body.substr(head_end + 1, body.size() - head_end - 2)));
  return part;
}

}  // namespace holdfast
