#include "stores/http/redirect.h"

#include <algorithm>
#include <array>

#include "stores/http/url.h"

namespace holdfast {
namespace {

bool IsRedirectStatus(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 ||
         status == 308;
}

bool SaysWhatIsWanted(const std::pair<std::string, std::string>& header) {
  constexpr std::array<std::string_view, 6> kNames = {
      "Accept",        "Accept-Encoding", "If-Match",
      "If-None-Match", "If-Range",        "Range"};
  return std::any_of(kNames.begin(), kNames.end(), [&](std::string_view name) {
    return FindHeader({header}, name).has_value();
  });
}

}  // namespace

bool FollowsRedirect(HttpRequest& request, const HttpResponse& response) {
  // A signed request cannot be redirected: its signature names the host.
  if (!IsRedirectStatus(response.status) || request.prepare ||
      (request.method != "GET" && request.method != "HEAD")) {
    return false;
  }
  const auto location = FindHeader(response.headers, "Location");
  const Result<Url> from = ParseUrl(request.url);
  if (!location || !from.ok()) return false;
  Result<std::string> target = ResolveUrl(request.url, *location);
  if (!target.ok()) return false;
  const Result<Url> to = ParseUrl(*target);
  if (!to.ok() || (to->scheme != "https" && to->scheme != "http") ||
      (from->scheme == "https" && to->scheme == "http")) {
    return false;
  }
  // Another server gets no credentials, only the headers that describe the
  // wanted content.
  if (OriginOf(*from) != OriginOf(*to)) {
    std::erase_if(request.headers,
                  [](const auto& header) { return !SaysWhatIsWanted(header); });
  }
  request.url = *std::move(target);
  return true;
}

}  // namespace holdfast
