#include "foreign/chain/delta_info.h"

#include "engine/restore/leaf_request.h"
#include "engine/save/chunk_shapes.h"
#include "ground/base/coding.h"
#include "ground/base/sha256.h"
#include "ground/base/status_macros.h"
#include "ground/base/text.h"

namespace holdfast {
namespace {

using DeltaJson = nlohmann::ordered_json;

constexpr int kDeltaVersion = 1;
constexpr size_t kHashDigits = 16;
constexpr int64_t kElementCountMax = int64_t{1} << 58;

std::string HashText(uint64_t hash) {
  std::string bytes(sizeof hash, '\0');
  for (size_t i = 0; i < sizeof hash; ++i) {
    bytes[i] = static_cast<char>(hash >> 8 * (sizeof hash - 1 - i));
  }
  return ToHex(bytes);
}

std::optional<uint64_t> HashOfText(const std::string& text) {
  if (text.size() != kHashDigits) return std::nullopt;
  const std::optional<std::string> bytes = BytesOfHex(text);
  if (!bytes) return std::nullopt;
  uint64_t hash = 0;
  for (const char byte : *bytes) hash = hash << 8 | static_cast<uint8_t>(byte);
  return hash;
}

Status BadDelta(const std::string& why) {
  return DataLossError("the description of a delta: " + why);
}

Result<std::string> TextOf(const DeltaJson& from, const char* name) {
  const auto at = from.find(name);
  if (at == from.end() || !at->is_string()) {
    return BadDelta(std::string(name) + " is not a string");
  }
  return at->get<std::string>();
}

Result<uint64_t> NumberOf(const DeltaJson& from, const char* name,
                          uint64_t max) {
  const auto at = from.find(name);
  if (at == from.end() || !at->is_number_integer() || at->get<int64_t>() < 1 ||
      at->get<uint64_t>() > max) {
    return BadDelta(std::string(name) + " is not a number from 1 to " +
                    std::to_string(max));
  }
  return at->get<uint64_t>();
}

Status TakeArrays(const DeltaJson& document, DeltaInfo& info) {
  size_t array_count = 0;
  for (const SidecarLeaf& leaf : info.tree.leaves) {
    if (leaf.stored.empty()) continue;
    if (leaf.kind != ValueKind::kArray) {
      return BadDelta("a stored leaf is not an array");
    }
    // With this limit, byte counts do not overflow for any dtype.
    if (ElementCount(leaf.shape) > kElementCountMax) {
      return BadDelta("an array of " + ShapeToString(leaf.shape) + " elements");
    }
    ++array_count;
  }
  HF_ASSIGN_OR_RETURN(const std::string states, TextOf(document, "states"));
  const auto hashes = document.find("hashes");
  if (hashes == document.end() || !hashes->is_array() ||
      hashes->size() != array_count || states.size() != array_count) {
    return BadDelta("it does not have a state and a hash for each of " +
                    std::to_string(array_count) + " arrays");
  }
  for (size_t i = 0; i < array_count; ++i) {
    const DeltaJson& text = (*hashes)[i];
    const auto hash = text.is_string() ? HashOfText(text.get<std::string>())
                                       : std::optional<uint64_t>();
    if (!hash) return BadDelta("a hash is not of 16 hex digits");
    info.hashes.push_back(*hash);
    const auto state = static_cast<ArrayState>(states[i]);
    if (state != ArrayState::kSame && state != ArrayState::kChanged &&
        state != ArrayState::kNew) {
      return BadDelta("the state of an array is unknown (want c, n or s)");
    }
    info.states.push_back(state);
  }
  return Status();
}

}  // namespace

DeltaJson DeltaInfoToJson(const DeltaInfo& info) {
  DeltaJson hashes = DeltaJson::array();
  for (const uint64_t hash : info.hashes) hashes.push_back(HashText(hash));
  std::string states;
  for (const ArrayState state : info.states) {
    states.push_back(static_cast<char>(state));
  }
  DeltaJson document = {{"version", kDeltaVersion},
                        {"base", BaseRecordToJson(info.base)},
                        {"order", info.order},
                        {"id", info.id},
                        {"chunk_bytes", info.chunk_bytes},
                        {"states", states},
                        {"hashes", std::move(hashes)},
                        {"tree", SidecarText(info.tree)}};
  if (!info.item.empty()) document["item"] = info.item;
  return document;
}

Result<DeltaInfo> ParseDeltaInfo(const DeltaJson& document) {
  if (!document.is_object()) return BadDelta("it is not a JSON object");
  const auto version = document.find("version");
  if (version == document.end() || *version != kDeltaVersion) {
    return BadDelta("its version is not 1, the only known one");
  }
  const auto base = document.find("base");
  if (base == document.end()) return BadDelta("it has no base");
  DeltaInfo info;
  HF_ASSIGN_OR_RETURN(info.base, ParseBaseRecord(*base));
  if (document.contains("item")) {
    HF_ASSIGN_OR_RETURN(info.item, TextOf(document, "item"));
  }
  HF_ASSIGN_OR_RETURN(info.id, TextOf(document, "id"));
  HF_ASSIGN_OR_RETURN(info.order, NumberOf(document, "order", kChainLengthMax));
  HF_ASSIGN_OR_RETURN(info.chunk_bytes,
                      NumberOf(document, "chunk_bytes", kDeltaChunkBytesMax));
  HF_ASSIGN_OR_RETURN(const std::string tree, TextOf(document, "tree"));
  HF_ASSIGN_OR_RETURN(info.tree, ParseSidecar(tree));
  HF_RETURN_IF_ERROR(TakeArrays(document, info));
  if (DeltaResultId(info) != info.id) {
    return BadDelta("its id is not that of its arrays");
  }
  return info;
}

std::string DeltaResultId(const DeltaInfo& info) {
  Sha256 hash;
  size_t array = 0;
  for (const SidecarLeaf& leaf : info.tree.leaves) {
    std::string line(ValueKindName(leaf.kind));
    for (const std::string& key : leaf.key) line += '\0' + key;
    if (leaf.dtype) {
      line += '\1';
      line += DTypeName(*leaf.dtype);
      line += ShapeToString(leaf.shape);
    }
    line += '\2';
    line += leaf.stored.empty() ? leaf.text : HashText(info.hashes[array++]);
    hash.Update(std::to_string(line.size()) + ":" + line);
  }
  return hash.HexDigest();
}

Shape DeltaChunkShape(const Shape& shape, DType dtype, uint64_t chunk_bytes) {
  return ChooseRowChunks(shape, dtype, static_cast<int64_t>(chunk_bytes));
}

}  // namespace holdfast
