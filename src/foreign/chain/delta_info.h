// The statements of a delta about itself: the step that it was made from, the
// arrays that it changes, and the tree of the result.
//
// A delta is an ordinary checkpoint whose arrays are uint8 (array_delta.h), one
// for each array that is not as in the base, under the array's own name; this
// document is one of the item's own (own_documents.h), under kDeltaKey.
//
// Thread-safety: values, pure functions.
// Errors: DataLoss for a document that no delta has.
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

// The stored name of an array that is the whole tree, or has an empty key.
inline constexpr std::string_view kNamelessArray = "array";

// Longer chains are refused: they would take ages to read.
inline constexpr uint64_t kChainLengthMax = 10'000;

// More than any writer has used; a reader takes as much memory for a chunk.
inline constexpr uint64_t kDeltaChunkBytesMax = uint64_t{64} << 20;

enum class ArrayState : char {
  kSame = 's',     // as in the base
  kChanged = 'c',  // coded against the base's array
  kNew = 'n',      // coded against zeros
};

struct DeltaInfo {
  // Where the delta is an item of a step, as managers write them, its name: the
  // base is then that item of a step.
  std::string item;
  BaseRecord base;
  // The id of the result's content: a sha256 over names, dtypes, shapes and
  // hashes.
  std::string id;
  uint64_t order = 1;  // deltas from the anchor to here
  uint64_t chunk_bytes = 0;
  // For each leaf of the tree that names a stored array, in their order: the
  // ChunkHash of the hashes of its chunks, and what the delta has of it.
  std::vector<uint64_t> hashes;
  std::vector<ArrayState> states;
  TreeSidecar tree;
};

nlohmann::ordered_json DeltaInfoToJson(const DeltaInfo& info);
Result<DeltaInfo> ParseDeltaInfo(const nlohmann::ordered_json& document);
// The id that belongs to the tree and the hashes.
std::string DeltaResultId(const DeltaInfo& info);
// The chunks in which an array's differences are coded.
Shape DeltaChunkShape(const Shape& shape, DType dtype, uint64_t chunk_bytes);

}  // namespace holdfast
