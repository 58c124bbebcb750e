#include "checkpoint/save/adopt.h"

#include <algorithm>
#include <set>

#include "base/status_macros.h"
#include "checkpoint/check/digest_index.h"
#include "checkpoint/check/value_sums.h"
#include "checkpoint/format/directory_names.h"
#include "ocdbt/database.h"
#include "ocdbt/entry_list.h"
#include "place/directory_ops.h"
#include "storage/new_file.h"
#include "tree/utf8.h"

namespace holdfast {
namespace {

std::string_view FirstElement(std::string_view path) {
  return path.substr(0, path.find('/'));
}

std::string_view LastElement(std::string_view path) {
  const size_t slash = path.rfind('/');
  return path.substr(slash == std::string_view::npos ? 0 : slash + 1);
}

// Parses the file with `parse`; an absent file leaves `value` as it is.
template <typename T, typename Parse>
Status ReadIfThere(Store& store, const std::string& name, const Parse& parse,
                   T& value) {
  const Result<Bytes> text = store.Read(name);
  if (text.status().code() == StatusCode::kNotFound) return Status();
  if (!text.ok()) return text.status();
  Result<T> parsed = parse(text->view());
  if (!parsed.ok()) return parsed.status().WithContext(store.Describe(name));
  value = std::move(parsed).value();
  return Status();
}

// Others write these later, or again.
bool IsRootFile(std::string_view path) {
  return path == kCheckpointMetadataFile || path == kCommitMarkerFile ||
         path == kV1MarkerFile || path == kDigestFile;
}

bool IsDatabaseFile(std::string_view path) {
  const std::string_view first = FirstElement(path);
  return path == kManifestFile || path.starts_with("d/") ||
         (first.size() < path.size() && ParseProcessDirectory(first));
}

bool IsArrayMetadata(std::string_view path) {
  const std::string_view name = LastElement(path);
  return name == ".zarray" || name == "zarr.json";
}

std::set<std::string, std::less<>> ArrayDirectories(
    const std::vector<std::string>& paths) {
  std::set<std::string, std::less<>> directories;
  for (const std::string& path : paths) {
    if (!IsArrayMetadata(path)) continue;
    directories.insert(path.substr(0, path.size() - LastElement(path).size()));
  }
  return directories;
}

bool IsChunk(std::string_view path,
             const std::set<std::string, std::less<>>& array_directories) {
  if (IsArrayMetadata(path)) return false;
  for (size_t end = path.rfind('/'); end != std::string_view::npos && end > 0;
       end = path.rfind('/', end - 1)) {
    if (array_directories.contains(path.substr(0, end + 1))) return true;
  }
  return array_directories.contains(std::string_view());
}

std::set<std::string> ListedPaths(const DigestFile& digests) {
  std::set<std::string> paths;
  for (const FileDigest& row : digests.files) paths.insert(row.path);
  for (const ValueDigest& row : digests.values) paths.insert(row.path);
  return paths;
}

}  // namespace

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
  HF_RETURN_IF_ERROR(ReadIfThere(store, std::string(kStringsFile),
                                 ParseStringsFile, adopted.strings));
  HF_RETURN_IF_ERROR(ReadIfThere(store, std::string(kShardingFile),
                                 ParseShardingFile, adopted.shardings));
  HF_RETURN_IF_ERROR(ReadIfThere(store,
                                 std::string(kArrayMetadatasDirectory) + "/" +
                                     ArrayMetadatasFileName(rank),
                                 ParseArrayMetadatas, adopted.array_metadatas));
  return adopted;
}

Result<ocdbt::MergeChild> ReadAdoptedDatabase(Store& store,
                                              const std::string& prefix,
                                              DigestFile* digests) {
  HF_ASSIGN_OR_RETURN(const auto database,
                      ocdbt::Database::Open(&store, prefix, {}));
  HF_ASSIGN_OR_RETURN(ocdbt::EntryList list, ReadAllEntries(*database));
  if (digests == nullptr) return ocdbt::MergeChild{prefix, std::move(list)};
  HF_RETURN_IF_ERROR(
      AddManifestRows(store, prefix + std::string(kManifestFile), *digests));
  for (const ocdbt::LeafEntry& entry : list.entries) {
    if (entry.is_inline()) continue;
    const std::string path = prefix + list.files[entry.file_index].path;
    HF_ASSIGN_OR_RETURN(
        const Bytes value,
        store.Read(path, {entry.offset, entry.value_byte_count}));
    digests->values.push_back(
        SumValue(path, entry.offset, value.view(), ValueKnownBy::kBlocks));
  }
  return ocdbt::MergeChild{prefix, std::move(list)};
}

Status AdoptFiles(const std::string& directory, bool use_ocdbt,
                  bool write_digests, FileWriter& files) {
  HF_ASSIGN_OR_RETURN(const DirectoryTree tree, ListTree(directory));
  const std::set<std::string> listed = ListedPaths(files.digests());
  const auto array_directories = ArrayDirectories(tree.files);
  for (const std::string& path : tree.files) {
    if (listed.contains(path)) continue;
    if (files.sync()) HF_RETURN_IF_ERROR(SyncFile(directory + "/" + path));
    if (!write_digests || IsRootFile(path) || !IsValidUtf8(path) ||
        IsHiddenName(LastElement(path)) ||
        (use_ocdbt && IsDatabaseFile(path))) {
      continue;
    }
    HF_ASSIGN_OR_RETURN(FileDigest row, SumFile(files.store(), path));
    if (IsChunk(path, array_directories)) {
      files.digests().values.push_back(
          {std::move(row.path), 0, row.byte_count, row.crc32c});
    } else {
      files.digests().files.push_back(std::move(row));
    }
  }
  if (!files.sync()) return Status();
  for (const std::string& path : tree.directories) {
    HF_RETURN_IF_ERROR(SyncDirectory(directory + "/" + path));
  }
  return Status();
}

}  // namespace holdfast
