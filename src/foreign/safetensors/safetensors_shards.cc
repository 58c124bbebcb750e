#include "foreign/safetensors/safetensors_shards.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "foreign/safetensors/safetensors.h"
#include "ground/base/status_macros.h"
#include "ground/json/unique.h"
#include "stores/place/directory_ops.h"

namespace holdfast {
namespace {

constexpr std::string_view kShardingInfo = "DCP_SHARDING_INFO";
constexpr std::string_view kShardPrefix = "shard-";

// Returns nullopt if this is not a list of offsets.
std::optional<Shape> OffsetsOf(const nlohmann::json& tensor) {
  if (!tensor.is_object()) return std::nullopt;
  const auto offsets = tensor.find("saved_offsets");
  if (offsets == tensor.end() || !offsets->is_array()) return std::nullopt;
  Shape origin;
  for (const nlohmann::json& offset : *offsets) {
    if (!offset.is_number_unsigned()) return std::nullopt;
    const auto value = offset.get<uint64_t>();
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return std::nullopt;
    }
    origin.push_back(static_cast<int64_t>(value));
  }
  return origin;
}

Result<ShardOrigins> ParseShardOrigins(std::string_view text) {
  HF_ASSIGN_OR_RETURN(const nlohmann::json document, ParseUniqueJson(text));
  ShardOrigins origins;
  for (const auto& [name, tensor] : document.items()) {
    std::optional<Shape> origin = OffsetsOf(tensor);
    if (!origin) {
      return DataLossError("tensor \"" + name +
                           "\" has no list of saved_offsets");
    }
    origins.emplace(name, *std::move(origin));
  }
  return origins;
}

// Returns the number of elements; nullopt if it overflows.
std::optional<uint64_t> ElementsIn(const Shape& shape) {
  uint64_t count = 1;
  for (const int64_t extent : shape) {
    if (extent == 0) return 0;
  }
  for (const int64_t extent : shape) {
    if (__builtin_mul_overflow(count, static_cast<uint64_t>(extent), &count)) {
      return std::nullopt;
    }
  }
  return count;
}

}  // namespace

Result<std::optional<ShardOrigins>> TakeShardOrigins(
    std::map<std::string, std::string>& metadata) {
  const auto found = metadata.extract(std::string(kShardingInfo));
  if (found.empty()) return std::optional<ShardOrigins>();
  Result<ShardOrigins> origins = ParseShardOrigins(found.mapped());
  if (!origins.ok()) return origins.status().WithContext(kShardingInfo);
  return std::optional(*std::move(origins));
}

Result<Box> ShardBox(const SafetensorsEntry& entry,
                     const ShardOrigins& origins) {
  const auto origin = origins.find(entry.name);
  const std::string where =
      std::string(kShardingInfo) + ": tensor \"" + entry.name + "\" ";
  if (origin == origins.end()) return DataLossError(where + "is not in it");
  bool fits = origin->second.size() == entry.shape.size();
  for (size_t d = 0; fits && d < entry.shape.size(); ++d) {
    int64_t end = 0;
    fits = !__builtin_add_overflow(origin->second[d], entry.shape[d], &end);
  }
  if (fits) return Box{origin->second, entry.shape};
  return DataLossError(where + "is of shape " + ShapeToString(entry.shape) +
                       ", which cannot lie at " +
                       ShapeToString(origin->second));
}

Status PlaceShard(const Box& box, ExtentLeaf& leaf) {
  const bool is_whole = std::ranges::all_of(
      box.origin, [](int64_t offset) { return offset == 0; });
  // Packed elements, and elements of a dtype that holdfast lacks, have another
  // shape.
  if (leaf.extents.empty() || leaf.info.shape != box.shape) {
    if (is_whole) return Status();
    return UnimplementedError("tensor \"" + leaf.info.name +
                              "\": parts of packed elements");
  }
  leaf.extents[0].box = box;
  for (size_t d = 0; d < box.shape.size(); ++d) {
    leaf.info.shape[d] += box.origin[d];
  }
  return Status();
}

Status JoinShard(ExtentLeaf part, const Box& box, ExtentLeaf& tensor) {
  const bool fits = part.info.dtype == tensor.info.dtype &&
                    part.info.value_type == tensor.info.value_type &&
                    box.shape.size() == tensor.info.shape.size();
  if (!fits) {
    return DataLossError(
        "tensor \"" + part.info.name + "\": a part of dtype " +
        std::string(DTypeName(*part.info.dtype)) + " and shape " +
        ShapeToString(box.shape) + " does not fit the others, of dtype " +
        std::string(DTypeName(*tensor.info.dtype)) + " and rank " +
        std::to_string(tensor.info.shape.size()));
  }
  if (part.extents.empty() || tensor.extents.empty() ||
      part.info.shape != box.shape) {
    return UnimplementedError("tensor \"" + part.info.name +
                              "\": parts of packed elements");
  }
  for (size_t d = 0; d < box.shape.size(); ++d) {
    tensor.info.shape[d] =
        std::max(tensor.info.shape[d], box.origin[d] + box.shape[d]);
  }
  part.extents[0].box = box;
  tensor.extents.push_back(std::move(part.extents[0]));
  tensor.info.stored_bytes += part.info.stored_bytes;
  return Status();
}

void CheckIsCovered(ExtentLeaf& leaf) {
  if (leaf.extents.empty()) return;
  const std::optional<uint64_t> wanted = ElementsIn(leaf.info.shape);
  uint64_t got = 0;
  for (const Extent& extent : leaf.extents) {
    got += ElementsIn(extent.box.shape).value_or(0);
  }
  if (wanted == got) return;
  leaf.info.problem = DataLossError(
      "leaf " + leaf.info.name + ": the parts of it in these files hold " +
      std::to_string(got) + " elements, want " +
      (wanted ? std::to_string(*wanted) : "too many to count") + " of shape " +
      ShapeToString(leaf.info.shape) +
      "; the file of another shard is missing (give the directory of all)");
  leaf.extents.clear();
}

Status CheckIsNoShard(const Place& file) {
  const auto names = ListDirectory(file.parent());
  // Some servers cannot list a directory.
  if (!names.ok()) return Status();
  for (const std::string& name : *names) {
    if (name == file.name() || !name.starts_with(kShardPrefix) ||
        !name.ends_with(kSafetensorsSuffix)) {
      continue;
    }
    return FailedPreconditionError(
        file.path() + ": it holds one process's parts of the tensors, and " +
        name + " next to it holds another's; give the path of the directory, " +
        file.parent().path());
  }
  return Status();
}

}  // namespace holdfast
