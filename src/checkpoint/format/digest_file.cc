#include "checkpoint/format/digest_file.h"

#include <charconv>

#include "base/crc32c.h"
#include "checkpoint/format/directory_names.h"
#include "checkpoint/format/json_scanner.h"
#include "checkpoint/format/json_text.h"
#include "checkpoint/format/sidecar_text.h"

namespace holdfast {
namespace {

constexpr uint64_t kDigestFileVersion = 1;
constexpr std::string_view kTrailerStart = ",\"crc32c\":\"";
constexpr std::string_view kTrailerEnd = "\"}";
constexpr size_t kTrailerBytes =
    kTrailerStart.size() + kCrcDigits + kTrailerEnd.size();

void AppendNumber(std::string& out, uint64_t value) {
  char digits[24];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  out.append(digits, end);
}

// Splits off the trailer and checks it against the text before it.
Status CheckTrailer(std::string_view text) {
  if (text.size() < kTrailerBytes) return DataLossError("text is too short");
  const std::string_view body = text.substr(0, text.size() - kTrailerBytes);
  std::string_view trailer = text.substr(body.size());
  if (!trailer.starts_with(kTrailerStart) || !trailer.ends_with(kTrailerEnd)) {
    return DataLossError("offset " + std::to_string(body.size()) +
                         ": want the member crc32c at the end");
  }
  uint32_t want = 0;
  trailer.remove_prefix(kTrailerStart.size());
  if (!ParseCrcHex(trailer.substr(0, kCrcDigits), want)) {
    return DataLossError("crc32c: want eight hex digits");
  }
  const uint32_t got = Crc32c(body);
  if (got == want) return Status();
  std::string message = "crc32c: the file is damaged (got ";
  AppendCrcHex(message, got);
  message += ", want ";
  AppendCrcHex(message, want);
  return DataLossError(message + ")");
}

// One row: a path, `number_count` numbers, a CRC.
Status ReadRow(JsonScanner& in, std::string& path, uint64_t* numbers,
               int number_count, uint32_t& crc) {
  int column = 0;
  std::string hex;
  HF_RETURN_IF_ERROR(in.ReadArray([&] {
    const int c = column++;
    if (c == 0) return in.ReadString(path);
    if (c <= number_count) return in.ReadUint64(numbers[c - 1]);
    if (c > number_count + 1) return in.Error("row is too long");
    HF_RETURN_IF_ERROR(in.ReadString(hex));
    return ParseCrcHex(hex, crc) ? Status() : in.Error("want eight hex digits");
  }));
  return column == number_count + 2 ? Status() : in.Error("row is too short");
}

Status ReadFiles(JsonScanner& in, std::vector<FileDigest>& files) {
  return in.ReadArray([&] {
    FileDigest& row = files.emplace_back();
    return ReadRow(in, row.path, &row.byte_count, 1, row.crc32c);
  });
}

Status ReadValues(JsonScanner& in, std::vector<ValueDigest>& values) {
  return in.ReadArray([&] {
    ValueDigest& row = values.emplace_back();
    uint64_t numbers[2] = {};
    HF_RETURN_IF_ERROR(ReadRow(in, row.path, numbers, 2, row.crc32c));
    row.offset = numbers[0];
    row.byte_count = numbers[1];
    return Status();
  });
}

Status ReadDigests(JsonScanner& in, DigestFile& digests) {
  bool has_version = false;
  HF_RETURN_IF_ERROR(in.ReadObject([&](std::string_view key) {
    if (key == "holdfast_digests") {
      has_version = true;
      return ReadSidecarVersion(in, kDigestFileVersion);
    }
    if (key == "files") return ReadFiles(in, digests.files);
    if (key == "values") return ReadValues(in, digests.values);
    return in.SkipValue();
  }));
  return has_version ? in.ReadEnd() : in.Error("want holdfast_digests");
}

}  // namespace

std::string SerializeDigestFile(const DigestFile& digests) {
  std::string out = "{\"holdfast_digests\":1,\"files\":[";
  const char* separator = "[";
  for (const FileDigest& row : digests.files) {
    out += separator;
    separator = ",[";
    AppendCompactJsonString(out, row.path);
    out += ',';
    AppendNumber(out, row.byte_count);
    out += ",\"";
    AppendCrcHex(out, row.crc32c);
    out += "\"]";
  }
  out += "],\"values\":[";
  separator = "[";
  for (const ValueDigest& row : digests.values) {
    out += separator;
    separator = ",[";
    AppendCompactJsonString(out, row.path);
    out += ',';
    AppendNumber(out, row.offset);
    out += ',';
    AppendNumber(out, row.byte_count);
    out += ",\"";
    AppendCrcHex(out, row.crc32c);
    out += "\"]";
  }
  out += ']';
  const uint32_t crc = Crc32c(out);
  out += kTrailerStart;
  AppendCrcHex(out, crc);
  out += kTrailerEnd;
  return out;
}

Result<DigestFile> ParseDigestFile(std::string_view text) {
  Status status = CheckTrailer(text);
  DigestFile digests;
  JsonScanner in(text);
  if (status.ok()) status = ReadDigests(in, digests);
  if (!status.ok()) return status.WithContext(kDigestFile);
  return digests;
}

}  // namespace holdfast
