// The information in a delta about itself: the step from which it was made, the
// arrays that it changes, and the tree of the result.
//
// A delta is an ordinary checkpoint with one uint8 array (array_delta.h) for
// each array that differs from the base, under the array's own name. This
// information is one of the item's own documents (own_documents.h), under
// kDeltaKey.
//
// Thread-safety: values, pure functions.
// Errors: DataLoss for a document that does not belong to a delta.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/format/own_documents.h"
#include "engine/references/base_record.h"
#include "foreign/sidecar/tree_sidecar.h"

namespace holdfast {

// The stored name of an array that is the complete tree, or has an empty key.
inline constexpr std::string_view kNamelessArray = "array";

// Longer chains are refused, because reading them would take too long.
inline constexpr uint64_t kChainLengthMax = 10'000;

// More than any writer has used. A reader allocates this much memory per chunk.
inline constexpr uint64_t kDeltaChunkBytesMax = uint64_t{64} << 20;

enum class ArrayState : char {
  kSame = 's',     // as in the base
  kChanged = 'c',  // coded against the base's array
  kNew = 'n',      // coded against zeros
};

struct DeltaInfo {
  // If the delta is an item of a step, as managers write it, the item's name.
  // The base is then the item with this name in another step.
  std::string item;
  BaseRecord base;
  // The identity of the result's content: a sha256 over names, dtypes, shapes
  // and hashes.
  std::string id;
  uint64_t order = 1;  // deltas from the anchor to here
  uint64_t chunk_bytes = 0;
  // One for each leaf of the tree with a stored array, in order. A hash is the
  // ChunkHash of the hashes of the array's chunks. A state tells how the delta
  // stores the array.
  std::vector<uint64_t> hashes;
  std::vector<ArrayState> states;
  TreeSidecar tree;
};

nlohmann::ordered_json DeltaInfoToJson(const DeltaInfo& info);
Result<DeltaInfo> ParseDeltaInfo(const nlohmann::ordered_json& document);
// Returns the id for the tree and the hashes of `info`.
std::string DeltaResultId(const DeltaInfo& info);
// Returns the shape of the chunks in which an array's differences are coded.
Shape DeltaChunkShape(const Shape& shape, DType dtype, uint64_t chunk_bytes);

}  // namespace holdfast
