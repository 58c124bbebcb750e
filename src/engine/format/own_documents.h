// Documents that holdfast keeps in `custom_metadata`, next to the user's
// members. An item's documents are also listed in "holdfast_documents" of its
// `_METADATA`. A checkpoint's documents say where the checkpoint came from.
//
// A program that reads custom metadata with another library and saves it again
// also saves these documents, which then describe another item. The list in
// `_METADATA`, which such a program does not see, says which documents are the
// item's own.
// Thread-safety: pure functions.
// Errors: none; text that is not a JSON object holds no documents.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace holdfast {

// The next four are the documents of an item.

// The delta's description of itself (foreign/chain/delta_info.h).
inline constexpr std::string_view kDeltaKey = "holdfast.delta";
// For an item that a delta was materialized into: the delta's result_id, so
// that deltas made from that delta still find their base.
inline constexpr std::string_view kResultIdKey = "holdfast.delta_result";
// Facts about the tree that Orbax cannot record
// (foreign/sidecar/tree_sidecar.h).
inline constexpr std::string_view kSidecarKey = "holdfast.tree";
// Which lists are tuples for torch (python/holdfast/torch/_sidecar.py).
inline constexpr std::string_view kTuplesKey = "holdfast.tuples";

// Documents of a checkpoint: what a rescue left out of it, and which tiered
// manager saved it.
inline constexpr std::string_view kRescueKey = "holdfast.rescue";
inline constexpr const char* kTierKey = "holdfast_tier";

// The name of a one-byte array in every delta, since a checkpoint cannot be
// empty.
inline constexpr std::string_view kDeltaMarkArray = "holdfast_delta";

// Removes the documents from `metadata` and returns them as an object, or null.
nlohmann::ordered_json TakeOwnDocuments(nlohmann::ordered_json& metadata);

// Custom metadata as JSON texts, each of which may be empty.
struct SplitMetadata {
  std::string users;  // unchanged, if it contains no document
  std::string documents;
};
SplitMetadata SplitOwnDocuments(const std::string& metadata);

// Returns `users` with those of `documents` added that are also true of the
// tree in another format. Returns `users` unchanged if no document is.
std::string WithTreeDocuments(const std::string& users,
                              const std::string& documents);
bool HasTreeDocuments(const std::string& documents);

}  // namespace holdfast
