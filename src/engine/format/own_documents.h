// Documents of holdfast's own, which lie in `custom_metadata` beside the user's
// members: of an item, what `_METADATA` also lists in "holdfast_documents"; of
// a checkpoint, what says where it came from.
//
// A program that reads custom metadata by another library and saves it along
// saves our documents along: those are of another item. A list that no
// program sees tells which documents are the item's own.
// Thread-safety: pure functions.
// Errors: none; what is no JSON object holds no documents.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace holdfast {

// Documents of an item. The statements of a delta about itself
// (foreign/chain/delta_info.h):
inline constexpr std::string_view kDeltaKey = "holdfast.delta";
// of an item that a delta was made into, the result_id of the delta, so that
// those made from it still find their base;
inline constexpr std::string_view kResultIdKey = "holdfast.delta_result";
// what Orbax cannot say of the tree (foreign/sidecar/tree_sidecar.h);
inline constexpr std::string_view kSidecarKey = "holdfast.tree";
// and which lists are tuples for torch (python/holdfast/torch/_sidecar.py).
inline constexpr std::string_view kTuplesKey = "holdfast.tuples";

// Documents of a checkpoint: what a rescue left out, and which manager of tiers
// saved it.
inline constexpr std::string_view kRescueKey = "holdfast.rescue";
inline constexpr const char* kTierKey = "holdfast_tier";

// An array of every delta, of one byte, since no checkpoint is empty.
inline constexpr std::string_view kDeltaMarkArray = "holdfast_delta";

// Takes the documents out of `metadata`: an object of them, or null.
nlohmann::ordered_json TakeOwnDocuments(nlohmann::ordered_json& metadata);

// JSON texts of custom metadata, or empty.
struct SplitMetadata {
  std::string users;  // as it was given, if it holds no document
  std::string documents;
};
SplitMetadata SplitOwnDocuments(const std::string& metadata);

// `users` and those of `documents` that are as true of the tree in another
// format, as one text; the users' without any.
std::string WithTreeDocuments(const std::string& users,
                              const std::string& documents);
bool HasTreeDocuments(const std::string& documents);

}  // namespace holdfast
