// Names of the files and directories of an Orbax checkpoint.
//
// Source: orbax-checkpoint 0.12.8; older spellings where noted.
// Thread-safety: pure functions.
// Errors: InvalidArgument for names that must not become paths.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "holdfast/status.h"

namespace holdfast {

inline constexpr std::string_view kTreeMetadataFile = "_METADATA";
inline constexpr std::string_view kCheckpointMetadataFile =
    "_CHECKPOINT_METADATA";
inline constexpr std::string_view kShardingFile = "_sharding";
inline constexpr std::string_view kStringsFile = "_strings.json";
inline constexpr std::string_view kArrayMetadatasDirectory = "array_metadatas";
inline constexpr std::string_view kManifestFile = "manifest.ocdbt";
inline constexpr std::string_view kCommitMarkerFile = "commit_success.txt";
inline constexpr std::string_view kV1MarkerFile = "orbax.checkpoint";
inline constexpr std::string_view kAggregateFile = "checkpoint";
inline constexpr std::string_view kRootMetadataDirectory = "metadata";
inline constexpr std::string_view kRootMetadataFile = "_ROOT_METADATA";
// While this file exists, an item of the checkpoint is being deleted
// deliberately.
inline constexpr std::string_view kDeletionRecordFile = "_CHECKPOINT_DELETION";
// Holdfast's own; Orbax ignores it.
inline constexpr std::string_view kDigestFile = "_HOLDFAST_DIGESTS";
inline constexpr std::string_view kFingerprintsFile = "_HOLDFAST_FINGERPRINTS";
// In the directory of a delta: the path of its base, or only its name if both
// have the same parent. For programs that remove steps; readers use the item's
// metadata.
inline constexpr std::string_view kBaseFile = "_HOLDFAST_BASE";

inline constexpr std::string_view kTemporarySuffix = ".orbax-checkpoint-tmp";
// Suffix of a step in the trash that must not be restored.
inline constexpr std::string_view kRemovingSuffix = ".removing";
inline constexpr std::string_view kProcessDirectoryPrefix = "ocdbt.process_";

// Returns true for "state.orbax-checkpoint-tmp" and the older
// "state.orbax-checkpoint-tmp-1712345678": any name that contains the suffix,
// which is Orbax's rule. `name` is one path element.
bool IsTemporaryName(std::string_view name);
// Returns "state.orbax-checkpoint-tmp" for "state".
std::string TemporaryName(std::string_view name);
// Returns the name before the suffix; nullopt if the name is not temporary.
std::optional<std::string> FinalName(std::string_view temporary_name);

// Returns the content of commit_success.txt, without a newline at the end. Its
// second line is holdfast's; Orbax does not read the file.
std::string CommitMarkerText(std::string_view path, bool has_digests);
// Returns whether the text says that `_HOLDFAST_DIGESTS` belongs to the
// checkpoint.
bool MarkerTellsOfDigests(std::string_view text);

// Returns "array_metadatas/process_<index>".
std::string ArrayMetadatasPath(int64_t process_index);

struct ProcessDirectory {
  std::string id;  // letters and digits: a process index, or a custom one
  bool is_replica = false;  // arrays that all processes hold, saved separately
};

// Returns true for one or more letters and digits.
bool IsProcessId(std::string_view id);
// Parses "ocdbt.process_0" and "ocdbt.process_replica_0"; returns nullopt for
// other names.
std::optional<ProcessDirectory> ParseProcessDirectory(std::string_view name);
// Returns the name that ParseProcessDirectory parses.
// REQUIRES: IsProcessId(directory.id).
std::string ProcessDirectoryName(const ProcessDirectory& directory);

// Checks that the parameter name may become a directory below the checkpoint,
// as with use_ocdbt=False. A "/" in a name makes nested directories, which
// Orbax allows; the empty name is the checkpoint directory itself (a tree that
// is a single leaf). InvalidArgument, naming the leaf, for a leading "/", an
// empty, "." or ".." element, a NUL byte, or a first element that is a file of
// the checkpoint.
Status CheckDirectoryParamName(std::string_view param_name);

}  // namespace holdfast
