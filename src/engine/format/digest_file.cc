#include "engine/format/digest_file.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <span>

#include "engine/format/directory_names.h"
#include "engine/format/sidecar_text.h"
#include "ground/base/crc32c.h"
#include "ground/json/scanner.h"
#include "ground/json/text.h"

namespace holdfast {
namespace {

constexpr uint64_t kDigestFileVersion = 1;
// The size of the CRC at the end of nodes, and of values with a tail.
constexpr uint64_t kCrcBytes = 4;
// A reader allocates memory for one block, so its size is limited.
constexpr uint64_t kBlockBytesMax = 16 << 20;
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

// Reads one row: a path, `number_count` numbers, and a CRC.
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

Status ReadValues(JsonScanner& in, RowKind kind,
                  std::vector<ValueDigest>& values) {
  return in.ReadArray([&] {
    ValueDigest& row = values.emplace_back();
    uint64_t numbers[2] = {};
    HF_RETURN_IF_ERROR(ReadRow(in, row.path, numbers, 2, row.crc32c));
    row.offset = numbers[0];
    row.byte_count = numbers[1];
    row.kind = kind;
    return Status();
  });
}

Status ReadSources(JsonScanner& in, std::vector<SourceFile>& sources) {
  return in.ReadArray([&] {
    SourceFile& row = sources.emplace_back();
    int column = 0;
    uint64_t modified_ns = 0;
    HF_RETURN_IF_ERROR(in.ReadArray([&] {
      switch (column++) {
        case 0:
          return in.ReadString(row.path);
        case 1:
          return in.ReadUint64(row.byte_count);
        case 2:
          return in.ReadUint64(modified_ns);
        case 3:
          return in.ReadString(row.from);
        default:
          return in.Error("row is too long");
      }
    }));
    if (column != 4) return in.Error("row is too short");
    row.modified_ns = static_cast<int64_t>(modified_ns);
    return Status();
  });
}

// The CRCs for one value row, which is given by its index.
struct NumberedCrcs {
  uint64_t number = 0;
  std::vector<uint32_t> crcs;
};

Status ReadNumberedCrcs(JsonScanner& in, std::vector<NumberedCrcs>& rows) {
  std::string hex;
  return in.ReadArray([&] {
    NumberedCrcs& row = rows.emplace_back();
    int column = 0;
    HF_RETURN_IF_ERROR(in.ReadArray([&] {
      if (column++ == 0) return in.ReadUint64(row.number);
      if (column > 2) return in.Error("row is too long");
      HF_RETURN_IF_ERROR(in.ReadString(hex));
      row.crcs.resize(hex.size() / kCrcDigits);
      bool is_hex = hex.size() % kCrcDigits == 0;
      for (size_t i = 0; is_hex && i < row.crcs.size(); ++i) {
        is_hex = ParseCrcHex(
            std::string_view(hex).substr(i * kCrcDigits, kCrcDigits),
            row.crcs[i]);
      }
      return is_hex ? Status() : in.Error("want groups of eight hex digits");
    }));
    return column == 2 ? Status() : in.Error("row is too short");
  });
}

Status ReadFloats(JsonScanner& in, std::optional<FloatArrays>& floats) {
  FloatArrays& read = floats.emplace();
  int column = 0;
  std::string hex;
  HF_RETURN_IF_ERROR(in.ReadArray([&] {
    switch (column++) {
      case 0:
        return in.ReadString(hex);
      case 1:
        return in.ReadUint64(read.array_count);
      case 2:
        return in.ReadUint64(read.byte_count);
      default:
        return in.Error("floats are too long");
    }
  }));
  const std::string_view digits = hex;
  uint32_t high = 0, low = 0;
  if (column != 3 || digits.size() != 2 * kCrcDigits ||
      !ParseCrcHex(digits.substr(0, kCrcDigits), high) ||
      !ParseCrcHex(digits.substr(kCrcDigits), low)) {
    return in.Error("want floats of 16 hex digits and two numbers");
  }
  read.hash = uint64_t{high} << 32 | low;
  return Status();
}

// Members as they occur in the text. Rows refer to each other by index, and
// members may come in any order.
struct DigestMembers {
  std::vector<SourceFile> sources;
  std::vector<FileDigest> files;
  std::vector<ValueDigest> values;
  std::vector<ValueDigest> nodes;
  std::vector<ValueDigest> others;
  std::vector<NumberedCrcs> blocks;
  std::vector<NumberedCrcs> tails;
  uint64_t block_bytes = kDigestBlockBytes;
  std::optional<FloatArrays> floats;
};

Status ReadMembers(JsonScanner& in, DigestMembers& members) {
  bool has_version = false;
  HF_RETURN_IF_ERROR(in.ReadObject([&](std::string_view key) {
    if (key == "holdfast_digests") {
      has_version = true;
      return ReadSidecarVersion(in, kDigestFileVersion);
    }
    if (key == "files") return ReadFiles(in, members.files);
    if (key == "values") return ReadValues(in, RowKind::kValue, members.values);
    if (key == "sources") return ReadSources(in, members.sources);
    if (key == "floats") return ReadFloats(in, members.floats);
    if (key == "nodes") return ReadValues(in, RowKind::kNode, members.nodes);
    if (key == "others") return ReadValues(in, RowKind::kOther, members.others);
    if (key == "block_bytes") return in.ReadUint64(members.block_bytes);
    if (key == "blocks") return ReadNumberedCrcs(in, members.blocks);
    if (key == "tails") return ReadNumberedCrcs(in, members.tails);
    return in.SkipValue();
  }));
  return has_version ? in.ReadEnd() : in.Error("want holdfast_digests");
}

Status WrongCount(std::string_view member, const NumberedCrcs& row,
                  uint64_t want) {
  return DataLossError(std::string(member) + ": value " +
                       std::to_string(row.number) + " (got " +
                       std::to_string(row.crcs.size()) + " checksums, want " +
                       std::to_string(want) + ")");
}

Status JoinMembers(DigestMembers members, DigestFile& digests) {
  if (members.block_bytes == 0 || members.block_bytes > kBlockBytesMax) {
    return DataLossError("block_bytes: got " +
                         std::to_string(members.block_bytes) + ", want 1 to " +
                         std::to_string(kBlockBytesMax));
  }
  std::vector<ValueDigest>& values = members.values;
  for (NumberedCrcs& row : members.blocks) {
    if (row.number >= values.size()) return WrongCount("blocks", row, 0);
    ValueDigest& value = values[row.number];
    const uint64_t whole = value.byte_count / members.block_bytes;
    const uint64_t want = whole + (value.byte_count % members.block_bytes != 0);
    if (row.crcs.size() != want) return WrongCount("blocks", row, want);
    value.block_crcs = std::move(row.crcs);
  }
  for (const NumberedCrcs& row : members.tails) {
    const uint64_t want = row.number < values.size() &&
                          values[row.number].byte_count >= kCrcBytes;
    if (want != 1 || row.crcs.size() != 1)
      return WrongCount("tails", row, want);
    values[row.number].tail = row.crcs[0];
  }
  // A node's last four bytes are its CRC.
  for (const ValueDigest& node : members.nodes) {
    if (node.byte_count < kCrcBytes) {
      return DataLossError("nodes: got " + std::to_string(node.byte_count) +
                           " bytes, want 4 or more");
    }
  }
  digests.sources = std::move(members.sources);
  digests.files = std::move(members.files);
  digests.values = std::move(values);
  std::move(members.nodes.begin(), members.nodes.end(),
            std::back_inserter(digests.values));
  std::move(members.others.begin(), members.others.end(),
            std::back_inserter(digests.values));
  digests.block_bytes = members.block_bytes;
  digests.floats = members.floats;
  return Status();
}

bool HasRows(RowKind kind, const std::vector<ValueDigest>& values) {
  return std::any_of(values.begin(), values.end(),
                     [&](const ValueDigest& row) { return row.kind == kind; });
}

void AppendValueRows(std::string& out, std::string_view member, RowKind kind,
                     const std::vector<ValueDigest>& values) {
  out.append(",\"").append(member).append("\":[");
  const char* separator = "[";
  for (const ValueDigest& row : values) {
    if (row.kind != kind) continue;
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
}

void AppendSources(std::string& out, const std::vector<SourceFile>& sources) {
  const char* separator = ",\"sources\":[[";
  for (const SourceFile& row : sources) {
    out += separator;
    separator = ",[";
    AppendCompactJsonString(out, row.path);
    out += ',';
    AppendNumber(out, row.byte_count);
    out += ',';
    AppendNumber(out, static_cast<uint64_t>(row.modified_ns));
    out += ',';
    AppendCompactJsonString(out, row.from);
    out += ']';
  }
  if (!sources.empty()) out += ']';
}

void AppendFloats(std::string& out, const FloatArrays& floats) {
  out += ",\"floats\":[\"";
  AppendCrcHex(out, static_cast<uint32_t>(floats.hash >> 32));
  AppendCrcHex(out, static_cast<uint32_t>(floats.hash));
  out += "\",";
  AppendNumber(out, floats.array_count);
  out += ',';
  AppendNumber(out, floats.byte_count);
  out += ']';
}

// Writes a row for each value (not for nodes and others) for which `crcs_of`
// returns CRCs of this kind; writes nothing if no value has any.
template <typename CrcsOf>
void AppendNumberedCrcs(std::string& out, std::string_view member,
                        const std::vector<ValueDigest>& values,
                        const CrcsOf& crcs_of) {
  uint64_t number = 0;
  bool is_begun = false;
  for (const ValueDigest& row : values) {
    if (row.kind != RowKind::kValue) continue;
    const std::span<const uint32_t> crcs = crcs_of(row);
    const uint64_t this_number = number++;
    if (crcs.empty()) continue;
    if (!is_begun) out.append(",\"").append(member).append("\":");
    out += is_begun ? ",[" : "[[";
    is_begun = true;
    AppendNumber(out, this_number);
    out += ",\"";
    for (const uint32_t crc : crcs) AppendCrcHex(out, crc);
    out += "\"]";
  }
  if (is_begun) out += ']';
}

}  // namespace

FloatArrays& FloatArrays::operator+=(const FloatArrays& other) {
  hash += other.hash;
  array_count += other.array_count;
  byte_count += other.byte_count;
  return *this;
}

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
  out += ']';
  AppendValueRows(out, "values", RowKind::kValue, digests.values);
  if (HasRows(RowKind::kNode, digests.values)) {
    AppendValueRows(out, "nodes", RowKind::kNode, digests.values);
  }
  if (HasRows(RowKind::kOther, digests.values)) {
    AppendValueRows(out, "others", RowKind::kOther, digests.values);
  }
  const bool has_blocks = std::any_of(
      digests.values.begin(), digests.values.end(),
      [](const ValueDigest& row) { return !row.block_crcs.empty(); });
  if (has_blocks) {
    out += ",\"block_bytes\":";
    AppendNumber(out, digests.block_bytes);
  }
  AppendNumberedCrcs(out, "blocks", digests.values, [](const ValueDigest& row) {
    return std::span<const uint32_t>(row.block_crcs);
  });
  AppendNumberedCrcs(out, "tails", digests.values, [](const ValueDigest& row) {
    return row.tail ? std::span<const uint32_t>(&*row.tail, 1)
                    : std::span<const uint32_t>();
  });
  AppendSources(out, digests.sources);
  if (digests.floats) AppendFloats(out, *digests.floats);
  // The trailer covers everything before it, so that a damaged list cannot
  // vouch for damaged files.
  const uint32_t crc = Crc32c(out);
  out += kTrailerStart;
  AppendCrcHex(out, crc);
  out += kTrailerEnd;
  return out;
}

Result<DigestFile> ParseDigestFile(std::string_view text) {
  Status status = CheckTrailer(text);
  DigestFile digests;
  DigestMembers members;
  JsonScanner in(text);
  if (status.ok()) status = ReadMembers(in, members);
  if (status.ok()) status = JoinMembers(std::move(members), digests);
  if (!status.ok()) return status.WithContext(kDigestFile);
  return digests;
}

}  // namespace holdfast
