// URLs and header values: those that parse are split without loss, secrets are
// not shown, and dates agree with the C library.
#include <ctime>

#include "fuzz_util.h"
#include "stores/http/http_date.h"
#include "stores/http/retry.h"
#include "stores/http/url.h"

namespace holdfast {
namespace {

void CheckUrl(const std::string& text) {
  const std::string shown = RedactUrl(text);
  FUZZ_CHECK(shown.find_first_of("?#") == std::string::npos);
  const auto url = ParseUrl(text);
  if (!url.ok()) return;
  const std::string port = url->port ? ":" + std::to_string(url->port) : "";
  const std::string query = url->query.empty() ? "" : "?" + url->query;
  const auto again =
      ParseUrl(url->scheme + "://" + url->host + port + url->path + query);
  FUZZ_CHECK_OK(again);
  FUZZ_CHECK(again->scheme == url->scheme && again->host == url->host &&
             again->port == url->port && again->path == url->path &&
             again->query == url->query);
  FUZZ_CHECK(ParseUrl(OriginOf(*url)).ok());
}

void CheckSecret(const std::string& text) {
  if (text.find('/') != std::string::npos ||
      text.find("hid&den") != std::string::npos) {
    return;
  }
  const std::string url = "https://u:" + text + "hid&den@host/x";
  FUZZ_CHECK(RedactUrl(url).find("hid&den") == std::string::npos);
  FUZZ_CHECK(text.find('?') != std::string::npos || !ParseUrl(url).ok());
  FUZZ_CHECK(ParseUrl(url).status().message().find("hid&den") ==
             std::string_view::npos);
}

void CheckHeaders(const std::string& text) {
  const auto delay = ParseRetryAfter(text, 784111777);
  FUZZ_CHECK(!delay ||
             (delay->count() >= 0 && delay->count() <= 1'000'000'000));
  const auto seconds = ParseHttpDate(text);
  if (!seconds) return;
  const time_t time = *seconds;
  tm parts = {};
  FUZZ_CHECK(gmtime_r(&time, &parts) != nullptr);
  char again[64];
  strftime(again, sizeof(again), "%d %b %Y %H:%M:%S GMT", &parts);
  const bool is_leap_second = text.substr(23, 2) == "60";
  FUZZ_CHECK(is_leap_second || text.substr(5) == again);
}

}  // namespace
}  // namespace holdfast

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace holdfast;
  const std::string text(FuzzText(data, size));
  CheckUrl(text);
  CheckSecret(text);
  CheckHeaders(text);
  const auto resolved = ResolveUrl("https://host:1/a/b?q", text);
  if (resolved.ok()) FUZZ_CHECK(ParseUrl(*resolved).ok());
  return 0;
}
