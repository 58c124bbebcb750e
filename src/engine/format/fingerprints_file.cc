#include "engine/format/fingerprints_file.h"

#include <algorithm>

#include "engine/format/sidecar_text.h"
#include "ground/json/text.h"

namespace holdfast {
namespace {

constexpr uint64_t kFingerprintsVersion = 1;
constexpr size_t kFingerprintDigits = 32;

bool IsFingerprintText(std::string_view text) {
  return text.size() == kFingerprintDigits &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

}  // namespace

void AppendFingerprintTexts(std::string& out, const FingerprintTexts& texts) {
  out += '{';
  for (const auto& [name, text] : texts) {
    if (out.back() != '{') out += ',';
    AppendCompactJsonString(out, name);
    out += ":\"" + text + "\"";
  }
  out += '}';
}

Status ReadFingerprintTexts(JsonScanner& in, FingerprintTexts& texts) {
  return in.ReadObject([&](std::string_view name) -> Status {
    const auto [place, is_new] = texts.try_emplace(std::string(name));
    if (!is_new) return in.Error("member is given twice");
    HF_RETURN_IF_ERROR(in.ReadString(place->second));
    return IsFingerprintText(place->second) ? Status()
                                            : in.Error("want 32 hex digits");
  });
}

std::string SerializeFingerprintsFile(const FingerprintsFile& file) {
  std::string out =
      "{\"holdfast_fingerprints\":" + std::to_string(kFingerprintsVersion) +
      ",\"algorithm\":";
  AppendCompactJsonString(out, file.algorithm);
  out += ",\"tensors\":";
  AppendFingerprintTexts(out, file.tensors);
  return out + "}";
}

Result<FingerprintsFile> ParseFingerprintsFile(std::string_view text) {
  JsonScanner in(text);
  FingerprintsFile file;
  bool has_version = false;
  HF_RETURN_IF_ERROR(in.ReadObject([&](std::string_view key) {
    if (key == "holdfast_fingerprints") {
      has_version = true;
      return ReadSidecarVersion(in, kFingerprintsVersion);
    }
    if (key == "algorithm") return in.ReadString(file.algorithm);
    if (key == "tensors") return ReadFingerprintTexts(in, file.tensors);
    return in.SkipValue();
  }));
  HF_RETURN_IF_ERROR(in.ReadEnd());
  if (!has_version) return in.Error("want holdfast_fingerprints");
  return file;
}

}  // namespace holdfast
