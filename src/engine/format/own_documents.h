// Documents that holdfast keeps in `custom_metadata`, next to the user's
// members: for an item, those that `_METADATA` also lists in
// "holdfast_documents"; for a checkpoint, those that say where it came from.
//
// A program that reads custom metadata with another library and saves them
// again also saves these documents, which then describe another item. A list
// that such a program does not see says which documents are the item's own.
// Thread-safety: pure functions.
// Errors: none; text that is not a JSON object holds no documents.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace holdfast {

// Documents of an item: what a delta says about itself
// (foreign/chain/delta_info.h);
inline constexpr std::string_view kDeltaKey = "holdfast.delta";
// for an item that a delta was materialized into, the delta's result_id, so
// that deltas made from it still find their base;
inline constexpr std::string_view kResultIdKey = "holdfast.delta_result";
// what Orbax cannot record about the tree (foreign/sidecar/tree_sidecar.h);
inline constexpr std::string_view kSidecarKey = "holdfast.tree";
// and which lists are tuples for torch (python/holdfast/torch/_sidecar.py).
inline constexpr std::string_view kTuplesKey = "holdfast.tuples";

// Documents of a checkpoint: what a rescue left out, and which tiered manager
// saved it.
inline constexpr std::string_view kRescueKey = "holdfast.rescue";
inline constexpr const char* kTierKey = "holdfast_tier";

// The name of an array with one byte in every delta, since no checkpoint is
// empty.
inline constexpr std::string_view kDeltaMarkArray = "holdfast_delta";

// Removes the documents from `metadata` and returns them as an object, or null.
nlohmann::ordered_json TakeOwnDocuments(nlohmann::ordered_json& metadata);

// JSON texts of custom metadata, or empty.
struct SplitMetadata {
  std::string users;  // unchanged, if it contains no document
  std::string documents;
};
SplitMetadata SplitOwnDocuments(const std::string& metadata);

// Adds to `users` those of `documents` that also hold for the tree in another
// format, and returns one text; `users` if no document does.
std::string WithTreeDocuments(const std::string& users,
                              const std::string& documents);
bool HasTreeDocuments(const std::string& documents);

}  // namespace holdfast
