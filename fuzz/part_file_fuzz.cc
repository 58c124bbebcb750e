// ParsePartFile: a parsed part is still equal after writing and parsing. The
// checksums of the file and of its rows are corrected, so that mutated text is
// accepted.
#include <algorithm>

#include "engine/format/part_file.h"
#include "fuzz_util.h"
#include "ground/base/crc32c.h"

namespace holdfast {
namespace {

std::string WithChecksum(std::string body) {
  char digits[9];
  std::snprintf(digits, sizeof digits, "%08x", Crc32c(body));
  return body + digits;
}

// Corrects the second line's checksum, then the file's.
std::string Repaired(std::string_view input) {
  constexpr std::string_view kLastMember = ",\"crc32c\":\"";
  const std::string_view body =
      input.substr(0, input.size() - std::min<size_t>(input.size(), 8));
  const size_t line = body.find('\n');
  const size_t end = body.rfind(kLastMember);
  if (line == body.npos || end == body.npos || end < line) {
    return WithChecksum(std::string(body));
  }
  const std::string rows(body.substr(line + 1, end - line - 1));
  return WithChecksum(std::string(body.substr(0, end)) +
                      std::string(kLastMember) +
                      WithChecksum(rows).substr(rows.size()) + "\"}\n");
}

void Check(std::string_view input) {
  const auto part = ParsePartFile(input);
  if (!part.ok()) return;
  const auto again = ParsePartFile(SerializePartFile(*part));
  FUZZ_CHECK_OK(again);
  FUZZ_CHECK(again->rank == part->rank);
  FUZZ_CHECK(again->is_primary == part->is_primary);
  FUZZ_CHECK(again->save_id == part->save_id);
  FUZZ_CHECK(again->database == part->database);
  FUZZ_CHECK(again->manifest_checksum == part->manifest_checksum);
  FUZZ_CHECK(again->plan == part->plan);
  FUZZ_CHECK(again->digests.files == part->digests.files);
  FUZZ_CHECK(again->digests.values == part->digests.values);
}

}  // namespace
}  // namespace holdfast

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input = holdfast::FuzzText(data, size);
  holdfast::Check(input);
  holdfast::Check(holdfast::Repaired(input));
  return 0;
}
