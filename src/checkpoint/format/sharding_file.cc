#include "checkpoint/format/sharding_file.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "checkpoint/format/directory_names.h"
#include "checkpoint/format/json_scanner.h"
#include "checkpoint/format/json_text.h"

namespace holdfast {
namespace {

constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

Status ReadShardings(JsonScanner& in, ShardingFile& shardings) {
  HF_RETURN_IF_ERROR(in.ReadObject([&](std::string_view key) {
    std::optional<std::string> name = UrlSafeBase64Decode(key);
    if (!name) return in.Error("member name is not URL-safe base64");
    const auto [entry, is_new] = shardings.emplace(*std::move(name), "");
    if (!is_new) return in.Error("member is given twice");
    return in.ReadString(entry->second);
  }));
  return in.ReadEnd();
}

}  // namespace

std::string UrlSafeBase64Encode(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    uint32_t group = 0;
    for (size_t j = 0; j < 3; ++j) {
      group = group << 8 | (j < count ? static_cast<uint8_t>(bytes[i + j]) : 0);
    }
    for (size_t j = 0; j < 4; ++j) {
      text += j <= count ? kAlphabet[group >> (18 - 6 * j) & 0x3F] : '=';
    }
  }
  return text;
}

std::optional<std::string> UrlSafeBase64Decode(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  std::string_view digits = text;
  while (text.size() - digits.size() < 2 && digits.ends_with('=')) {
    digits.remove_suffix(1);
  }
  std::string bytes;
  uint32_t group = 0;
  int bit_count = 0;
  for (char c : digits) {
    const size_t value = kAlphabet.find(c);
    if (value == kAlphabet.npos) return std::nullopt;
    group = group << 6 | static_cast<uint32_t>(value);
    bit_count += 6;
    if (bit_count < 8) continue;
    bit_count -= 8;
    bytes += static_cast<char>(group >> bit_count & 0xFF);
  }
  // Spare bits must be zero, or two texts would mean one name.
  if (UrlSafeBase64Encode(bytes) != text) return std::nullopt;
  return bytes;
}

std::string SerializeShardingFile(const ShardingFile& shardings) {
  std::vector<std::pair<std::string, const std::string*>> members;
  members.reserve(shardings.size());
  for (const auto& [name, json] : shardings) {
    members.emplace_back(UrlSafeBase64Encode(name), &json);
  }
  std::sort(members.begin(), members.end());
  std::string out = "{";
  for (const auto& [key, json] : members) {
    if (out.size() > 1) out += ',';
    out += '"' + key + "\":";
    AppendCompactJsonString(out, *json);
  }
  out += '}';
  return out;
}

Result<ShardingFile> ParseShardingFile(std::string_view text) {
  JsonScanner in(text);
  ShardingFile shardings;
  const Status status = ReadShardings(in, shardings);
  if (!status.ok()) return status.WithContext(kShardingFile);
  return shardings;
}

}  // namespace holdfast
