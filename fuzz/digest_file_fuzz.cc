// ParseDigestFile: a parsed sidecar has the same rows after writing and
// parsing. Its checksum is corrected, so that mutated rows are accepted.
#include "engine/format/digest_file.h"
#include "fuzz_util.h"

namespace holdfast {
namespace {

constexpr std::string_view kLastMember = ",\"crc32c\":\"";

std::string Repaired(std::string_view input) {
  const size_t end = input.rfind(kLastMember);
  if (end == std::string_view::npos) return std::string(input);
  const std::string_view covered = input.substr(0, end);
  char digits[9];
  std::snprintf(digits, sizeof digits, "%08x", Crc32c(covered));
  return std::string(covered) + std::string(kLastMember) + digits + "\"}";
}

void Check(std::string_view input) {
  const auto digests = ParseDigestFile(input);
  if (!digests.ok()) return;
  const std::string text = SerializeDigestFile(*digests);
  const auto again = ParseDigestFile(text);
  FUZZ_CHECK_OK(again);
  FUZZ_CHECK(again->files == digests->files);
  FUZZ_CHECK(again->values == digests->values);
}

}  // namespace
}  // namespace holdfast

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input = holdfast::FuzzText(data, size);
  holdfast::Check(input);
  holdfast::Check(holdfast::Repaired(input));
  return 0;
}
