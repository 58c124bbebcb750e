// Responses of S3 and STS: whatever parses keeps what the headers promise, and
// no result contains more than the server sent.
#include <algorithm>

#include "fuzz_util.h"
#include "stores/cloud/s3/s3_xml.h"
#include "stores/http/http_date.h"

namespace {

using namespace holdfast;

void CheckListPage(std::string_view xml) {
  const auto page = ParseListPage(xml);
  if (!page.ok()) {
    FUZZ_CHECK(page.status().code() == StatusCode::kDataLoss);
    return;
  }
  size_t key_bytes = 0;
  for (const ObjectEntry& entry : page->objects) {
    FUZZ_CHECK(!entry.key.empty());
    FUZZ_CHECK(entry.version.find_first_of("\r\n ") == std::string::npos);
    key_bytes += entry.key.size();
  }
  FUZZ_CHECK(key_bytes <= xml.size());
  FUZZ_CHECK(std::is_sorted(
      page->objects.begin(), page->objects.end(),
      [](const auto& a, const auto& b) { return a.key < b.key; }));
  FUZZ_CHECK(std::is_sorted(page->prefixes.begin(), page->prefixes.end()));
}

void CheckParts(std::string_view xml) {
  const auto page = ParsePartsPage(xml);
  if (!page.ok()) return;
  for (const auto& [number, etag] : page->parts) {
    FUZZ_CHECK(number >= 1 && number <= 10'000);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view xml = FuzzText(data, size);
  CheckListPage(xml);
  CheckParts(xml);
  const S3Error error = ParseS3Error(xml);
  FUZZ_CHECK(error.code.size() + error.message.size() <= xml.size());
  (void)IsErrorDocument(xml);
  (void)ParseUploadId(xml);
  (void)ParseResultETag(xml);
  (void)ParseDeleteResult(xml);
  (void)ParseUploadsPage(xml);
  (void)ParseStsKeys(xml);
  (void)ParseIsoTime(xml);
  // Text that XML allows is read back as it was written.
  const std::string key(xml);
  if (!key.empty() && CanBeInXml(key)) {
    std::string sent = DeleteXml({&key, 1});
    const std::string text =
        "<DeleteResult><Error><Key>" +
        sent.substr(sent.find("<Key>") + 5,
                    sent.rfind("</Key>") - sent.find("<Key>") - 5) +
        "</Key></Error></DeleteResult>";
    const auto back = ParseDeleteResult(text);
    FUZZ_CHECK_OK(back);
    FUZZ_CHECK(back->size() == 1 && (*back)[0].key == key);
  }
  return 0;
}
