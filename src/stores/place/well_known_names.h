// The file names of checkpoints that directories and listings must know: which
// say that a checkpoint is whole, and which are worth fetching together.
//
// Thread-safety: constants.
#pragma once

#include <string_view>

namespace holdfast {

// Orbax's: a checkpoint in an object store is finished when it is there. (The
// formats' own kCommitMarkerFile, which lives upstairs.)
inline constexpr std::string_view kPlaceCommitMarker = "commit_success.txt";
// Names the saver that writes here now; lies directly in the checkpoint's
// directory.
inline constexpr std::string_view kSaveLease = "_HOLDFAST_SAVE";
// Belongs to a copy that has not ended; lies there, too.
inline constexpr std::string_view kCopyJournal = "_HOLDFAST_COPY";

inline constexpr std::string_view kMetadataName = "_CHECKPOINT_METADATA";
inline constexpr std::string_view kDigestsName = "_HOLDFAST_DIGESTS";
inline constexpr std::string_view kManifestName = "manifest.ocdbt";

// Small files that opening a checkpoint reads, wherever in it they lie.
inline constexpr std::string_view kOpeningNames[] = {
    "commit_success.txt",
    "_CHECKPOINT_METADATA",
    "_METADATA",
    "_ROOT_METADATA",
    "_HOLDFAST_DIGESTS",
    "_HOLDFAST_FINGERPRINTS",
    "_sharding",
    "_strings.json",
    "manifest.ocdbt",
    "orbax.checkpoint",
    "checkpoint",
    "metadata",
    "data.json",
    "metrics",
    // of other formats
    "metadata.json",
    "common.pt",
    ".metadata",
    "model.safetensors.index.json",
    "pytorch_model.bin.index.json",
};

// Those of them that tell whether a step is whole, when it was saved, and its
// metrics.
inline constexpr std::string_view kStepNames[] = {
    "commit_success.txt", "_CHECKPOINT_METADATA", "_HOLDFAST_DIGESTS",
    "orbax.checkpoint", "metrics"};

// Names in directories of that name are read, too
// ("array_metadatas/process_0").
inline constexpr std::string_view kOpeningDirectories[] = {"array_metadatas"};

// Asked for where nothing can be listed: surely small, and surely no
// directories.
inline constexpr std::string_view kProbedNames[] = {
    "commit_success.txt",
    "_CHECKPOINT_METADATA",
    "_METADATA",
    "_HOLDFAST_DIGESTS",
    "_sharding",
    "_strings.json",
    "manifest.ocdbt",
    "orbax.checkpoint",
    "metadata.json",
    ".zarray",
    "zarr.json",
    "model.safetensors.index.json",
    "pytorch_model.bin.index.json",
};

// A model in one file, which may be large: asked for by itself, without its
// bytes, where none of those is there.
inline constexpr std::string_view kProbedModel = "model.safetensors";

// A path to one of these means the bare arrays beside it.
inline constexpr std::string_view kBareNames[] = {"manifest.ocdbt", ".zarray",
                                                  "zarr.json"};

// Files of OCDBT nodes and values lie in directories of this name.
inline constexpr std::string_view kDataDirectory = "d";

}  // namespace holdfast
