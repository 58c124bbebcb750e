#include "engine/commit/replaceable.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/check/digest_index.h"
#include "engine/commit/layout.h"
#include "engine/commit/unfinished.h"
#include "engine/format/checkpoint_metadata.h"
#include "engine/format/directory_names.h"
#include "engine/format/tree_metadata.h"
#include "engine/references/referrers.h"
#include "ground/base/status_macros.h"
#include "ground/tree/key_path.h"
#include "stores/place/directory_ops.h"
#include "stores/place/look.h"
#include "stores/place/well_known_names.h"
#include "stores/storage/new_file.h"
#include "stores/storage/nobodys_files.h"
#include "stores/storage/path_parts.h"

namespace holdfast {
namespace {

constexpr std::string_view kDeletionRecord = "_CHECKPOINT_DELETION";
constexpr std::string_view kPartPrefix = "_HOLDFAST_PART_";
constexpr std::string_view kZarrNames[] = {".zarray", ".zattrs", ".zgroup",
                                           ".zmetadata", "zarr.json"};
// Files that may be directly in a checkpoint or an item, whatever its kind.
constexpr std::string_view kItemFiles[] = {
    kTreeMetadataFile, kCheckpointMetadataFile,
    kShardingFile,     kStringsFile,
    kManifestFile,     kCommitMarkerFile,
    kV1MarkerFile,     kDigestFile,
    kFingerprintsFile, kSaveLease,
    kCopyJournal,      kDeletionRecord};
// One of these files suffices to identify a checkpoint.
constexpr std::string_view kCheckpointSigns[] = {
    kCheckpointMetadataFile, kTreeMetadataFile, kV1MarkerFile,
    kCommitMarkerFile};

bool IsOneOf(const auto& names, std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

bool IsAtOrBelow(std::string_view path, std::string_view directory) {
  return path == directory || (path.starts_with(directory) &&
                               path.substr(directory.size()).starts_with('/'));
}

std::string_view FirstPart(std::string_view path) {
  return path.substr(0, path.find('/'));
}

// Collects everything below a directory except directories. Links and devices
// are included, because they would be lost too.
Status CollectEntries(const Place& root, const std::string& directory,
                      std::vector<std::string>& files) {
  HF_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                      ListDirectory(root / directory));
  for (const std::string& name : names) {
    const std::string path = directory.empty() ? name : directory + "/" + name;
    HF_ASSIGN_OR_RETURN(const PathKind kind, GetPathKind(root / path));
    if (kind == PathKind::kDirectory) {
      HF_RETURN_IF_ERROR(CollectEntries(root, path, files));
    } else if (kind != PathKind::kMissing) {
      files.push_back(path);
    }
  }
  return Status();
}

// Returns whether the file `checkpoint` is flax's: a msgpack map whose first
// key is a string. TensorFlow's files and pickles begin differently.
bool IsAggregate(Store& store) {
  const auto info = store.Stat(kAggregateFile);
  if (!info.ok() || info->byte_count == 0) return false;
  const auto start =
      store.Read(kAggregateFile, {0, std::min<uint64_t>(info->byte_count, 6)});
  if (!start.ok()) return false;
  const std::string_view bytes = start->view();
  const auto first = static_cast<uint8_t>(bytes[0]);
  if (first == 0x80) return info->byte_count == 1;
  size_t key = 1;
  if (first == 0xde) {
    key = 3;
  } else if (first == 0xdf) {
    key = 5;
  } else if (first < 0x81 || first > 0x8f) {
    return false;
  }
  if (key >= bytes.size()) return false;
  const auto text = static_cast<uint8_t>(bytes[key]);
  return (text >= 0xa0 && text <= 0xbf) || (text >= 0xd9 && text <= 0xdb);
}

// The files that Orbax writes into the directory of an item, or of a checkpoint
// that is a single item.
class ItemFiles {
 public:
  // `files` are all files of the checkpoint, sorted; `directory` is the item's
  // path in the checkpoint.
  ItemFiles(const Place& root, std::string directory,
            const std::vector<std::string>& files)
      : directory_(std::move(directory)) {
    const std::string prefix = directory_.empty() ? "" : directory_ + "/";
    for (const std::string& file : files) {
      if (!file.starts_with(prefix)) continue;
      const std::string name = file.substr(prefix.size());
      names_.insert(name);
      const std::string_view last = LastPart(name);
      if (last == ".zarray" || last == "zarr.json") {
        arrays_.insert(std::string(ParentKey(name)));
      }
    }
    ReadFiles(*(root / directory_).OpenStore());
  }

  bool Has(std::string_view name) const {
    return names_.contains(std::string(name));
  }
  bool has_aggregate() const { return has_aggregate_; }
  bool has_digests() const { return has_digests_; }
  bool HasArrays() const {
    return std::any_of(
        arrays_.begin(), arrays_.end(),
        [](const std::string& a) { return a.find('/') == std::string::npos; });
  }

  // Returns whether the file, a path relative to the item, belongs to the item.
  bool Owns(std::string_view file) const {
    if (IsHiddenName(LastPart(file))) return true;
    if (listed_.contains(std::string(file))) return true;
    const size_t depth = PartCount(file);
    if (depth == 1 && IsOneOf(kItemFiles, file)) return true;
    if (depth == 1 && file == kAggregateFile) {
      return has_aggregate_ || Has(kTreeMetadataFile);
    }
    if (depth == 1 && file.starts_with(kPartPrefix)) return true;
    return (depth == 2 && ParentKey(file) == kArrayMetadatasDirectory) ||
           IsOfDatabase(file) || IsOfArray(file) || IsOfParameter(file);
  }

 private:
  void ReadFiles(Store& store) {
    if (Has(kAggregateFile)) has_aggregate_ = IsAggregate(store);
    if (Has(kDigestFile)) {
      const auto digests = DigestIndex::Read(store);
      has_digests_ = digests.ok() && digests->has_value();
      if (has_digests_) {
        for (const FileDigest& row : (*digests)->files()) {
          listed_.insert(row.path);
        }
        for (const ValueDigest& row : (*digests)->values()) {
          listed_.insert(row.path);
        }
        for (const SourceFile& row : (*digests)->sources()) {
          listed_.insert(row.path);
        }
      }
    }
    if (!Has(kTreeMetadataFile)) return;
    const auto text = store.Read(kTreeMetadataFile);
    if (!text.ok()) return;
    const auto metadata = ParseTreeMetadata(text->view());
    if (!metadata.ok()) return;
    for (const TreeMetadataEntry& entry : metadata->entries) {
      parameters_.insert(ParamName(entry.path));
    }
  }

  static bool IsDatabaseFile(std::string_view file) {
    return file == kManifestFile ||
           (PartCount(file) == 2 && FirstPart(file) == kDataDirectory);
  }
  bool IsOfDatabase(std::string_view file) const {
    if (IsDatabaseFile(file)) return Has(kManifestFile);
    const std::string_view first = FirstPart(file);
    return ParseProcessDirectory(first).has_value() &&
           file.size() > first.size() &&
           IsDatabaseFile(file.substr(first.size() + 1));
  }
  bool IsOfArray(std::string_view file) const {
    if (IsOneOf(kZarrNames, LastPart(file))) return true;
    for (std::string_view above = ParentKey(file);; above = ParentKey(above)) {
      if (arrays_.contains(std::string(above))) {
        return IsZarrChunkName(above.empty() ? file
                                             : file.substr(above.size() + 1));
      }
      if (above.empty()) return false;
    }
  }
  // Returns whether a file belongs to a parameter. A type handler writes into
  // files and directories named after the parameter.
  bool IsOfParameter(std::string_view file) const {
    for (std::string_view at = file; !at.empty(); at = ParentKey(at)) {
      if (parameters_.contains(std::string(at))) return true;
    }
    return false;
  }

  const std::string directory_;
  std::set<std::string> names_;
  std::set<std::string> arrays_;  // directories
  std::set<std::string> listed_;  // in `_HOLDFAST_DIGESTS`
  std::set<std::string> parameters_;
  bool has_aggregate_ = false;
  bool has_digests_ = false;
};

// The items, as `_CHECKPOINT_METADATA` describes them.
struct NamedItems {
  std::vector<std::string> names;
  // The checkpoint is one item, whose handler may write anything.
  bool is_of_another_handler = false;
  bool are_known = false;
};

NamedItems ReadNamedItems(const Place& place) {
  NamedItems items;
  const auto text = place.OpenStore()->Read(kCheckpointMetadataFile);
  if (!text.ok()) return items;
  const auto metadata = ParseCheckpointMetadata(text->view());
  if (!metadata.ok()) return items;
  const ItemHandlers& handlers = metadata->item_handlers;
  if (const auto* named = std::get_if<CompositeHandlers>(&handlers)) {
    items.are_known = !named->empty();
    for (const auto& [name, typestr] : *named) items.names.push_back(name);
  } else if (const auto* typestr = std::get_if<std::string>(&handlers)) {
    items.are_known = true;
    const ItemType type = ItemTypeFromTypestr(*typestr);
    items.is_of_another_handler =
        type != ItemType::kPyTree && type != ItemType::kStandard;
  }
  return items;
}

// Determines which item each file of the checkpoint belongs to.
class Owners {
 public:
  Owners(const Place& place, const std::vector<std::string>& files)
      : place_(place), files_(files), root_(place, "", files) {}

  bool IsCheckpoint() const {
    return std::any_of(std::begin(kCheckpointSigns), std::end(kCheckpointSigns),
                       [&](std::string_view s) { return root_.Has(s); }) ||
           root_.has_aggregate() || root_.Has(kManifestFile) ||
           root_.HasArrays();
  }

  // Returns the files that do not belong to the checkpoint.
  Result<std::vector<std::string>> Others() {
    named_ = ReadNamedItems(place_);
    HF_RETURN_IF_ERROR(FindItems());
    std::vector<std::string> others;
    for (const std::string& file : files_) {
      if (!IsOwned(file)) others.push_back(file);
    }
    return others;
  }

 private:
  // Finds the named items and the items inside them. If none is named, finds
  // directories that look like an item and are not checkpoints themselves.
  Status FindItems() {
    std::set<std::string> names(named_.names.begin(), named_.names.end());
    std::set<std::string> directories;
    for (const std::string& file : files_) {
      if (PartCount(file) < 2) continue;
      directories.emplace(FirstPart(file));
      const std::string_view last = LastPart(file);
      const std::string directory(ParentKey(file));
      const bool is_item = last == kTreeMetadataFile || last == kDigestFile;
      if (is_item && MayBeItem(directory)) names.insert(directory);
    }
    for (const std::string& name : directories) {
      if (named_.are_known || !MayBeItem(name)) continue;
      const auto item = ClassifyItem(place_ / name);
      const bool is_item = item.ok() && (item->kind == ItemKind::kPytree ||
                                         item->kind == ItemKind::kJson);
      if (is_item) names.insert(name);
    }
    for (const std::string& name : names) {
      items_.emplace_back(name, ItemFiles(place_, name, files_));
    }
    return Status();
  }

  bool MayBeItem(const std::string& directory) const {
    for (std::string_view at = directory; !at.empty(); at = ParentKey(at)) {
      const std::string own =
          std::string(at) + "/" + std::string(kCheckpointMetadataFile);
      if (root_.Has(own) || IsTemporaryName(LastPart(at))) return false;
    }
    return !named_.are_known ||
           std::any_of(named_.names.begin(), named_.names.end(),
                       [&](const std::string& name) {
                         return IsAtOrBelow(directory, name);
                       });
  }

  bool IsOwned(const std::string& file) const {
    if (root_.Owns(file)) return true;
    if (named_.is_of_another_handler && !root_.has_digests()) return true;
    for (const auto& [name, item] : items_) {
      if (!IsAtOrBelow(file, name) || file == name) continue;
      if (!root_.has_digests()) return true;
      const std::string_view inside =
          std::string_view(file).substr(name.size() + 1);
      if (item.Owns(inside)) return true;
    }
    return false;
  }

  const Place& place_;
  const std::vector<std::string>& files_;
  const ItemFiles root_;
  NamedItems named_;
  std::vector<std::pair<std::string, ItemFiles>> items_;
};

Status RefusedError(const std::string& path, const std::string& why) {
  return FailedPreconditionError("overwrite " + path + ": refused, because " +
                                 why);
}

}  // namespace

Result<std::vector<std::string>> EntriesBelow(const Place& place) {
  std::vector<std::string> files;
  if (place.is_remote()) {
    HF_ASSIGN_OR_RETURN(DirectoryTree tree, ListTree(place));
    files = std::move(tree.files);
  } else {
    HF_RETURN_IF_ERROR(CollectEntries(place, "", files));
  }
  std::erase_if(files, [](const std::string& f) { return IsNobodysPath(f); });
  std::sort(files.begin(), files.end());
  return files;
}

bool IsZarrChunkName(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= '0' && c <= '9') || c == '.' || c == '/' || c == 'c';
  });
}

Status HoldsMoreError(const std::string& path, std::string_view file) {
  return RefusedError(path, std::string(file) +
                                " in it does not belong to the checkpoint, "
                                "and would be lost");
}

Status CheckMayReplace(const std::string& path) {
  HF_RETURN_IF_ERROR(CheckMayReplacePlace(Place(path)));
  return CheckNothingNeeds(Place(path));
}

Status CheckMayReplacePlace(const Place& place) {
  HF_ASSIGN_OR_RETURN(const std::vector<std::string> others, OtherFiles(place));
  return others.empty() ? Status()
                        : HoldsMoreError(place.path(), others.front());
}

Result<std::vector<std::string>> OtherFiles(const Place& bare) {
  const LookScope scope(bare);
  const Place& place = scope.place();
  HF_ASSIGN_OR_RETURN(const bool holds_nothing, HoldsNothing(place));
  if (holds_nothing || IsBegunOnly(place)) return std::vector<std::string>();
  HF_ASSIGN_OR_RETURN(const auto files, EntriesBelow(place));
  Owners owners(place, files);
  if (!owners.IsCheckpoint()) {
    return RefusedError(
        place.path(),
        "it is neither a checkpoint nor an empty directory" +
            (files.empty() ? "" : " (it holds " + files[0] + ")"));
  }
  return owners.Others();
}

Result<bool> HoldsCheckpoint(const std::string& path) {
  return PlaceHoldsCheckpoint(Place(path));
}

Result<bool> PlaceHoldsCheckpoint(const Place& place) {
  HF_ASSIGN_OR_RETURN(const HeldFormat format, FormatHeldAt(place));
  return format != HeldFormat::kNone;
}

Result<HeldFormat> FormatHeldAt(const Place& bare) {
  const LookScope scope(bare);
  const Place& place = scope.place();
  HF_ASSIGN_OR_RETURN(const bool is_there, LeadsToDirectory(place));
  if (!is_there) return HeldFormat::kNone;
  for (const std::string_view sign : kCheckpointSigns) {
    HF_ASSIGN_OR_RETURN(const PathKind kind, GetPathKind(place / sign));
    if (kind == PathKind::kFile) return HeldFormat::kOrbax;
  }
  HF_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                      ListDirectory(place));
  const auto has = [&](std::string_view name) { return IsOneOf(names, name); };
  // Signs of other formats: DCP, Megatron, safetensors.
  if (has(".metadata") || (has("metadata.json") && has("common.pt"))) {
    return HeldFormat::kOther;
  }
  if (has(kAggregateFile) && IsAggregate(*place.OpenStore())) {
    return HeldFormat::kOrbax;
  }
  for (const std::string& name : names) {
    if (name.ends_with(".safetensors")) return HeldFormat::kOther;
    const Place below = place / name;
    HF_ASSIGN_OR_RETURN(const bool is_directory, LeadsToDirectory(below));
    if (!is_directory) continue;
    HF_ASSIGN_OR_RETURN(const PathKind own,
                        GetPathKind(below / kCheckpointMetadataFile));
    if (own != PathKind::kMissing) continue;  // a checkpoint, not an item
    HF_ASSIGN_OR_RETURN(const PathKind tree,
                        GetPathKind(below / kTreeMetadataFile));
    if (tree == PathKind::kFile || IsAggregate(*below.OpenStore())) {
      return HeldFormat::kOrbax;
    }
  }
  return HeldFormat::kNone;
}

}  // namespace holdfast
