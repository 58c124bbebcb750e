// The responses of Google Cloud Storage: pages, objects, copies, refusals,
// batches, times and tokens. Parsed responses keep the promises of the parsers'
// header.
#include <algorithm>

#include "fuzz_util.h"
#include "ground/base/text.h"
#include "stores/cloud/gcs/gcs_batch.h"
#include "stores/cloud/gcs/gcs_json.h"
#include "stores/cloud/gcs/token_source.h"
#include "stores/http/http_date.h"

namespace holdfast {
namespace {

void CheckPage(std::string_view input) {
  const auto page = ParseGcsListPage(input);
  if (!page.ok()) return;
  for (size_t i = 0; i < page->objects.size(); ++i) {
    const ObjectEntry& object = page->objects[i];
    FUZZ_CHECK(!object.key.empty());
    FUZZ_CHECK(ParseNumber<uint64_t>(object.version).has_value());
    FUZZ_CHECK(i == 0 || page->objects[i - 1].key < object.key);
  }
  FUZZ_CHECK(std::is_sorted(page->prefixes.begin(), page->prefixes.end()));
}

void CheckClean(std::string_view text) {
  FUZZ_CHECK(text.size() <= 400);
  for (const char c : text) FUZZ_CHECK(static_cast<unsigned char>(c) >= 0x20);
  FUZZ_CHECK(text.find("ya29.") == std::string_view::npos);
}

// Checks a batch. The input's first line is the content type, and the body may
// answer other requests than ours.
void CheckBatch(std::string_view input) {
  const size_t end = std::min(input.find('\n'), input.size());
  const std::string_view body = input.substr(std::min(end + 1, input.size()));
  const auto answers = ParseGcsBatch(input.substr(0, end), body, 2);
  if (!answers.ok()) return;
  FUZZ_CHECK(answers->size() == 2);
  for (const GcsBatchAnswer& answer : *answers) {
    FUZZ_CHECK(answer.status >= 100 && answer.status <= 599);
    FUZZ_CHECK(
        answer.body.empty() ||
        (answer.body.data() >= body.data() &&
         answer.body.data() + answer.body.size() <= body.data() + body.size()));
  }
}

void CheckToken(const Result<GcsToken>& token) {
  if (!token.ok()) return;
  FUZZ_CHECK(!token->text.empty());
  for (const char c : token->text) {
    FUZZ_CHECK(c != '\r' && c != '\n' && c != ' ');
  }
}

void CheckAll(std::string_view input) {
  CheckPage(input);
  const auto object = ParseGcsObject(input);
  FUZZ_CHECK(!object.ok() || !object->entry.key.empty());
  const auto rewrite = ParseGcsRewrite(input);
  FUZZ_CHECK(!rewrite.ok() || rewrite->is_done == rewrite->token.empty());
  const GcsRefusal refusal = ParseGcsRefusal(input);
  CheckClean(refusal.reason);
  CheckClean(refusal.message);
  (void)ParseIsoTime(input);
  CheckBatch(input);
  CheckToken(ParseTokenAnswer(input, 0));
  CheckToken(ParseImpersonationAnswer(input));
  (void)ParseSubjectToken(input, "id");
}

}  // namespace
}  // namespace holdfast

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  holdfast::CheckAll(holdfast::FuzzText(data, size));
  return 0;
}
