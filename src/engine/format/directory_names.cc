#include "engine/format/directory_names.h"

#include <algorithm>
#include <array>
#include <cassert>

#include "ground/base/status_macros.h"

namespace holdfast {
namespace {

constexpr std::string_view kReplicaInfix = "replica_";
constexpr std::string_view kDigestsLine =
    "\nIts checksums are in _HOLDFAST_DIGESTS";

bool IsCheckpointFile(std::string_view name) {
  constexpr std::array kFiles = {
      kTreeMetadataFile, kCheckpointMetadataFile, kShardingFile, kStringsFile,
      kManifestFile,     kCommitMarkerFile,       kDigestFile,
      kFingerprintsFile};
  return std::find(kFiles.begin(), kFiles.end(), name) != kFiles.end();
}

Status BadName(std::string_view param_name, std::string_view why) {
  return InvalidArgumentError(
      "leaf '" + std::string(param_name) +
      "': name cannot be a directory: " + std::string(why));
}

// Checks a part of a name that becomes a path, which must not leave the
// directory.
Status CheckElement(std::string_view param_name, std::string_view element) {
  if (element.empty()) return BadName(param_name, "empty path element");
  if (element == "." || element == "..") {
    return BadName(param_name, "path element '" + std::string(element) + "'");
  }
  return Status();
}

}  // namespace

bool IsTemporaryName(std::string_view name) {
  return name.find(kTemporarySuffix) != name.npos;
}

std::string TemporaryName(std::string_view name) {
  return std::string(name) + std::string(kTemporarySuffix);
}

std::optional<std::string> FinalName(std::string_view temporary_name) {
  const size_t position = temporary_name.find(kTemporarySuffix);
  if (position == temporary_name.npos) return std::nullopt;
  return std::string(temporary_name.substr(0, position));
}

std::string CommitMarkerText(std::string_view path, bool has_digests) {
  std::string text = "Checkpoint commit was successful to ";
  text += path;
  if (has_digests) text += kDigestsLine;
  return text;
}

bool MarkerTellsOfDigests(std::string_view text) {
  return text.ends_with(kDigestsLine);
}

std::string ArrayMetadatasPath(int64_t process_index) {
  return std::string(kArrayMetadatasDirectory) + "/process_" +
         std::to_string(process_index);
}

std::optional<ProcessDirectory> ParseProcessDirectory(std::string_view name) {
  if (!name.starts_with(kProcessDirectoryPrefix)) return std::nullopt;
  name.remove_prefix(kProcessDirectoryPrefix.size());
  const bool is_replica = name.starts_with(kReplicaInfix);
  if (is_replica) name.remove_prefix(kReplicaInfix.size());
  if (!IsProcessId(name)) return std::nullopt;
  return ProcessDirectory{std::string(name), is_replica};
}

bool IsProcessId(std::string_view id) {
  const auto is_alnum = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
           (c >= 'A' && c <= 'Z');
  };
  return !id.empty() && std::all_of(id.begin(), id.end(), is_alnum);
}

std::string ProcessDirectoryName(const ProcessDirectory& directory) {
  assert(IsProcessId(directory.id));
  std::string name(kProcessDirectoryPrefix);
  if (directory.is_replica) name += kReplicaInfix;
  return name + directory.id;
}

Status CheckDirectoryParamName(std::string_view param_name) {
  if (param_name.empty()) return Status();
  if (param_name.find('\0') != param_name.npos) {
    return BadName(param_name.substr(0, param_name.find('\0')), "NUL byte");
  }
  if (param_name[0] == '/') return BadName(param_name, "leading '/'");
  const std::string_view first = param_name.substr(0, param_name.find('/'));
  if (IsCheckpointFile(first)) {
    return BadName(param_name, "it is a file of the checkpoint");
  }
  for (size_t start = 0; start <= param_name.size();) {
    const size_t end = std::min(param_name.find('/', start), param_name.size());
    HF_RETURN_IF_ERROR(
        CheckElement(param_name, param_name.substr(start, end - start)));
    start = end + 1;
  }
  return Status();
}

}  // namespace holdfast
