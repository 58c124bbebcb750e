// The file names of checkpoints that directories and listings must recognise:
// names that show that a checkpoint is complete, and names worth fetching
// together.
//
// Thread-safety: constants.
#pragma once

#include <string_view>

namespace holdfast {

// Orbax's marker: a checkpoint in an object store is finished when it exists.
// (The formats' own kCommitMarkerFile is defined in a higher layer.)
inline constexpr std::string_view kPlaceCommitMarker = "commit_success.txt";
// Names the current saver; is directly in the checkpoint's directory.
inline constexpr std::string_view kSaveLease = "_HOLDFAST_SAVE";
// Belongs to an unfinished copy; is directly in the directory as well.
inline constexpr std::string_view kCopyJournal = "_HOLDFAST_COPY";

inline constexpr std::string_view kMetadataName = "_CHECKPOINT_METADATA";
inline constexpr std::string_view kDigestsName = "_HOLDFAST_DIGESTS";
inline constexpr std::string_view kManifestName = "manifest.ocdbt";

// Small files that opening a checkpoint reads, anywhere in the checkpoint.
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

// The subset that shows whether a step is complete, when it was saved, and its
// metrics.
inline constexpr std::string_view kStepNames[] = {
    "commit_success.txt", "_CHECKPOINT_METADATA", "_HOLDFAST_DIGESTS",
    "orbax.checkpoint", "metrics"};

// Files in directories with these names are read too
// ("array_metadatas/process_0").
inline constexpr std::string_view kOpeningDirectories[] = {"array_metadatas"};

// Requested where listing is impossible: these are certainly small, and
// certainly not directories.
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

// A model in one file, which may be large: requested by itself, without its
// bytes, if none of the probed names exists.
inline constexpr std::string_view kProbedModel = "model.safetensors";

// A path to one of these means the bare arrays next to it.
inline constexpr std::string_view kBareNames[] = {"manifest.ocdbt", ".zarray",
                                                  "zarr.json"};

// Files of OCDBT nodes and values are in directories with this name.
inline constexpr std::string_view kDataDirectory = "d";

}  // namespace holdfast
