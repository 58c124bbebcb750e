// Repairs files that Orbax and holdfast write.
#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <variant>

#include "engine/check/checked_store.h"
#include "engine/check/digest_index.h"
#include "engine/check/row_checker.h"
#include "engine/format/aggregate.h"
#include "engine/format/array_metadatas.h"
#include "engine/format/checkpoint_metadata.h"
#include "engine/format/directory_names.h"
#include "engine/format/strings_file.h"
#include "engine/format/tree_metadata.h"
#include "ground/base/status_macros.h"
#include "ground/json/text.h"
#include "stores/place/well_known_names.h"
#include "tools/rescue/database_repair.h"
#include "tools/rescue/repairs.h"

namespace holdfast {
namespace {

constexpr std::string_view kZarrFiles[] = {".zarray", "zarr.json"};

std::string DirectoryOfPath(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == path.npos ? "" : std::string(path.substr(0, slash + 1));
}

bool IsZarrFile(std::string_view path) {
  path.remove_prefix(DirectoryOfPath(path).size());
  return std::ranges::find(kZarrFiles, path) != std::end(kZarrFiles);
}

// Returns the prefix of the item's leaf names: "state." for "state/", "" for
// the root.
std::string NamePrefixOf(const std::string& directory) {
  std::string name = directory;
  if (!name.empty()) name.back() = '.';
  return name;
}

class OrbaxRepairer {
 public:
  OrbaxRepairer(const FilesPtr& files, const CancelToken* cancel,
                Repairs& repairs)
      : files_(files), cancel_(cancel), repairs_(repairs) {}

  Status Run() {
    RenameUnfinished();
    if (files_->Hide(std::string(kSaveLease))) {
      Note(PathText(std::string(kSaveLease)) + ": a save was under way");
    }
    HideDamagedLists();
    ForEachList([&](const std::string& directory, const DigestIndex& list) {
      HideChanged(directory, list);
    });
    for (const std::string& directory : ItemDirectories()) {
      HF_RETURN_IF_ERROR(RepairItem(directory));
    }
    ForEachList([&](const std::string& directory, const DigestIndex& list) {
      AddHoles(directory, list);
    });
    RepairCheckpointMetadata();
    RepairLists();
    return Status();
  }

 private:
  std::string PathText(const std::string& path) const {
    return RepairedFiles::StoreOf(files_)->Describe(path);
  }

  Result<Bytes> ReadPath(const std::string& path) const {
    return RepairedFiles::StoreOf(files_)->Read(path);
  }

  void Note(const std::string& text) { repairs_.notes.push_back(text); }

  void HideDamaged(const std::string& path, const Status& why) {
    if (!files_->Hide(path)) return;
    Note(PathText(path) + " is left aside: " + std::string(why.message()));
  }

  // Hides damaged lists, and removes hidden lists from the markers that mention
  // them, because readers would look for them. This comes first, because the
  // other repairs consult the lists.
  void HideDamagedLists() {
    for (const std::string& path : files_->Below("")) {
      const std::string directory = DirectoryOfPath(path);
      const std::string_view name =
          std::string_view(path).substr(directory.size());
      if (name == kDigestFile) (void)ListOf(directory);
    }
    for (const std::string& path : files_->Below("")) {
      const std::string directory = DirectoryOfPath(path);
      const std::string_view name =
          std::string_view(path).substr(directory.size());
      if (name == kCommitMarkerFile) LookAtMarker(directory);
    }
  }

  void LookAtMarker(const std::string& directory) {
    const std::string path = directory + std::string(kCommitMarkerFile);
    const std::string list = directory + std::string(kDigestFile);
    const Result<Bytes> text = ReadPath(path);
    if (files_->Has(list) || !text.ok() ||
        !MarkerTellsOfDigests(text->view())) {
      return;
    }
    if (!damaged_lists_.contains(list)) {
      repairs_.checksums_are_known = false;
      Note(PathText(list) + " is gone: " + PathText(path) +
           " says that the checkpoint was saved with it");
    }
    // Remove the list's mention from the marker.
    const std::string_view first_line =
        text->view().substr(0, text->view().find('\n'));
    files_->Put(path, Bytes(std::string(first_line)));
  }

  // Gives items with temporary names, whose save was unfinished, their final
  // names.
  void RenameUnfinished() {
    std::map<std::string, std::string> renames;
    for (const auto& [path, file] : files_->files()) {
      const size_t slash = path.find('/');
      if (slash == path.npos) continue;
      const std::string name = path.substr(0, slash);
      const auto final_name = FinalName(name);
      if (final_name && !final_name->empty()) {
        renames.emplace(name + "/", *final_name + "/");
      }
    }
    for (const auto& [from, to] : renames) {
      if (!files_->Below(to).empty()) {
        Note(PathText(from) + " is left aside: there is " + to + ", too");
        files_->HideBelow(from);
      } else {
        files_->RenameDirectory(from, to);
      }
    }
  }

  // Returns the directories that contain trees of arrays.
  std::set<std::string> ItemDirectories() const {
    std::set<std::string> found;
    std::set<std::string> of_zarr;
    for (const auto& [path, file] : files_->files()) {
      const std::string directory = DirectoryOfPath(path);
      const std::string name = path.substr(directory.size());
      if (name == kTreeMetadataFile || name == kShardingFile) {
        found.insert(directory);
      }
      if (IsZarrFile(path) && !directory.empty()) {
        of_zarr.insert(
            DirectoryOfPath(directory.substr(0, directory.size() - 1)));
      }
      AddDatabaseOf(path, found);
    }
    for (const std::string& directory : of_zarr) {
      const bool is_inside = std::ranges::any_of(found, [&](const auto& item) {
        return directory.starts_with(item) && files_->Has(item + "_METADATA");
      });
      if (!is_inside) found.insert(directory);
    }
    return found;
  }

  static void AddDatabaseOf(const std::string& path,
                            std::set<std::string>& found) {
    // The first of these names in the path is directly in the item's directory.
    for (size_t begin = 0; begin < path.size();) {
      const size_t slash = std::min(path.find('/', begin), path.size());
      const std::string name = path.substr(begin, slash - begin);
      const bool is_directory = slash < path.size();
      const bool is_part =
          is_directory ? name == "d" || name == kArrayMetadatasDirectory ||
                             ParseProcessDirectory(name).has_value()
                       : name == kManifestFile;
      if (is_part) {
        found.insert(path.substr(0, begin));
        return;
      }
      begin = slash + 1;
    }
  }

  Status RepairItem(const std::string& directory) {
    const std::optional<DigestIndex> list = ListOf(directory);
    const std::optional<TreeMetadata> tree = TreeOf(directory);
    std::vector<std::string> names = NamesOf(directory, tree);
    const bool is_database =
        HasDatabase(directory) && !(tree && tree->use_ocdbt == false);
    if (!tree && !HasAggregate(directory)) {
      if (list) HideChangedArrays(directory, *list);
      SeeAsBareArrays(directory, names, is_database || HasZarr(directory));
    }
    if (!is_database) {
      if (HasZarr(directory)) repairs_.refuses_missing = true;
      return Status();
    }
    return RepairDatabaseOf(directory, list, std::move(names));
  }

  std::optional<DigestIndex> ListOf(const std::string& directory) {
    const std::string path = directory + std::string(kDigestFile);
    if (!files_->Has(path)) return std::nullopt;
    const Result<Bytes> text = ReadPath(path);
    auto list = text.ok() ? DigestIndex::Parse(text->view())
                          : Result<DigestIndex>(text.status());
    if (list.ok()) return std::move(list).value();
    HideDamaged(path, list.status());
    damaged_lists_.insert(path);
    repairs_.checksums_are_known = false;
    return std::nullopt;
  }

  void ForEachList(const std::function<void(const std::string& directory,
                                            const DigestIndex& list)>& fn) {
    for (const std::string& path : files_->Below("")) {
      const std::string directory = DirectoryOfPath(path);
      if (path.substr(directory.size()) != kDigestFile) continue;
      const std::optional<DigestIndex> list = ListOf(directory);
      if (list) fn(directory, *list);
    }
  }

  // Hides bare arrays whose metadata have changed. Bare arrays are opened
  // together, so a single array that cannot be opened would make all others
  // unreadable.
  void HideChangedArrays(const std::string& directory,
                         const DigestIndex& list) {
    for (const FileDigest& row : list.files()) {
      const std::string of_array = DirectoryOfPath(row.path);
      if (of_array.empty() || !IsZarrFile(row.path)) continue;
      const Status same = CheckListed(directory, row);
      if (same.ok()) continue;
      files_->Hide(directory + row.path);
      const std::string name = of_array.substr(0, of_array.size() - 1);
      repairs_.lost.push_back({NamePrefixOf(directory) + name,
                               directory + row.path, std::nullopt,
                               std::string(same.message()), false});
    }
  }

  // Compares a file with its checksum. Returns ok if the file does not exist.
  Status CheckListed(const std::string& directory, const FileDigest& row) {
    if (!files_->Has(directory + row.path)) return Status();
    const auto store = RepairedFiles::StoreOf(files_, directory);
    const Result<FileDigest> sum = SumFile(*store, row.path);
    return sum.ok() ? DigestIndex::CheckSum(row, *sum).WithContext(
                          PathText(directory + row.path))
                    : sum.status();
  }

  // Hides metadata that differ from what was saved, because they cannot be
  // trusted.
  void HideChanged(const std::string& directory, const DigestIndex& list) {
    for (const FileDigest& row : list.files()) {
      const bool is_metadata =
          row.path == kTreeMetadataFile || row.path == kShardingFile ||
          row.path == kCheckpointMetadataFile || row.path == kManifestFile ||
          row.path.starts_with(std::string(kArrayMetadatasDirectory) + "/");
      if (!is_metadata) continue;
      const Status same = CheckListed(directory, row);
      if (!same.ok()) HideDamaged(directory + row.path, same);
    }
  }

  // Gives truncated files their old lengths, with holes, so that the values
  // before the holes can be read.
  void AddHoles(const std::string& directory, const DigestIndex& list) {
    for (const ValueDigest& row : list.values()) {
      const auto file = files_->files().find(directory + row.path);
      if (file == files_->files().end()) continue;
      const uint64_t end = EndOf(row);
      const bool is_cut = file->second.byte_count < end &&
                          file->second.kept_bytes == file->second.byte_count;
      const bool is_known = file->second.byte_count > file->second.kept_bytes;
      if (is_cut || (is_known && file->second.byte_count < end)) {
        files_->Patch(file->first, file->second.kept_bytes, {}, end);
      }
    }
  }

  std::optional<TreeMetadata> TreeOf(const std::string& directory) {
    const std::string path = directory + std::string(kTreeMetadataFile);
    if (!files_->Has(path)) return std::nullopt;
    const Result<Bytes> text = ReadPath(path);
    auto tree = text.ok() ? ParseTreeMetadata(text->view())
                          : Result<TreeMetadata>(text.status());
    if (tree.ok()) return std::move(tree).value();
    HideDamaged(path, tree.status());
    return std::nullopt;
  }

  bool HasAggregate(const std::string& directory) {
    const std::string path = directory + std::string(kAggregateFile);
    if (!files_->Has(path)) return false;
    const Result<Bytes> text = ReadPath(path);
    const Status parsed =
        text.ok() ? ParseAggregate(text->view()).status() : text.status();
    if (!parsed.ok()) HideDamaged(path, parsed);
    return parsed.ok();
  }

  // Returns the names of the item's arrays, as far as any file records them.
  std::vector<std::string> NamesOf(const std::string& directory,
                                   const std::optional<TreeMetadata>& tree) {
    std::vector<std::string> names;
    if (tree) {
      for (const TreeMetadataEntry& entry : tree->entries) {
        names.push_back(ParamName(entry.path));
      }
    }
    const std::string below =
        directory + std::string(kArrayMetadatasDirectory) + "/";
    for (const std::string& path : files_->Below(below)) {
      const Result<Bytes> text = ReadPath(path);
      if (!text.ok()) continue;
      const auto records = ParseArrayMetadatas(text->view());
      if (!records.ok()) {
        // The file matters only for the kinds of keys.
        HideDamaged(path, records.status());
        continue;
      }
      for (const ArrayMetadataRecord& record : *records) {
        if (!tree) names.push_back(record.param_name);
      }
    }
    return names;
  }

  bool HasDatabase(const std::string& directory) const {
    if (files_->Has(directory + std::string(kManifestFile))) return true;
    if (!files_->Below(directory + "d/").empty()) return true;
    const std::string below = directory + std::string(kProcessDirectoryPrefix);
    return std::ranges::any_of(
        files_->Below(below), [&](const std::string& path) {
          const std::string rest = path.substr(directory.size());
          return ParseProcessDirectory(rest.substr(0, rest.find('/')))
              .has_value();
        });
  }

  bool HasZarr(const std::string& directory) const {
    return std::ranges::any_of(files_->Below(directory), IsZarrFile);
  }

  // Makes readers open an item without `_METADATA` as bare arrays: hides the
  // files that mark it as a tree.
  void SeeAsBareArrays(const std::string& directory,
                       const std::vector<std::string>& names, bool has_arrays) {
    if (!has_arrays) return;
    const bool is_marked =
        files_->Has(directory + std::string(kShardingFile)) ||
        files_->Has(directory + std::string(kCommitMarkerFile)) ||
        files_->Has(directory + std::string(kDigestFile)) ||
        files_->Has(directory + std::string(kCheckpointMetadataFile)) ||
        !names.empty() || !directory.empty();
    bare_items_.insert(directory);
    if (!is_marked) return;
    repairs_.names_are_known = false;
    ExpectStrings(directory);
    for (const std::string& name : names) {
      repairs_.expected_names.insert(NamePrefixOf(directory) + name);
    }
    Note(PathText(directory + std::string(kTreeMetadataFile)) +
         " is gone: names are those of the arrays' own keys, without a tree, "
         "and every leaf is an array");
    files_->Hide(directory + std::string(kShardingFile));
    files_->Hide(directory + std::string(kCommitMarkerFile));
  }

  // Reports the item's strings as lost. They are stored in a separate file, and
  // without `_METADATA` no reader connects them with leaves.
  void ExpectStrings(const std::string& directory) {
    const std::string path = directory + std::string(kStringsFile);
    if (!files_->Has(path)) return;
    const Result<Bytes> text = ReadPath(path);
    if (!text.ok()) return;
    const auto strings = ParseStringsFile(text->view());
    if (!strings.ok()) return;
    for (const auto& [name, value] : *strings) {
      repairs_.lost.push_back(
          {NamePrefixOf(directory) + name, path, std::nullopt,
           "it is a string, and _METADATA is missing", false});
    }
  }

  Status RepairDatabaseOf(const std::string& directory,
                          const std::optional<DigestIndex>& list,
                          std::vector<std::string> names) {
    const auto store = RepairedFiles::StoreOf(files_, directory);
    std::shared_ptr<Store> checked = store;
    if (list) {
      checked = std::make_shared<CheckedStore>(
          store, std::make_shared<const DigestIndex>(*list));
    }
    HF_ASSIGN_OR_RETURN(
        auto repaired,
        RepairDatabase({store.get(), checked.get(), std::move(names)},
                       cancel_));
    if (!repaired) return Status();
    repairs_.refuses_missing = true;
    for (std::string& note : repaired->notes) Note(note);
    files_->Hide(directory + std::string(kManifestFile));
    Note("the database " + PathText(directory) + " was put together again: " +
         std::to_string(repaired->key_count) + " keys");
    if (repaired->files == nullptr) return Status();
    return repaired->files->List(
        "", [&](std::string_view key, const ObjectInfo&) -> Status {
          HF_ASSIGN_OR_RETURN(Bytes bytes, repaired->files->Read(key));
          files_->Put(directory + std::string(key), std::move(bytes));
          return Status();
        });
  }

  // Changes the checkpoint's metadata, so that it counts as committed and names
  // only items that exist.
  void RepairCheckpointMetadata() {
    const std::string path(kCheckpointMetadataFile);
    if (!files_->Has(path)) return;
    const Result<Bytes> text = ReadPath(path);
    auto metadata = text.ok() ? ParseCheckpointMetadata(text->view())
                              : Result<CheckpointMetadata>(text.status());
    if (!metadata.ok()) {
      HideDamaged(path, metadata.status());
      return;
    }
    if (bare_items_.contains("")) {
      if (metadata->custom_metadata.is_object() &&
          !metadata->custom_metadata.empty()) {
        repairs_.custom_metadata = PythonJsonText(metadata->custom_metadata);
      }
      files_->Hide(path);
      return;
    }
    bool is_changed = DropLostItems(*metadata);
    if (metadata->init_timestamp_nsecs && !metadata->commit_timestamp_nsecs) {
      metadata->commit_timestamp_nsecs = metadata->init_timestamp_nsecs;
      Note(PathText(path) + ": the save never ended");
      is_changed = true;
    }
    if (is_changed) {
      files_->Put(path, Bytes(SerializeCheckpointMetadata(*metadata)));
    }
  }

  // Returns true if the directory has no files except a commit marker.
  bool HoldsNothing(const std::string& directory) const {
    return std::ranges::all_of(
        files_->Below(directory), [&](const std::string& path) {
          return path == directory + std::string(kCommitMarkerFile);
        });
  }

  bool DropLostItems(CheckpointMetadata& metadata) {
    auto* items = std::get_if<CompositeHandlers>(&metadata.item_handlers);
    if (items == nullptr) return false;
    return std::erase_if(*items, [&](const auto& item) {
             const std::string directory = item.first + "/";
             if (HoldsNothing(directory) && CheckKey(item.first).ok()) {
               repairs_.lost.push_back(
                   {item.first, directory, std::nullopt,
                    "the item is gone: the checkpoint was saved with it",
                    false});
               return true;
             }
             return bare_items_.contains(directory);
           }) > 0;
  }

  // Removes hidden and replaced files from the lists. Repairs the lists of
  // inner directories first, because the lists above contain them.
  void RepairLists() {
    std::vector<std::string> paths;
    for (const auto& [path, file] : files_->files()) {
      if (path.substr(DirectoryOfPath(path).size()) == kDigestFile) {
        paths.push_back(path);
      }
    }
    std::ranges::sort(paths, [](const std::string& a, const std::string& b) {
      return std::ranges::count(a, '/') > std::ranges::count(b, '/');
    });
    for (const std::string& path : paths) RepairList(path);
  }

  void RepairList(const std::string& path) {
    const Result<Bytes> text = ReadPath(path);
    auto list = text.ok() ? ParseDigestFile(text->view())
                          : Result<DigestFile>(text.status());
    if (!list.ok()) {
      HideDamaged(path, list.status());
      return;
    }
    const std::string directory = DirectoryOfPath(path);
    const auto is_gone = [&](const FileDigest& row) {
      const bool is_list =
          row.path.substr(DirectoryOfPath(row.path).size()) == kDigestFile;
      const std::string there = directory + row.path;
      const bool is_there = files_->Has(there) ||
                            damaged_lists_.contains(there) ||
                            files_->Below(DirectoryOfPath(there)).empty();
      if (is_list && !is_there) {
        repairs_.checksums_are_known = false;
        Note(PathText(there) + " is gone: " + PathText(path) + " lists it");
      }
      return !files_->Has(directory + row.path) ||
             files_->IsReplaced(directory + row.path);
    };
    const auto is_replaced = [&](const ValueDigest& row) {
      return files_->IsReplaced(directory + row.path) ||
             (row.path == kManifestFile && !files_->Has(directory + row.path));
    };
    const size_t dropped = std::erase_if(list->files, is_gone) +
                           std::erase_if(list->values, is_replaced);
    if (dropped > 0) files_->Put(path, Bytes(SerializeDigestFile(*list)));
  }

  const FilesPtr& files_;
  const CancelToken* const cancel_;
  Repairs& repairs_;
  std::set<std::string> bare_items_;
  std::set<std::string> damaged_lists_;
};

}  // namespace

Status RepairOrbax(const FilesPtr& files, const CancelToken* cancel,
                   Repairs& repairs) {
  return OrbaxRepairer(files, cancel, repairs).Run();
}

}  // namespace holdfast
