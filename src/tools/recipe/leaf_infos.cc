#include "tools/recipe/leaf_infos.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "ground/base/status_macros.h"
#include "ground/base/text.h"
#include "ground/tensor/grid.h"

namespace holdfast {
namespace {

// Returns each atom's extent in a chunk. The extent exceeds 1 only if the chunk
// covers all faster-varying atoms of the same axis completely.
Shape AtomChunks(const AxisMap& map, const Shape& chunk_shape) {
  Shape chunks(map.sizes.size(), 1);
  for (size_t d = 0; d < map.source.size(); ++d) {
    int64_t left = chunk_shape[d];
    for (size_t i = map.source[d].size(); i-- > 0 && left > 0;) {
      const size_t atom = map.source[d][i];
      chunks[atom] = std::max<int64_t>(1, std::min(left, map.sizes[atom]));
      left /= std::max<int64_t>(1, map.sizes[atom]);
    }
  }
  return chunks;
}

// Returns the shape of the target's parts that are best read at a time, given
// the source's chunks.
Shape TargetChunkShape(const AxisMap& map, const Shape& chunk_shape) {
  const Shape chunks = AtomChunks(map, chunk_shape);
  Shape target;
  for (const auto& axis : map.target) {
    int64_t extent = 1;
    for (size_t i = axis.size(); i-- > 0;) {
      extent *= chunks[axis[i]];
      if (chunks[axis[i]] < map.sizes[axis[i]]) break;
    }
    target.push_back(extent);
  }
  return target;
}

// Describes an array whose elements come from `stack` in another shape.
LeafInfo NewArrayInfo(const std::vector<LeafInfo>& source,
                      const SourceStack& stack) {
  const LeafInfo& first = source[stack.leaves[0]];
  LeafInfo info;
  info.kind = ValueKind::kArray;
  info.value_type = first.kind == ValueKind::kArray ? first.value_type : "";
  info.shape = stack.map.target_shape();
  info.codecs = first.codecs;
  Shape chunk_shape = first.chunk_shape;
  if (chunk_shape.size() != first.shape.size()) chunk_shape = first.shape;
  info.chunk_shape = TargetChunkShape(stack.map, chunk_shape);
  info.chunk_count = ChunkGrid{info.shape, info.chunk_shape}.ChunkCount();
  for (const size_t leaf : stack.leaves) {
    info.stored_bytes += source[leaf].stored_bytes;
    if (info.problem.ok()) info.problem = source[leaf].problem;
  }
  for (const size_t atom : stack.map.split) {
    info.stored_bytes /= std::max<int64_t>(1, stack.map.sizes[atom]);
  }
  return info;
}

bool IsPrefix(const std::vector<std::string>& above,
              const std::vector<std::string>& key) {
  return above.size() < key.size() &&
         std::equal(above.begin(), above.end(), key.begin());
}

std::string MakerText(const RecipeRule* rule) {
  return rule == nullptr ? "what no rule takes"
                         : "rule " + std::to_string(rule->number);
}

Status CheckEachNameOnce(const std::vector<LeafInfo>& infos,
                         const std::vector<const RecipeRule*>& rules) {
  std::unordered_map<std::string_view, size_t> by_name;
  for (size_t i = 0; i < infos.size(); ++i) {
    const auto [at, is_new] = by_name.emplace(infos[i].name, i);
    if (is_new) continue;
    return InvalidArgumentError(
        "leaf \"" + infos[i].name + "\" of the target is made twice, by " +
        MakerText(rules[at->second]) + " and by " + MakerText(rules[i]));
  }
  return Status();
}

}  // namespace

LeafInfo TargetInfo(const std::vector<LeafInfo>& source,
                    const SourceStack& stack, bool has_axes,
                    std::vector<std::string> keys) {
  LeafInfo info =
      has_axes ? NewArrayInfo(source, stack) : source[stack.leaves[0]];
  info.name = Joined(keys, ".");
  info.key = std::move(keys);
  info.key_kinds.assign(info.key.size(), KeyKind::kName);
  if (!stack.has_elements) return info;
  // The fingerprint is valid only for unchanged elements.
  if (stack.scales || info.dtype != stack.dtype) info.fingerprint.clear();
  info.dtype = stack.dtype;
  if (stack.dtype != stack.source_dtype) info.prng_impl.clear();
  info.decoded_bytes = ElementCount(info.shape) * DTypeBytes(stack.dtype);
  return info;
}

Status CheckTargetNames(const std::vector<LeafInfo>& infos,
                        const std::vector<const RecipeRule*>& rules) {
  HF_RETURN_IF_ERROR(CheckEachNameOnce(infos, rules));
  std::vector<size_t> order(infos.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return infos[a].key < infos[b].key; });
  // The leaves below a leaf directly follow it.
  std::vector<size_t> above;  // the leaves that this one lies below
  for (const size_t i : order) {
    const LeafInfo& leaf = infos[i];
    if (leaf.key.size() > kTreeDepthMax) {
      return InvalidArgumentError(
          "leaf \"" + leaf.name + "\" of the target has " +
          std::to_string(leaf.key.size()) + " keys (want at most " +
          std::to_string(kTreeDepthMax) + ")");
    }
    while (!above.empty() && !IsPrefix(infos[above.back()].key, leaf.key)) {
      above.pop_back();
    }
    // The source may have a leaf below a leaf; a recipe must not make one.
    const auto clash =
        std::find_if(above.rbegin(), above.rend(), [&](size_t higher) {
          return rules[higher] != nullptr || rules[i] != nullptr;
        });
    if (clash != above.rend()) {
      return InvalidArgumentError(
          "leaf \"" + leaf.name + "\" (" + MakerText(rules[i]) +
          ") lies below \"" + infos[*clash].name + "\" (" +
          MakerText(rules[*clash]) + "), which is a leaf itself");
    }
    above.push_back(i);
  }
  return Status();
}

}  // namespace holdfast
