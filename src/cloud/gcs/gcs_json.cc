#include "cloud/gcs/gcs_json.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "base/status_macros.h"
#include "http/http_date.h"

namespace holdfast {
namespace {

using Json = nlohmann::json;

Result<Json> ParseJsonObject(std::string_view text) {
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    return DataLossError("the answer is no JSON object");
  }
  return json;
}

// Returns "" where there is no such member or it is no string.
std::string StringMember(const Json& json, const char* name) {
  const auto found = json.find(name);
  if (found == json.end() || !found->is_string()) return "";
  return found->get<std::string>();
}

// Google writes 64-bit numbers as strings; some emulators do not.
std::optional<uint64_t> NumberMember(const Json& json, const char* name) {
  const auto found = json.find(name);
  if (found == json.end()) return std::nullopt;
  if (found->is_number_unsigned()) return found->get<uint64_t>();
  if (!found->is_string()) return std::nullopt;
  return ParseDecimal(found->get_ref<const std::string&>());
}

Result<GcsObject> ObjectOf(const Json& json) {
  if (!json.is_object()) return DataLossError("an object is no JSON object");
  GcsObject object;
  object.entry.key = StringMember(json, "name");
  const auto size = NumberMember(json, "size");
  const auto generation = NumberMember(json, "generation");
  if (object.entry.key.empty() || !size || !generation) {
    return DataLossError("an object has no name, size or generation");
  }
  object.entry.byte_count = *size;
  object.entry.version = std::to_string(*generation);
  object.entry.modified_ns =
      ParseRfc3339Ns(StringMember(json, "updated")).value_or(0);
  object.crc32c = StringMember(json, "crc32c");
  const auto metadata = json.find("metadata");
  if (metadata != json.end() && metadata->is_object()) {
    object.write_id =
        StringMember(*metadata, std::string(kGcsWriteIdKey).c_str());
  }
  return object;
}

Status CheckOrder(const ListPage& page) {
  const auto later = [](const ObjectEntry& a, const ObjectEntry& b) {
    return a.key >= b.key;
  };
  // Bucket promises this order, and readers search by it.
  if (std::adjacent_find(page.objects.begin(), page.objects.end(), later) !=
      page.objects.end()) {
    return DataLossError("the objects of a list are not in order");
  }
  return Status();
}

// Reads `digit_count` digits at `at`.
std::optional<int> DigitsAt(std::string_view text, size_t at,
                            size_t digit_count) {
  if (at + digit_count > text.size()) return std::nullopt;
  const auto value = ParseDecimal(text.substr(at, digit_count));
  if (!value) return std::nullopt;
  return static_cast<int>(*value);
}

// Reads ".123456" at the front of `text`, and removes it.
int64_t TakeFractionNs(std::string_view& text) {
  if (text.empty() || text.front() != '.') return 0;
  text.remove_prefix(1);
  int64_t ns = 0;
  int64_t unit = 100'000'000;
  while (!text.empty() && text.front() >= '0' && text.front() <= '9') {
    ns += unit * (text.front() - '0');
    unit /= 10;
    text.remove_prefix(1);
  }
  return ns;
}

// Reads "Z" or "+01:30" as seconds to subtract.
std::optional<int64_t> ZoneSeconds(std::string_view zone) {
  if (zone == "Z" || zone == "z") return 0;
  if (zone.size() != 6 || zone[3] != ':') return std::nullopt;
  if (zone[0] != '+' && zone[0] != '-') return std::nullopt;
  const auto hours = DigitsAt(zone, 1, 2);
  const auto minutes = DigitsAt(zone, 4, 2);
  if (!hours || !minutes || *hours > 23 || *minutes > 59) return std::nullopt;
  const int64_t seconds = *hours * 3600 + *minutes * 60;
  return zone[0] == '+' ? seconds : -seconds;
}

bool IsTokenCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.' ||
         c == '~' || c == '+' || c == '/';
}

void HideTokens(std::string& text, std::string_view mark) {
  size_t at = 0;
  while ((at = text.find(mark, at)) != std::string::npos) {
    size_t end = at + mark.size();
    while (end < text.size() && IsTokenCharacter(text[end])) ++end;
    text.replace(at, end - at, "(hidden)");
    at += 8;
  }
}

}  // namespace

std::optional<uint64_t> ParseDecimal(std::string_view text) {
  uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || error != std::errc() || at != end) return std::nullopt;
  return value;
}

std::optional<int64_t> ParseRfc3339Ns(std::string_view text) {
  const auto year = DigitsAt(text, 0, 4);
  const auto month = DigitsAt(text, 5, 2);
  const auto day = DigitsAt(text, 8, 2);
  const auto hour = DigitsAt(text, 11, 2);
  const auto minute = DigitsAt(text, 14, 2);
  const auto second = DigitsAt(text, 17, 2);
  if (!year || !month || !day || !hour || !minute || !second) {
    return std::nullopt;
  }
  if (text[4] != '-' || text[7] != '-' ||
      (text[10] != 'T' && text[10] != 't') || text[13] != ':' ||
      text[16] != ':' || *year < 1970 || *year > 2200 || *month < 1 ||
      *month > 12 || *day < 1 || *day > 31 || *hour > 23 || *minute > 59 ||
      *second > 60) {
    return std::nullopt;
  }
  std::string_view rest = text.substr(19);
  const int64_t fraction_ns = TakeFractionNs(rest);
  const auto zone = ZoneSeconds(rest);
  if (!zone) return std::nullopt;
  const int64_t seconds = DaysSince1970(*year, *month, *day) * 86400 +
                          *hour * 3600 + *minute * 60 + *second - *zone;
  return seconds * 1'000'000'000 + fraction_ns;
}

Result<GcsObject> ParseGcsObject(std::string_view json) {
  HF_ASSIGN_OR_RETURN(const Json object, ParseJsonObject(json));
  return ObjectOf(object);
}

Result<ListPage> ParseGcsListPage(std::string_view json) {
  HF_ASSIGN_OR_RETURN(const Json answer, ParseJsonObject(json));
  ListPage page;
  const auto items = answer.find("items");
  if (items != answer.end()) {
    if (!items->is_array()) return DataLossError("items are no list");
    page.objects.reserve(items->size());
    for (const Json& item : *items) {
      HF_ASSIGN_OR_RETURN(GcsObject object, ObjectOf(item));
      page.objects.push_back(std::move(object.entry));
    }
  }
  const auto prefixes = answer.find("prefixes");
  if (prefixes != answer.end()) {
    if (!prefixes->is_array()) return DataLossError("prefixes are no list");
    for (const Json& prefix : *prefixes) {
      if (!prefix.is_string()) return DataLossError("a prefix is no string");
      page.prefixes.push_back(prefix.get<std::string>());
    }
    std::sort(page.prefixes.begin(), page.prefixes.end());
  }
  page.next_page_token = StringMember(answer, "nextPageToken");
  HF_RETURN_IF_ERROR(CheckOrder(page));
  return page;
}

Result<GcsRewrite> ParseGcsRewrite(std::string_view json) {
  HF_ASSIGN_OR_RETURN(const Json answer, ParseJsonObject(json));
  GcsRewrite rewrite;
  const auto done = answer.find("done");
  rewrite.is_done =
      done != answer.end() && done->is_boolean() && done->get<bool>();
  if (rewrite.is_done) {
    const auto resource = answer.find("resource");
    if (resource == answer.end()) return DataLossError("no resource");
    HF_ASSIGN_OR_RETURN(rewrite.object, ObjectOf(*resource));
    return rewrite;
  }
  rewrite.token = StringMember(answer, "rewriteToken");
  if (rewrite.token.empty()) {
    return DataLossError("a copy that is not done has no rewriteToken");
  }
  return rewrite;
}

std::string ParseGcsLocation(std::string_view text) {
  const auto answer = ParseJsonObject(text);
  if (!answer.ok()) return "";
  std::string location = CleanServerText(StringMember(*answer, "location"), 80);
  for (char& c : location) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return location;
}

GcsRefusal ParseGcsRefusal(std::string_view body) {
  GcsRefusal refusal;
  constexpr size_t kMessageBytesMax = 400;
  const Json json = Json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    refusal.message = CleanServerText(body, kMessageBytesMax);
    return refusal;
  }
  const auto error = json.find("error");
  if (error == json.end()) return refusal;
  if (error->is_string()) {  // as OAuth's endpoints have it
    refusal.reason = CleanServerText(error->get<std::string>(), 80);
    refusal.message = CleanServerText(StringMember(json, "error_description"),
                                      kMessageBytesMax);
    return refusal;
  }
  if (!error->is_object()) return refusal;
  refusal.message =
      CleanServerText(StringMember(*error, "message"), kMessageBytesMax);
  const auto errors = error->find("errors");
  if (errors != error->end() && errors->is_array() && !errors->empty() &&
      errors->front().is_object()) {
    refusal.reason =
        CleanServerText(StringMember(errors->front(), "reason"), 80);
  }
  if (refusal.reason.empty()) {
    refusal.reason = CleanServerText(StringMember(*error, "status"), 80);
  }
  return refusal;
}

std::string CleanServerText(std::string_view text, size_t byte_count_max) {
  std::string clean(text.substr(0, byte_count_max));
  for (char& c : clean) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  HideTokens(clean, "ya29.");
  HideTokens(clean, "Bearer ");
  HideTokens(clean, "1//0");  // refresh tokens
  HideTokens(clean, "upload_id=");
  clean.resize(std::min(clean.size(), byte_count_max));
  return clean;
}

}  // namespace holdfast
