// The files that Amazon's tools share, and their commands: no text crashes the
// parsers, and what they return is no longer than the text.
#include "fuzz_util.h"
#include "stores/cloud/s3/aws_profile.h"
#include "stores/cloud/s3/credential_process.h"
#include "stores/cloud/s3/credential_sources.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace holdfast;
  const std::string_view text = FuzzText(data, size);
  const auto file = ParseIni(text, "f");
  if (file.ok()) {
    for (const auto& [name, section] : *file) {
      FUZZ_CHECK(name.size() <= size);
      for (const auto& [key, value] : section) {
        FUZZ_CHECK(!key.empty());
        FUZZ_CHECK(value.size() <= size);
        FUZZ_CHECK(value.find('\n') == std::string::npos);
      }
    }
  }
  const auto words = SplitCommand(text);
  if (words.ok()) {
    size_t char_count = 0;
    for (const std::string& word : *words) char_count += word.size();
    FUZZ_CHECK(!words->empty() && char_count <= size);
  }
  const auto keys = ParseJsonCredentials(text, "f");
  if (keys.ok()) FUZZ_CHECK(!keys->keys.secret_access_key.empty());
  return 0;
}
