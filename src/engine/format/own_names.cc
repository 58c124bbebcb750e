#include "engine/format/own_names.h"

#include <algorithm>

#include "engine/format/directory_names.h"

namespace holdfast {
namespace {

constexpr std::string_view kOwnNames[] = {
    kTreeMetadataFile, kShardingFile,
    kStringsFile,      kArrayMetadatasDirectory,
    kManifestFile,     kCommitMarkerFile,
    kV1MarkerFile,     kRootMetadataFile,
    ".zarray",         ".zattrs",
    ".zgroup",         ".zmetadata",
    "zarr.json"};
constexpr std::string_view kOwnPrefixes[] = {"_HOLDFAST_", "_CHECKPOINT_",
                                             kProcessDirectoryPrefix};

// Returns true for names that are reserved anywhere in a checkpoint.
bool IsOwnName(std::string_view name) {
  return IsTemporaryName(name) ||
         std::find(std::begin(kOwnNames), std::end(kOwnNames), name) !=
             std::end(kOwnNames) ||
         std::any_of(
             std::begin(kOwnPrefixes), std::end(kOwnPrefixes),
             [&](std::string_view prefix) { return name.starts_with(prefix); });
}

}  // namespace

bool IsOwnFilePath(std::string_view path) {
  const std::string_view first = path.substr(0, path.find('/'));
  // These two names are reserved only at the top of the checkpoint.
  if (first == kAggregateFile || first == "d") return true;
  for (;;) {
    const size_t slash = path.find('/');
    if (IsOwnName(path.substr(0, slash))) return true;
    if (slash == path.npos) return false;
    path.remove_prefix(slash + 1);
  }
}

}  // namespace holdfast
