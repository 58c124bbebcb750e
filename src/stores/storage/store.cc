#include "stores/storage/store.h"

#include <algorithm>
#include <string>

#include "ground/base/status_macros.h"
#include "ground/base/text.h"

namespace holdfast {
namespace {

constexpr size_t kPartBytesMax = 255;
constexpr size_t kQuotedBytesMax = 120;

// Returns a key in quotes for messages: control bytes are escaped, and long
// keys are cut.
std::string Quote(std::string_view key) {
  std::string quoted = "\"";
  for (unsigned char c : key.substr(0, kQuotedBytesMax)) {
    if (c < 0x20 || c == 0x7f) {
      quoted += "\\x" + HexNumber(c, 2);
    } else {
      quoted += static_cast<char>(c);
    }
  }
  return quoted + (key.size() > kQuotedBytesMax ? "…\"" : "\"");
}

// Returns what is wrong with one part of a key, or null.
const char* PartProblem(std::string_view part) {
  if (part.empty())
    return "has an empty part (a leading, trailing or double '/')";
  if (part == ".") return "has a part \".\"";
  if (part == "..") return "has a part \"..\"";
  if (part.size() > kPartBytesMax) return "has a part longer than 255 bytes";
  return nullptr;
}

const char* KeyProblem(std::string_view key) {
  if (key.empty()) return "is empty";
  if (key.find('\0') != std::string_view::npos) return "has a NUL byte";
  while (true) {
    const size_t slash = key.find('/');
    const char* problem = PartProblem(key.substr(0, slash));
    if (problem != nullptr || slash == std::string_view::npos) return problem;
    key.remove_prefix(slash + 1);
  }
}

}  // namespace

Status CheckKey(std::string_view key) {
  const char* problem = KeyProblem(key);
  if (problem == nullptr) return {};
  return InvalidArgumentError("key " + Quote(key) + " " + problem);
}

Result<ByteRange> ResolveRange(const ByteRange& range,
                               uint64_t object_byte_count,
                               std::string_view place) {
  const bool to_end = range.byte_count == kToEnd;
  if (range.offset <= object_byte_count) {
    const uint64_t available = object_byte_count - range.offset;
    if (to_end) return ByteRange{range.offset, available};
    if (range.byte_count <= available) return range;
  }
  std::string wanted =
      to_end ? "all bytes" : std::to_string(range.byte_count) + " bytes";
  return OutOfRangeError("read " + std::string(place) + ": " + wanted +
                         " from offset " + std::to_string(range.offset) +
                         " are past the end (the object has " +
                         std::to_string(object_byte_count) + " bytes)");
}

Status CheckWriteRange(uint64_t offset, uint64_t byte_count,
                       std::string_view place) {
  constexpr uint64_t kEndMax = std::numeric_limits<int64_t>::max();
  if (offset <= kEndMax && byte_count <= kEndMax - offset) return {};
  return InvalidArgumentError("write " + std::string(place) + ": " +
                              std::to_string(byte_count) + " bytes at offset " +
                              std::to_string(offset) +
                              " end past the largest offset");
}

uint64_t TotalBytes(std::span<const std::string_view> pieces) {
  uint64_t byte_count = 0;
  for (std::string_view piece : pieces) byte_count += piece.size();
  return byte_count;
}

Status Store::ReadBatch(std::span<const RangeRead> requests,
                        const CancelToken* cancel) {
  for (const RangeRead& request : requests) {
    if (cancel != nullptr) HF_RETURN_IF_ERROR(cancel->Check());
    HF_RETURN_IF_ERROR(ReadInto(request.key, request.offset, request.target));
  }
  return {};
}

Result<std::unique_ptr<ObjectWriter>> Store::CreateShared(
    std::string_view key, uint64_t /*byte_count*/) {
  return UnimplementedError("write " + Describe(key) +
                            ": only files can be written by several "
                            "processes at once");
}

Result<ObjectLocation> Store::Locate(std::string_view key) {
  HF_RETURN_IF_ERROR(CheckKey(key));
  return ObjectLocation{.store = this, .key = std::string(key)};
}

Status Store::Write(std::string_view key, std::string_view value,
                    const WriteOptions& options) {
  const std::string_view pieces[] = {value};
  return Write(key, std::span<const std::string_view>(pieces), options);
}

}  // namespace holdfast
