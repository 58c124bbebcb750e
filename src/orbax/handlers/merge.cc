// Merges the processes' databases into the database that readers use.
#include "formats/ocdbt/merge.h"

#include <algorithm>
#include <set>

#include "engine/check/checked_files.h"
#include "engine/format/directory_names.h"
#include "engine/save/adopt.h"
#include "ground/base/no_throw.h"
#include "ground/base/status_macros.h"
#include "holdfast/orbax/type_handlers.h"
#include "stores/place/directory_ops.h"
#include "stores/place/place.h"

namespace holdfast {
namespace {

// Returns where a value is stored, relative to the root, or the inline value
// itself.
std::string PlaceOf(const ocdbt::LeafEntry& entry, const std::string& prefix,
                    const ocdbt::EntryList& list) {
  if (entry.is_inline()) return "=" + std::string(entry.inline_value());
  return prefix + list.files[entry.file_index].path + ":" +
         std::to_string(entry.offset) + ":" +
         std::to_string(entry.value_byte_count);
}

using Places = std::vector<std::pair<std::string, std::string>>;

Places PlacesOf(const std::vector<ocdbt::MergeChild>& children) {
  Places places;
  for (const ocdbt::MergeChild& child : children) {
    for (const ocdbt::LeafEntry& entry : child.entries.entries) {
      places.emplace_back(entry.key,
                          PlaceOf(entry, child.subdirectory, child.entries));
    }
  }
  std::sort(places.begin(), places.end());
  return places;
}

bool HasKey(const Places& places, const std::string& key) {
  const auto found = std::lower_bound(places.begin(), places.end(),
                                      std::pair(key, std::string()));
  return found != places.end() && found->first == key;
}

// Returns whether the root already has all wanted values, with their current
// places.
bool IsMerged(const Places& root, const Places& wanted) {
  return std::includes(root.begin(), root.end(), wanted.begin(), wanted.end());
}

bool IsChunkName(std::string_view name) {
  // A chunk name is numbers between dots: "0", "1.0.2".
  bool wants_digit = true;
  for (const char c : name) {
    const bool is_digit = c >= '0' && c <= '9';
    if (!is_digit && (c != '.' || wants_digit)) return false;
    wants_digit = !is_digit;
  }
  return !wants_digit;
}

Status MissingError(const std::set<std::string>& has,
                    const std::set<std::string>& wants, const char* what,
                    size_t count, const std::string& directory) {
  std::string names;
  size_t missing = 0;
  for (const std::string& name : has) {
    if (wants.contains(name)) continue;
    names += missing++ == 0 ? name : " \n" + name;
  }
  if (missing == 0) return Status();
  return InvalidArgumentError("Save failed: " + std::to_string(missing) + "/" +
                              std::to_string(count) + " params are missing" +
                              what + " in checkpoint:\n" + names +
                              ".\nTensorstore KvStore: " + directory + ".");
}

// Refuses zarr 2 arrays that have metadata but no chunk, or chunks but no
// metadata.
Status CheckArraysAreWhole(const std::vector<ocdbt::MergeChild>& children,
                           const std::string& directory) {
  std::set<std::string> described, stored;
  for (const ocdbt::MergeChild& child : children) {
    for (const ocdbt::LeafEntry& entry : child.entries.entries) {
      const std::string key(entry.key);
      const size_t slash = key.rfind('/');
      const size_t begin = slash == key.npos ? 0 : slash + 1;
      const std::string name = key.substr(begin);
      const std::string array = key.substr(0, begin == 0 ? 0 : slash);
      if (name == ".zarray") {
        described.insert(array);
      } else {
        stored.insert(IsChunkName(name) ? array : key);
      }
    }
  }
  std::set<std::string> all = described;
  all.insert(stored.begin(), stored.end());
  HF_RETURN_IF_ERROR(
      MissingError(described, stored, "", all.size(), directory));
  return MissingError(stored, described, " .zarray", all.size(), directory);
}

Status Merge(const std::string& directory, const OcdbtMergeOptions& wants) {
  const std::shared_ptr<Store> store = Place(directory).OpenStore();
  HF_ASSIGN_OR_RETURN(const std::vector<std::string> prefixes,
                      FindProcessDatabases(*store));
  if (prefixes.empty()) return Status();
  std::vector<ocdbt::MergeChild> children;
  HF_RETURN_IF_ERROR(AddAdoptedDatabases(*store, prefixes, nullptr, children));
  if (wants.enable_validation) {
    HF_RETURN_IF_ERROR(CheckArraysAreWhole(children, directory));
  }
  if (IsOcdbtCheckpoint(directory)) {
    HF_ASSIGN_OR_RETURN(ocdbt::MergeChild root, ReadDatabase(*store, ""));
    const Places wanted = PlacesOf(children);
    if (IsMerged(PlacesOf({root}), wanted)) return Status();
    // The children's entries replace the root's.
    std::erase_if(root.entries.entries, [&](const ocdbt::LeafEntry& entry) {
      return HasKey(wanted, std::string(entry.key));
    });
    children.push_back(std::move(root));
    HF_RETURN_IF_ERROR(DropDigests(*store));
  }
  ocdbt::BulkWriteOptions options;
  options.must_create = false;
  return ocdbt::MergeEntries(store.get(), "", std::move(children), options)
      .status();
}

}  // namespace

bool IsOcdbtCheckpoint(const std::string& directory) {
  return IsThere(Place(directory + "/" + std::string(kManifestFile)));
}

Status MergeOcdbtPerProcessFiles(const std::string& directory,
                                 const OcdbtMergeOptions& options) {
  return CatchBadAlloc([&] { return Merge(directory, options); });
}

}  // namespace holdfast
