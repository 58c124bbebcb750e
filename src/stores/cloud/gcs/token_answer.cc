// Parses the answers of token endpoints.
#include "ground/base/status_macros.h"
#include "ground/json/members.h"
#include "stores/cloud/gcs/token_source.h"
#include "stores/http/http_date.h"

namespace holdfast {
namespace {

using TokenJson = nlohmann::json;

constexpr uint64_t kTokenSecondsMax = 7 * 24 * 3600;
constexpr size_t kTokenBytesMax = 16 << 10;

// A token becomes part of a header, so it must not contain a line end.
bool IsHeaderText(std::string_view text) {
  for (const char c : text) {
    if (c <= 0x20 || c == 0x7f) return false;
  }
  return !text.empty() && text.size() <= kTokenBytesMax;
}

Result<std::string> TokenMember(const TokenJson& json, const char* name) {
  const auto found = json.find(name);
  if (found == json.end() || !found->is_string() ||
      !IsHeaderText(found->get_ref<const std::string&>())) {
    return DataLossError(std::string("the answer has no usable ") + name);
  }
  return found->get<std::string>();
}

}  // namespace

Result<GcsToken> ParseTokenAnswer(std::string_view text, int64_t now_ns) {
  HF_ASSIGN_OR_RETURN(const TokenJson json, ParseJsonObject(text));
  GcsToken token;
  HF_ASSIGN_OR_RETURN(token.text, TokenMember(json, "access_token"));
  const uint64_t seconds = std::min(
      NumberMember(json, "expires_in").value_or(3600), kTokenSecondsMax);
  token.expires_ns = now_ns + static_cast<int64_t>(seconds) * 1'000'000'000;
  return token;
}

Result<GcsToken> ParseImpersonationAnswer(std::string_view text) {
  HF_ASSIGN_OR_RETURN(const TokenJson json, ParseJsonObject(text));
  GcsToken token;
  HF_ASSIGN_OR_RETURN(token.text, TokenMember(json, "accessToken"));
  const auto expires = json.find("expireTime");
  if (expires == json.end() || !expires->is_string()) {
    return DataLossError("the answer has no expireTime");
  }
  const auto ns = ParseIsoTime(expires->get_ref<const std::string&>());
  if (!ns) return DataLossError("expireTime is not a time");
  token.expires_ns = *ns;
  return token;
}

Result<std::string> ParseSubjectToken(std::string_view text,
                                      const std::string& json_field) {
  if (!json_field.empty()) {
    HF_ASSIGN_OR_RETURN(const TokenJson json, ParseJsonObject(text));
    return TokenMember(json, json_field.c_str());
  }
  while (!text.empty() &&
         (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) {
    text.remove_suffix(1);
  }
  if (!IsHeaderText(text)) return DataLossError("it holds no token");
  return std::string(text);
}

}  // namespace holdfast
