#include "stores/cloud/gcs/gcs_json.h"

#include <algorithm>

#include "ground/base/status_macros.h"
#include "ground/base/text.h"
#include "ground/json/members.h"
#include "stores/http/http_date.h"

namespace holdfast {
namespace {

using Json = nlohmann::json;

Result<GcsObject> ObjectOf(const Json& json) {
  if (!json.is_object()) {
    return DataLossError("the listing has an entry that is not a JSON object");
  }
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
      ParseIsoTime(StringMember(json, "updated")).value_or(0);
  object.crc32c = StringMember(json, "crc32c");
  const auto metadata = json.find("metadata");
  if (metadata != json.end() && metadata->is_object()) {
    object.write_id = StringMember(*metadata, kGcsWriteIdKey);
  }
  return object;
}

Status CheckOrder(const ListPage& page) {
  const auto later = [](const ObjectEntry& a, const ObjectEntry& b) {
    return a.key >= b.key;
  };
  // Bucket guarantees that a page is in the order of its keys, and readers
  // search it by key.
  if (std::adjacent_find(page.objects.begin(), page.objects.end(), later) !=
      page.objects.end()) {
    return DataLossError("the objects of a list are not in order");
  }
  return Status();
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

Result<GcsObject> ParseGcsObject(std::string_view json) {
  HF_ASSIGN_OR_RETURN(const Json object, ParseJsonObject(json));
  return ObjectOf(object);
}

Result<ListPage> ParseGcsListPage(std::string_view json) {
  HF_ASSIGN_OR_RETURN(const Json answer, ParseJsonObject(json));
  ListPage page;
  const auto items = answer.find("items");
  if (items != answer.end()) {
    if (!items->is_array()) return DataLossError("items is not a list");
    page.objects.reserve(items->size());
    for (const Json& item : *items) {
      HF_ASSIGN_OR_RETURN(GcsObject object, ObjectOf(item));
      page.objects.push_back(std::move(object.entry));
    }
  }
  const auto prefixes = answer.find("prefixes");
  if (prefixes != answer.end()) {
    if (!prefixes->is_array()) return DataLossError("prefixes is not a list");
    for (const Json& prefix : *prefixes) {
      if (!prefix.is_string()) return DataLossError("a prefix is not a string");
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
  const std::string location =
      CleanServerText(StringMember(*answer, "location"), 80);
  return LowerCase(location);
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
  if (error->is_string()) {  // as OAuth's endpoints write it
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
