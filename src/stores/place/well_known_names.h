// The file names of checkpoints that this folder must recognize: names that
// show whether a checkpoint is complete, and names of files that are fetched
// together.
//
// Thread-safety: constants.
#pragma once

#include <string_view>

namespace holdfast {

// Orbax's marker: its existence shows that a checkpoint in an object store is
// complete. (The formats' own kCommitMarkerFile is defined in a higher layer.)
inline constexpr std::string_view kPlaceCommitMarker = "commit_success.txt";
// A file directly in the checkpoint's directory that names the current saver.
inline constexpr std::string_view kSaveLease = "_HOLDFAST_SAVE";
// A file directly in the directory that belongs to an unfinished copy.
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

// Opening also reads files in directories with these names
// ("array_metadatas/process_0").
inline constexpr std::string_view kOpeningDirectories[] = {"array_metadatas"};

// Names that are requested where listing is impossible. Such files are always
// small, and never directories.
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

// A model in one file, which may be large. Its existence, but not its content,
// is requested if none of the probed names exists.
inline constexpr std::string_view kProbedModel = "model.safetensors";

// A path to one of these files means the arrays next to it.
inline constexpr std::string_view kBareNames[] = {"manifest.ocdbt", ".zarray",
                                                  "zarr.json"};

// OCDBT's files of nodes and values are in directories with this name.
inline constexpr std::string_view kDataDirectory = "d";

}  // namespace holdfast
