#include "holdfast/detail/partial_save.h"

#include <unistd.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "engine/format/directory_names.h"
#include "ground/base/no_throw.h"
#include "ground/base/status_macros.h"
#include "ground/json/text.h"
#include "ground/tree/key_path.h"
#include "holdfast/detail/checked_file.h"
#include "holdfast/detail/places.h"
#include "holdfast/orbax/type_handlers.h"
#include "holdfast/pending_save.h"
#include "stores/place/directory_ops.h"
#include "stores/place/place.h"

namespace holdfast {
namespace {

using Json = nlohmann::ordered_json;
using Names = std::vector<std::string>;

constexpr std::string_view kPendingInfix = ".pending_";
constexpr const char* kTreeMember = "tree_metadata";
// The files of the directory's own database. The merge writes new ones for all
// parts together.
constexpr std::string_view kDatabaseParts[] = {kManifestFile, "d"};

Status ReplacedError(const std::string& key) {
  return FailedPreconditionError(
      "Key \"" + key +
      "\" was found in a previous partial save in this session. Partial saving "
      "currently does not support REPLACEMENT.");
}

// Returns the directories of a session's saves, in order.
Result<std::vector<Place>> PartsOf(const Place& session) {
  std::vector<Place> parts;
  HF_ASSIGN_OR_RETURN(const bool is_there, LeadsToDirectory(session));
  if (!is_there) return parts;
  HF_ASSIGN_OR_RETURN(const Names names, ListDirectory(session));
  for (const std::string& name : names) {
    if (name.find(kPendingInfix) == name.npos || IsTemporaryName(name)) {
      continue;
    }
    parts.push_back(session / name);
  }
  return parts;
}

Result<std::vector<Place>> ItemsOf(const Place& part) {
  HF_ASSIGN_OR_RETURN(const Names names, ListDirectory(part));
  std::vector<Place> items;
  for (const std::string& name : names) {
    HF_ASSIGN_OR_RETURN(const bool is_item, LeadsToDirectory(part / name));
    if (is_item) items.push_back(part / name);
  }
  return items;
}

Result<Json> ReadJsonObject(const Place& file) {
  HF_ASSIGN_OR_RETURN(const std::string text, ReadCheckedFile(file.path()));
  Result<Json> value = ParseJsonText(text);
  if (!value.ok()) {
    return InvalidArgumentError("Failed to read metadata from " + file.path() +
                                ".");
  }
  if (value->is_object()) return value;
  return InvalidArgumentError(file.path() + " holds no JSON object");
}

// Returns the keys that lead to the leaf of an entry of `_METADATA`.
Result<Names> NamesOfEntry(const std::string& key, const Json& entry) {
  const auto fail = [&] {
    return InvalidArgumentError("_METADATA: the entry of " + key +
                                " has no key_metadata");
  };
  if (!entry.is_object()) return fail();
  const auto elements = entry.find("key_metadata");
  if (elements == entry.end() || !elements->is_array()) return fail();
  Names names;
  for (const Json& element : *elements) {
    if (!element.is_object()) return fail();
    const auto name = element.find("key");
    if (name == element.end()) return fail();
    names.push_back(name->is_string() ? name->get<std::string>()
                                      : name->dump());
  }
  return names;
}

// The leaves of an item, and the containers that lead to them.
struct SavedKeys {
  std::set<Names> leaves;
  std::set<Names> containers;

  void Add(const Names& names) {
    leaves.insert(names);
    for (auto end = names.begin(); end != names.end(); ++end) {
      containers.insert(Names(names.begin(), end));
    }
  }

  bool Has(const Names& names) const {
    if (containers.contains(names)) return true;
    for (size_t count = 0; count <= names.size(); ++count) {
      if (leaves.contains(Names(names.begin(), names.begin() + count))) {
        return true;
      }
    }
    return false;
  }
};

Status AddKeysOfItem(const Place& item, SavedKeys& saved) {
  const Place file = item / kTreeMetadataFile;
  HF_ASSIGN_OR_RETURN(const bool is_there, LeadsToAnything(file));
  if (!is_there) return Status();
  HF_ASSIGN_OR_RETURN(const Json metadata, ReadJsonObject(file));
  const auto entries = metadata.find(kTreeMember);
  if (entries == metadata.end()) return Status();
  for (const auto& [key, entry] : entries->items()) {
    HF_ASSIGN_OR_RETURN(const Names names, NamesOfEntry(key, entry));
    saved.Add(names);
  }
  return Status();
}

Status RemoveIfThere(const Place& place) {
  HF_ASSIGN_OR_RETURN(const bool is_directory, LeadsToDirectory(place));
  if (is_directory) return RemoveTree(place);
  return place.parent().OpenStore()->Delete(place.name());
}

bool HasDatabases(const Names& names) {
  for (const std::string& name : names) {
    if (name.starts_with(kProcessDirectoryPrefix)) return true;
  }
  return false;
}

bool IsDatabasePart(std::string_view name) {
  for (const std::string_view part : kDatabaseParts) {
    if (name == part) return true;
  }
  return false;
}

Status PrepareDirectory(const Place& directory) {
  HF_RETURN_IF_ERROR(RemoveIfThere(directory / kDigestFile));
  HF_RETURN_IF_ERROR(RemoveIfThere(directory / kFingerprintsFile));
  HF_ASSIGN_OR_RETURN(const Names names, ListDirectory(directory));
  if (!HasDatabases(names)) return Status();
  for (const std::string_view part : kDatabaseParts) {
    HF_RETURN_IF_ERROR(RemoveIfThere(directory / part));
  }
  return Status();
}

Status MakeDirectory(const Place& directory) {
  if (directory.is_remote()) return Status();
  const Status made = CreateDirectoryNew(directory);
  return made.code() == StatusCode::kAlreadyExists ? Status() : made;
}

// Makes a hard link, or a copy if links are not possible.
Status LinkFile(const Place& source, const Place& target) {
  HF_ASSIGN_OR_RETURN(const bool is_taken, LeadsToAnything(target));
  if (is_taken) {
    return AlreadyExistsError("File collision on " + source.name() +
                              " during finalize. Overwriting destination file "
                              "is not allowed.");
  }
  const bool is_local = !source.is_remote() && !target.is_remote();
  if (is_local && link(source.path().c_str(), target.path().c_str()) == 0) {
    return Status();
  }
  return CopyPlaceFile(source.path(), target.path());
}

// Links a file, or everything in a directory.
Status LinkAll(const Place& source, const Place& target) {
  HF_ASSIGN_OR_RETURN(const bool is_directory, LeadsToDirectory(source));
  if (!is_directory) return LinkFile(source, target);
  HF_RETURN_IF_ERROR(MakeDirectory(target));
  HF_ASSIGN_OR_RETURN(const Names names, ListDirectory(source));
  for (const std::string& name : names) {
    HF_RETURN_IF_ERROR(LinkAll(source / name, target / name));
  }
  return Status();
}

// Returns {**first, **second}.
Json Joined(Json first, const Json& second) {
  for (const auto& [name, value] : second.items()) first[name] = value;
  return first;
}

// Joins the `_METADATA` of two parts. A container that is empty in one part may
// have members in the other.
Result<Json> JoinedTrees(const Json& first, const Json& second) {
  const Json none = Json::object();
  const Json& earlier = first.contains(kTreeMember) ? first[kTreeMember] : none;
  const Json& added = second.contains(kTreeMember) ? second[kTreeMember] : none;
  for (const auto& [key, entry] : added.items()) {
    if (earlier.contains(key)) return ReplacedError(key);
  }
  std::vector<std::pair<Names, const Json*>> order;
  std::vector<std::string> keys;
  SavedKeys all;
  for (const Json* entries : {&earlier, &added}) {
    for (const auto& [key, entry] : entries->items()) {
      HF_ASSIGN_OR_RETURN(Names names, NamesOfEntry(key, entry));
      all.Add(names);
      order.emplace_back(std::move(names), &entry);
      keys.push_back(key);
    }
  }
  Json kept = Json::object();
  for (size_t i = 0; i < order.size(); ++i) {
    if (all.containers.contains(order[i].first)) continue;
    kept[keys[i]] = *order[i].second;
  }
  Json joined = Joined(first, second);
  joined[kTreeMember] = std::move(kept);
  return joined;
}

Result<Json> JoinedMembers(const Json& first, const Json& second) {
  return Joined(first, second);
}

// Joins files of `array_metadatas`. The only member of such a file has the name
// of the directory.
Result<Json> JoinedArrays(const Json& first, const Json& second) {
  const std::string member(kArrayMetadatasDirectory);
  Json arrays = Json::array();
  for (const Json* file : {&first, &second}) {
    if (!file->contains(member)) continue;
    for (const Json& array : (*file)[member]) arrays.push_back(array);
  }
  Json joined = first;
  joined[member] = std::move(arrays);
  return joined;
}

using Join = Result<Json> (*)(const Json& first, const Json& second);

// Returns how to join files of this name; null for files that only one part may
// have.
Join JoinOf(std::string_view name) {
  if (name == kTreeMetadataFile) return JoinedTrees;
  if (name == kShardingFile || name == kStringsFile) return JoinedMembers;
  return nullptr;
}

Status AddJson(const Place& source, const Place& target, Join join) {
  HF_ASSIGN_OR_RETURN(Json value, ReadJsonObject(source));
  HF_ASSIGN_OR_RETURN(const bool has_earlier, LeadsToAnything(target));
  if (has_earlier) {
    HF_ASSIGN_OR_RETURN(const Json earlier, ReadJsonObject(target));
    HF_ASSIGN_OR_RETURN(value, join(earlier, value));
  }
  // The commit syncs this file with all others.
  return target.parent().OpenStore()->Write(
      target.name(), PythonJsonText(value), {.sync = false});
}

// Adds the files of a part's item to the item of the checkpoint.
Status AddItem(const Place& source, const Place& target,
               const std::string& part_id) {
  HF_RETURN_IF_ERROR(MakeDirectory(target));
  HF_ASSIGN_OR_RETURN(const Names names, ListDirectory(source));
  const bool has_databases = HasDatabases(names);
  for (const std::string& name : names) {
    if (name == kDigestFile || name == kFingerprintsFile ||
        (has_databases && IsDatabasePart(name))) {
      continue;
    }
    const Place from = source / name;
    const Place to = target / name;
    if (const Join join = JoinOf(name)) {
      HF_RETURN_IF_ERROR(AddJson(from, to, join));
    } else if (name == kArrayMetadatasDirectory) {
      HF_RETURN_IF_ERROR(MakeDirectory(to));
      HF_ASSIGN_OR_RETURN(const Names files, ListDirectory(from));
      for (const std::string& file : files) {
        HF_RETURN_IF_ERROR(AddJson(from / file, to / file, JoinedArrays));
      }
    } else if (name.starts_with(kProcessDirectoryPrefix)) {
      // The ID is added without "_", because the process's name is everything
      // after the first "_".
      HF_RETURN_IF_ERROR(LinkAll(from, target / (name + part_id)));
    } else {
      HF_RETURN_IF_ERROR(LinkAll(from, to));
    }
  }
  return Status();
}

// The members of the parts' `_CHECKPOINT_METADATA`, combined.
struct RootMembers {
  Json item_handlers = Json::object();
  Json custom_metadata = Json::object();

  Status Add(const Place& part) {
    const Place file = part / kCheckpointMetadataFile;
    HF_ASSIGN_OR_RETURN(const bool is_there, LeadsToAnything(file));
    if (!is_there) return Status();
    HF_ASSIGN_OR_RETURN(const Json metadata, ReadJsonObject(file));
    AddMember(metadata, "item_handlers", item_handlers);
    AddMember(metadata, "custom_metadata", custom_metadata);
    return Status();
  }

  static void AddMember(const Json& from, const char* name, Json& to) {
    const auto member = from.find(name);
    if (member != from.end() && member->is_object()) to = Joined(to, *member);
  }
};

// Returns the text after the last "_" of the part's name.
std::string IdOf(const Place& part) {
  const std::string name = part.name();
  return name.substr(name.rfind('_') + 1);
}

Status Finalize(const std::string& session, const std::string& path) {
  HF_ASSIGN_OR_RETURN(const std::unique_ptr<PendingSave> pending,
                      PendingSave::Begin(path, {}));
  const Place directory(pending->directory());
  RootMembers root;
  HF_ASSIGN_OR_RETURN(const std::vector<Place> parts, PartsOf(Place(session)));
  for (const Place& part : parts) {
    HF_ASSIGN_OR_RETURN(const std::vector<Place> items, ItemsOf(part));
    for (const Place& item : items) {
      HF_RETURN_IF_ERROR(AddItem(item, directory / item.name(), IdOf(part)));
    }
    HF_RETURN_IF_ERROR(root.Add(part));
  }
  HF_ASSIGN_OR_RETURN(const std::vector<Place> items, ItemsOf(directory));
  for (const Place& item : items) {
    HF_RETURN_IF_ERROR(MergeOcdbtPerProcessFiles(item.path()));
  }
  RootRecord record;
  record.item_handlers_json = PythonJsonText(root.item_handlers);
  if (!root.custom_metadata.empty()) {
    record.custom_metadata = PythonJsonText(root.custom_metadata);
  }
  record.is_v1 = true;
  HF_RETURN_IF_ERROR(pending->Commit(record));
  return RemoveTree(Place(session));
}

}  // namespace

Status CheckPartialSaveKeys(const std::string& session,
                            const std::vector<Names>& keys) {
  return CatchBadAlloc([&]() -> Status {
    SavedKeys saved;
    HF_ASSIGN_OR_RETURN(const std::vector<Place> parts,
                        PartsOf(Place(session)));
    for (const Place& part : parts) {
      HF_ASSIGN_OR_RETURN(const std::vector<Place> items, ItemsOf(part));
      for (const Place& item : items) {
        HF_RETURN_IF_ERROR(AddKeysOfItem(item, saved));
      }
    }
    for (const Names& names : keys) {
      if (!saved.Has(names)) continue;
      KeyPath path;
      for (const std::string& name : names) path.push_back({name});
      return ReplacedError(KeyPathRepr(path));
    }
    return Status();
  });
}

Status PreparePartialSave(const std::string& part) {
  return CatchBadAlloc([&]() -> Status {
    HF_RETURN_IF_ERROR(PrepareDirectory(Place(part)));
    HF_ASSIGN_OR_RETURN(const std::vector<Place> items, ItemsOf(Place(part)));
    for (const Place& item : items) HF_RETURN_IF_ERROR(PrepareDirectory(item));
    return Status();
  });
}

Status FinalizePartialSave(const std::string& session,
                           const std::string& path) {
  return CatchBadAlloc([&] { return Finalize(session, path); });
}

}  // namespace holdfast
