// Records that an item is being deleted, and finishes the deletion.
//
// Source: orbax-checkpoint 0.12.8, _src of v1, checkpoint deletion.
#include "holdfast/detail/item_deletion.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <utility>

#include "engine/format/directory_names.h"
#include "ground/base/no_throw.h"
#include "ground/base/sha256.h"
#include "ground/base/status_macros.h"
#include "ground/json/text.h"
#include "ground/tree/python_repr.h"
#include "holdfast/detail/checked_file.h"
#include "stores/place/directory_ops.h"
#include "stores/storage/errno_status.h"

namespace holdfast {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kOperationIdSize = 32;
// Names that no user's item has.
constexpr std::string_view kReserved[] = {"metrics", "AUTO",
                                          kDeletionRecordFile};

bool IsReserved(std::string_view item) {
  return std::find(std::begin(kReserved), std::end(kReserved), item) !=
         std::end(kReserved);
}

struct DeletionRecord {
  std::string operation_id;
  std::string item;
  Json original_metadata;
  Json updated_metadata;
};

Result<Json> ReadObject(Store& store, std::string_view name) {
  HF_ASSIGN_OR_RETURN(const Bytes text, store.Read(name));
  HF_ASSIGN_OR_RETURN(Json object, ParseJsonText(text.view()));
  if (object.is_object()) return object;
  return DataLossError("Expected a metadata dictionary at " +
                       store.Describe(name) + ".");
}

// Returns the metadata without the item.
Result<Json> WithoutItem(const Json& metadata, const std::string& item) {
  const auto handlers =
      metadata.is_object() ? metadata.find("item_handlers") : metadata.end();
  if (!metadata.is_object() || handlers == metadata.end() ||
      !handlers->is_object() || !handlers->contains(item)) {
    return InvalidArgumentError("No handler metadata for checkpointable '" +
                                item + "'.");
  }
  Json rest = metadata;
  rest["item_handlers"].erase(item);
  return rest;
}

// Returns whether both are equal, whatever the order of their members.
bool AreEqual(const Json& a, const Json& b) {
  return nlohmann::json(a) == nlohmann::json(b);
}

bool IsOperationId(const std::string& text) {
  return text.size() == kOperationIdSize &&
         text.find_first_not_of("0123456789abcdef") == text.npos;
}

Result<std::string> TextMember(const Json& record, const char* name) {
  const auto member = record.find(name);
  if (member != record.end() && member->is_string()) {
    return member->get<std::string>();
  }
  return InvalidArgumentError("'" + std::string(name) + "' is not a string");
}

// Parses a record, and checks that it fits the checkpoint.
Result<DeletionRecord> RecordOf(Store& store, const Json& text) {
  DeletionRecord record;
  HF_ASSIGN_OR_RETURN(record.operation_id, TextMember(text, "operation_id"));
  HF_ASSIGN_OR_RETURN(record.item, TextMember(text, "checkpointable_name"));
  record.original_metadata = text.value("original_metadata", Json());
  record.updated_metadata = text.value("updated_metadata", Json());
  HF_RETURN_IF_ERROR(CheckDeletableItem(record.item));
  if (!IsOperationId(record.operation_id)) {
    return InvalidArgumentError("Missing operation id.");
  }
  HF_ASSIGN_OR_RETURN(const Json updated,
                      WithoutItem(record.original_metadata, record.item));
  if (!AreEqual(record.updated_metadata, updated)) {
    return InvalidArgumentError("Invalid replacement metadata.");
  }
  // Orbax relocates items only in object stores.
  if (!text.value("destination", Json()).is_null()) {
    return InvalidArgumentError("Invalid relocation destination.");
  }
  HF_ASSIGN_OR_RETURN(const Json current,
                      ReadObject(store, kCheckpointMetadataFile));
  if (!AreEqual(current, record.original_metadata) &&
      !AreEqual(current, record.updated_metadata)) {
    return InvalidArgumentError(
        "Checkpoint metadata conflicts with the deletion record.");
  }
  return record;
}

// Returns nullopt when no deletion is recorded.
Result<std::optional<DeletionRecord>> FindRecord(Store& store) {
  const Result<Json> text = ReadObject(store, kDeletionRecordFile);
  if (text.status().code() == StatusCode::kNotFound) {
    return std::optional<DeletionRecord>();
  }
  Result<DeletionRecord> record =
      text.ok() ? RecordOf(store, *text) : text.status();
  if (record.ok()) return std::optional(*std::move(record));
  return FailedPreconditionError("Invalid deletion record at " +
                                 store.Describe(kDeletionRecordFile) + ": " +
                                 std::string(record.status().message()));
}

// Like SetPermissions, which is only for directories.
Status SetFileMode(const Place& file, uint32_t mode) {
  const std::string& path = file.path();
  if (::chmod(path.c_str(), mode) == 0) return Status();
  return ErrnoStatus(errno, "set permissions of", path);
}

Status WriteText(Store& store, std::string_view name, const std::string& text,
                 bool must_create) {
  const std::string_view pieces[] = {text};
  WriteOptions options;
  options.must_create = must_create;
  HF_RETURN_IF_ERROR(store.Write(name, pieces, options));
  return store.SyncNames();
}

// Rewrites a file, keeping its permissions.
Status ReplaceText(const Place& place, std::string_view name,
                   const std::string& text) {
  const Place file = place / name;
  struct stat info = {};
  const bool has_mode =
      !file.is_remote() && ::stat(file.path().c_str(), &info) == 0;
  HF_RETURN_IF_ERROR(WriteText(*place.OpenStore(), name, text, false));
  return has_mode ? SetFileMode(file, info.st_mode & 0777) : Status();
}

Status RemoveItem(const Place& place, const std::string& item) {
  const Status removed = RemoveTree(place / item);
  return removed.code() == StatusCode::kNotFound ? Status() : removed;
}

Status Finish(const Place& place) {
  const std::shared_ptr<Store> store = place.OpenStore();
  HF_ASSIGN_OR_RETURN(const auto record, FindRecord(*store));
  if (!record) return Status();
  HF_RETURN_IF_ERROR(RemoveItem(place, record->item));
  const std::string text = PythonJsonText(record->updated_metadata);
  // In this order, a listed checksum never differs from the stored text.
  const std::string& path = place.path();
  HF_RETURN_IF_ERROR(ForgetListedItem(path, record->item, std::nullopt));
  HF_RETURN_IF_ERROR(ReplaceText(place, kCheckpointMetadataFile, text));
  HF_RETURN_IF_ERROR(ForgetListedItem(path, record->item, text));
  HF_RETURN_IF_ERROR(store->Delete(kDeletionRecordFile));
  return place.needs_sync() ? SyncDirectory(place) : Status();
}

Status Begin(const Place& place, const std::string& item,
             std::optional<uint32_t> mode) {
  HF_RETURN_IF_ERROR(CheckDeletableItem(item));
  const std::shared_ptr<Store> store = place.OpenStore();
  HF_ASSIGN_OR_RETURN(const Json metadata,
                      ReadObject(*store, kCheckpointMetadataFile));
  HF_ASSIGN_OR_RETURN(const Json updated, WithoutItem(metadata, item));
  const Json record = {{"checkpointable_name", item},
                       {"destination", nullptr},
                       {"operation_id", RandomHex32()},
                       {"original_metadata", metadata},
                       {"updated_metadata", updated}};
  HF_RETURN_IF_ERROR(
      WriteText(*store, kDeletionRecordFile, PythonJsonText(record), true));
  if (!mode || place.is_remote()) return Status();
  return SetFileMode(place / kDeletionRecordFile, *mode);
}

Status CheckNoLink(const std::string& path) {
  HF_ASSIGN_OR_RETURN(const PathKind kind, GetPathKind(Place(path)));
  if (kind != PathKind::kSymlink) return Status();
  return InvalidArgumentError(
      "Cannot delete a checkpoint through a symlink: " + path + ".");
}

bool HasAny(const Place& place, std::initializer_list<std::string_view> names) {
  return std::any_of(names.begin(), names.end(), [&](std::string_view name) {
    return IsThere(place / name);
  });
}

// Returns whether another of the user's items exists besides `item`.
Result<bool> HasOthers(const Place& place, const Json& handlers,
                       const std::string& item) {
  for (const auto& [name, unused] : handlers.items()) {
    if (name == item || IsReserved(name)) continue;
    HF_ASSIGN_OR_RETURN(const bool is_there, LeadsToDirectory(place / name));
    if (is_there) return true;
  }
  return false;
}

}  // namespace

Status CheckDeletablePath(const std::string& path) {
  if (!Place(path).name().empty() && path != "." && path != "..") {
    return CheckNoLink(path);
  }
  return InvalidArgumentError("Cannot delete a storage root: " + path + ".");
}

Status CheckDeletableCheckpoint(const std::string& path) {
  const Place place = Place(path).Absolute();
  if (HasAny(place.parent(),
             {kV1MarkerFile, kCheckpointMetadataFile, kDeletionRecordFile})) {
    return FailedPreconditionError(
        path +
        " is a checkpointable directory. Delete from its checkpoint root using "
        "checkpointable_name instead.");
  }
  if (HasAny(place,
             {kV1MarkerFile, kCheckpointMetadataFile, kTreeMetadataFile})) {
    return Status();
  }
  HF_ASSIGN_OR_RETURN(const auto names, ListDirectory(place));
  if (names.empty()) return Status();
  return FailedPreconditionError("Not an Orbax checkpoint root: " + path + ".");
}

Status CheckDeletableItemOf(const std::string& path, const std::string& item) {
  const Place place = Place(path).Absolute();
  HF_ASSIGN_OR_RETURN(const Json metadata,
                      ReadObject(*place.OpenStore(), kCheckpointMetadataFile));
  const auto handlers = metadata.find("item_handlers");
  if (handlers == metadata.end() || !handlers->is_object()) {
    return FailedPreconditionError("Checkpoint at " + path +
                                   " has no named checkpointables.");
  }
  HF_RETURN_IF_ERROR(CheckNoLink(path + "/" + item));
  HF_ASSIGN_OR_RETURN(const bool is_there, LeadsToDirectory(place / item));
  if (!is_there || !handlers->contains(item)) {
    std::string name;
    AppendPythonRepr(name, item);
    return NotFoundError("Checkpointable " + name + " does not exist at " +
                         path + ".");
  }
  HF_ASSIGN_OR_RETURN(const bool has_others, HasOthers(place, *handlers, item));
  if (has_others) return Status();
  return InvalidArgumentError(
      "Cannot delete the final checkpointable; delete the whole checkpoint "
      "instead.");
}

Status CheckDeletableItem(const std::string& item) {
  const bool is_path =
      item.empty() || item == "." || item == ".." ||
      item.find_first_of(std::string_view("/\\\0", 3)) != item.npos;
  const bool is_reserved = IsReserved(item) || item == kCheckpointMetadataFile;
  if (!is_path && !is_reserved) return Status();
  return InvalidArgumentError("Invalid checkpointable name: '" + item + "'.");
}

Result<std::optional<std::string>> FindItemDeletion(const std::string& path) {
  return CatchBadAlloc([&]() -> Result<std::optional<std::string>> {
    HF_ASSIGN_OR_RETURN(const auto record,
                        FindRecord(*Place(path).Absolute().OpenStore()));
    if (!record) return std::optional<std::string>();
    return std::optional(record->item);
  });
}

Status BeginItemDeletion(const std::string& path, const std::string& item,
                         std::optional<uint32_t> mode) {
  return CatchBadAlloc(
      [&] { return Begin(Place(path).Absolute(), item, mode); });
}

Status FinishItemDeletion(const std::string& path) {
  return CatchBadAlloc([&] { return Finish(Place(path).Absolute()); });
}

}  // namespace holdfast
