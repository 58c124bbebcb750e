#include "engine/save/adopt.h"

#include <algorithm>
#include <set>

#include "engine/check/digest_index.h"
#include "engine/check/value_sums.h"
#include "engine/format/directory_names.h"
#include "formats/ocdbt/database.h"
#include "formats/ocdbt/entry_list.h"
#include "formats/zarr/format/metadata.h"
#include "ground/base/status_macros.h"
#include "ground/base/utf8.h"
#include "stores/place/directory_ops.h"
#include "stores/storage/new_file.h"
#include "stores/storage/path_parts.h"
#include "stores/storage/read_if_there.h"

namespace holdfast {
namespace {

std::string_view FirstElement(std::string_view path) {
  return path.substr(0, path.find('/'));
}

// Returns true for files that are written, or rewritten, later.
bool IsRootFile(std::string_view path) {
  return path == kCheckpointMetadataFile || path == kCommitMarkerFile ||
         path == kV1MarkerFile || path == kDigestFile;
}

std::set<std::string, std::less<>> ArrayDirectories(
    const std::vector<std::string>& paths) {
  std::set<std::string, std::less<>> directories;
  for (const std::string& path : paths) {
    if (!zarr::IsMetadataKey(path)) continue;
    directories.insert(path.substr(0, path.size() - LastPart(path).size()));
  }
  return directories;
}

bool IsChunk(std::string_view path,
             const std::set<std::string, std::less<>>& array_directories) {
  if (zarr::IsMetadataKey(path)) return false;
  for (size_t end = path.rfind('/'); end != std::string_view::npos && end > 0;
       end = path.rfind('/', end - 1)) {
    if (array_directories.contains(path.substr(0, end + 1))) return true;
  }
  return array_directories.contains(std::string_view());
}

}  // namespace

bool IsDatabaseFile(std::string_view path) {
  const std::string_view first = FirstElement(path);
  return path.starts_with("d/") ||
         (first.size() < path.size() && ParseProcessDirectory(first));
}

void AddListedPaths(const DigestFile& digests, const std::string& prefix,
                    std::set<std::string>& paths) {
  for (const FileDigest& row : digests.files) paths.insert(prefix + row.path);
  for (const ValueDigest& row : digests.values) paths.insert(prefix + row.path);
  for (const SourceFile& row : digests.sources) paths.insert(prefix + row.path);
}

Result<std::vector<std::string>> FindProcessDatabases(Store& store) {
  std::set<std::string> prefixes;
  HF_RETURN_IF_ERROR(store.List(
      kProcessDirectoryPrefix, [&](std::string_view key, const ObjectInfo&) {
        const std::string_view name = FirstElement(key);
        const bool is_manifest =
            key.substr(name.size()) == "/" + std::string(kManifestFile);
        if (is_manifest && ParseProcessDirectory(name)) {
          prefixes.insert(std::string(name) + "/");
        }
        return Status();
      }));
  return std::vector<std::string>(prefixes.begin(), prefixes.end());
}

Result<AdoptedFiles> ReadAdoptedFiles(Store& store, int64_t rank) {
  AdoptedFiles adopted;
  HF_ASSIGN_OR_RETURN(adopted.databases, FindProcessDatabases(store));
  HF_ASSIGN_OR_RETURN(adopted.strings,
                      ReadOrEmpty(store, kStringsFile, ParseStringsFile));
  HF_ASSIGN_OR_RETURN(adopted.shardings,
                      ReadOrEmpty(store, kShardingFile, ParseShardingFile));
  HF_ASSIGN_OR_RETURN(
      adopted.array_metadatas,
      ReadOrEmpty(store, ArrayMetadatasPath(rank), ParseArrayMetadatas));
  return adopted;
}

Result<ocdbt::MergeChild> ReadDatabase(Store& store,
                                       const std::string& prefix) {
  HF_ASSIGN_OR_RETURN(const auto database,
                      ocdbt::Database::Open(&store, prefix));
  HF_ASSIGN_OR_RETURN(ocdbt::EntryList entries, ReadAllEntries(*database));
  return ocdbt::MergeChild{prefix, std::move(entries)};
}

namespace {

// Adds the rows of a database that another writer has written.
Status SumDatabase(Store& store, const ocdbt::MergeChild& child,
                   DigestFile& digests) {
  const std::string& prefix = child.subdirectory;
  const ocdbt::EntryList& list = child.entries;
  HF_RETURN_IF_ERROR(
      AddManifestRows(store, prefix + std::string(kManifestFile), digests));
  for (const ocdbt::LeafEntry& entry : list.entries) {
    if (entry.is_inline()) continue;
    const std::string path = prefix + list.files[entry.file_index].path;
    HF_ASSIGN_OR_RETURN(
        const Bytes value,
        store.Read(path, {entry.offset, entry.value_byte_count}));
    digests.values.push_back(
        SumValue(path, entry.offset, value.view(), ValueKnownBy::kBlocks));
  }
  return Status();
}

}  // namespace

Status AddAdoptedDatabases(Store& store,
                           const std::vector<std::string>& prefixes,
                           DigestFile* digests,
                           std::vector<ocdbt::MergeChild>& children) {
  for (const std::string& prefix : prefixes) {
    HF_ASSIGN_OR_RETURN(children.emplace_back(), ReadDatabase(store, prefix));
    if (digests == nullptr) continue;
    HF_RETURN_IF_ERROR(SumDatabase(store, children.back(), *digests));
  }
  return Status();
}

AdoptRules RulesOfItem(bool use_ocdbt, const FileWriter& files) {
  std::set<std::string> listed;
  AddListedPaths(files.digests(), "", listed);
  return {.is_known =
              [listed = std::move(listed)](const std::string& path) {
                return listed.contains(path);
              },
          .is_unlisted =
              [use_ocdbt](const std::string& path) {
                return IsRootFile(path) ||
                       (use_ocdbt &&
                        (path == kManifestFile || IsDatabaseFile(path)));
              },
          .has_arrays = true};
}

Status AdoptFiles(const Place& directory, bool write_digests,
                  const AdoptRules& rules, FileWriter& files) {
  HF_ASSIGN_OR_RETURN(const DirectoryTree tree, ListTree(directory));
  std::set<std::string, std::less<>> arrays;
  if (rules.has_arrays) arrays = ArrayDirectories(tree.files);
  std::set<std::string_view> touched;  // directories with adopted files
  for (const std::string& path : tree.files) {
    if (rules.is_known(path)) continue;
    touched.insert(ParentKey(path));
    if (files.sync()) HF_RETURN_IF_ERROR(SyncFile(directory / path));
    // Skips names that the list cannot spell or that no reader would find. Also
    // skips existing fingerprints, which may be older than the arrays.
    if (!write_digests || !IsValidUtf8(path) || IsHiddenName(LastPart(path)) ||
        LastPart(path) == kFingerprintsFile ||
        (rules.is_unlisted && rules.is_unlisted(path))) {
      continue;
    }
    HF_ASSIGN_OR_RETURN(FileDigest row, SumFile(files.store(), path));
    if (IsChunk(path, arrays)) {
      files.digests().values.push_back(
          {std::move(row.path), 0, row.byte_count, row.crc32c});
    } else {
      files.digests().files.push_back(std::move(row));
    }
  }
  if (!files.sync()) return Status();
  for (const std::string& path : tree.directories) {
    if (rules.is_synced && rules.is_synced(path) && !touched.contains(path)) {
      continue;
    }
    HF_RETURN_IF_ERROR(SyncDirectory(directory / path));
  }
  return Status();
}

}  // namespace holdfast
