#include "engine/format/own_documents.h"

#include <algorithm>
#include <array>

#include "ground/json/text.h"
#include "holdfast/pending_save.h"

namespace holdfast {
namespace {

constexpr std::array<std::string_view, 6> kOwnKeys = {
    kDeltaKey, kResultIdKey, kSidecarKey, kTuplesKey, kRescueKey, kTierKey};

// Returns the object that the text contains; null for any other text.
nlohmann::ordered_json ObjectOfText(const std::string& text) {
  if (text.empty()) return nullptr;
  auto object = ParseJsonText(text);
  if (!object.ok() || !object->is_object()) return nullptr;
  return *std::move(object);
}

}  // namespace

bool IsOwnDocument(std::string_view name) {
  return std::ranges::find(kOwnKeys, name) != kOwnKeys.end();
}

nlohmann::ordered_json TakeOwnDocuments(nlohmann::ordered_json& metadata) {
  nlohmann::ordered_json taken;
  if (!metadata.is_object()) return taken;
  for (const std::string_view key : kOwnKeys) {
    const auto found = metadata.find(key);
    if (found == metadata.end()) continue;
    taken[std::string(key)] = std::move(*found);
    metadata.erase(found);
  }
  return taken;
}

SplitMetadata SplitOwnDocuments(const std::string& metadata) {
  nlohmann::ordered_json users = ObjectOfText(metadata);
  const nlohmann::ordered_json documents = TakeOwnDocuments(users);
  if (documents.is_null()) return {metadata, ""};
  return {PythonJsonText(users), PythonJsonText(documents)};
}

std::string WithTreeDocuments(const std::string& users,
                              const std::string& documents) {
  const nlohmann::ordered_json ours = ObjectOfText(documents);
  if (!ours.contains(kTuplesKey)) return users;
  nlohmann::ordered_json all = ObjectOfText(users);
  all[std::string(kTuplesKey)] = ours[std::string(kTuplesKey)];
  return PythonJsonText(all);
}

bool HasTreeDocuments(const std::string& documents) {
  return ObjectOfText(documents).contains(kTuplesKey);
}

}  // namespace holdfast
