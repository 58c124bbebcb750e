#include "engine/references/base_record.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>

#include "engine/format/directory_names.h"
#include "engine/format/tree_metadata.h"
#include "engine/references/content_hash.h"
#include "ground/base/status_macros.h"
#include "stores/place/directory_ops.h"
#include "stores/storage/url_path.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;
using RecordJson = nlohmann::ordered_json;

// How much of the metadata's tail is read first. Custom metadata comes last in
// both Orbax's and holdfast's files, so that the tail usually suffices.
constexpr uint64_t kTailBytes = uint64_t{64} << 10;

Result<std::string> RecordText(const RecordJson& from, const char* name) {
  const auto at = from.find(name);
  if (at == from.end() || !at->is_string()) {
    return DataLossError("the base of a delta: want a text for \"" +
                         std::string(name) + "\"");
  }
  return at->get<std::string>();
}

// Returns the path with its links resolved, as far as it exists; nullopt for a
// URL.
std::optional<fs::path> RealPath(const Place& place) {
  if (place.is_remote()) return std::nullopt;
  std::error_code error;
  fs::path real = fs::weakly_canonical(place.path(), error);
  if (error) return std::nullopt;
  return real;
}

void AddPlace(Place place, std::vector<Place>& places) {
  const bool is_known = std::ranges::any_of(
      places, [&](const Place& known) { return known.path() == place.path(); });
  if (!is_known) places.push_back(std::move(place));
}

// Returns false only if the end of the metadata shows that there is no delta.
// Quotes inside a string are escaped, so the key that is found is the
// document's own.
bool MayNameDelta(std::string_view tail) {
  const size_t at = tail.rfind("\"custom_metadata\":");
  return at == tail.npos ||
         tail.substr(at).find(kDeltaKey) != std::string_view::npos;
}

// Larger than any delta's metadata; a larger file is not read.
constexpr uint64_t kMetadataBytesMax = uint64_t{1} << 30;
constexpr uint64_t kBaseFileBytesMax = uint64_t{64} << 10;

// Returns whether readers do not accept a file, because it is missing, or is a
// link out of the directory. Such a file does not make its directory a delta.
bool IsTakenByNobody(const Status& status) {
  return status.code() == StatusCode::kNotFound ||
         status.code() == StatusCode::kInvalidArgument ||
         status.code() == StatusCode::kFailedPrecondition;
}

// Returns the documents about deltas in the metadata. Returns null if they are
// missing or unreadable; a load of the step reports that.
Result<RecordJson> DocumentsIn(Store& store) {
  const RecordJson none;
  const Result<ObjectInfo> info = store.Stat(kTreeMetadataFile);
  if (IsTakenByNobody(info.status())) return none;
  HF_RETURN_IF_ERROR(info.status());
  if (info->byte_count > kMetadataBytesMax) return none;
  // The metadata may be large, and its end usually shows that there is no
  // delta.
  if (info->byte_count > kTailBytes) {
    const uint64_t offset = info->byte_count - kTailBytes;
    const auto tail = store.Read(kTreeMetadataFile, {offset, kTailBytes});
    if (tail.ok() && !MayNameDelta(tail->view())) return none;
  }
  const Result<Bytes> text = store.Read(kTreeMetadataFile);
  if (IsTakenByNobody(text.status())) return none;
  HF_RETURN_IF_ERROR(text.status());
  // This may also find kResultIdKey, which begins with kDeltaKey.
  if (text->view().find(kDeltaKey) == std::string_view::npos) return none;
  auto metadata = ParseTreeMetadata(text->view());
  if (!metadata.ok() || !metadata->documents.is_object()) return none;
  return std::move(metadata->documents);
}

// Returns null if there is no such member, or it has another type.
const RecordJson* MemberOf(const RecordJson& object, std::string_view name,
                           RecordJson::value_t kind) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(name);
  return found != object.end() && found->type() == kind ? &*found : nullptr;
}

// Returns the record in the metadata; nullopt if it names no base.
Result<std::optional<BaseRecord>> RecordInMetadata(Store& store) {
  std::optional<BaseRecord> none;
  HF_ASSIGN_OR_RETURN(const RecordJson documents, DocumentsIn(store));
  const RecordJson* const delta =
      MemberOf(documents, kDeltaKey, RecordJson::value_t::object);
  if (delta == nullptr) return none;
  const RecordJson* const base =
      MemberOf(*delta, "base", RecordJson::value_t::object);
  if (base == nullptr) return none;
  auto record = ParseBaseRecord(*base);
  if (!record.ok()) return none;
  return std::optional(*std::move(record));
}

// Returns a step and the directories in it, some of which are its items.
Result<std::vector<Place>> StepAndItems(const Place& step) {
  std::vector<Place> places = {step};
  HF_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                      ListDirectory(step));
  for (const std::string& name : names) {
    HF_ASSIGN_OR_RETURN(const PathKind kind, GetPathKind(step / name));
    if (kind == PathKind::kDirectory) places.push_back(step / name);
  }
  return places;
}

}  // namespace

RecordJson BaseRecordToJson(const BaseRecord& record) {
  RecordJson document = {
      {"path", record.path}, {"files", record.content_hash}, {"id", record.id}};
  if (!record.relative.empty()) document["relative"] = record.relative;
  return document;
}

Result<BaseRecord> ParseBaseRecord(const RecordJson& document) {
  if (!document.is_object()) {
    return DataLossError("the base of a delta: want a JSON object");
  }
  BaseRecord record;
  HF_ASSIGN_OR_RETURN(record.path, RecordText(document, "path"));
  HF_ASSIGN_OR_RETURN(record.content_hash, RecordText(document, "files"));
  HF_ASSIGN_OR_RETURN(record.id, RecordText(document, "id"));
  if (document.contains("relative")) {
    HF_ASSIGN_OR_RETURN(record.relative, RecordText(document, "relative"));
  }
  return record;
}

void NameBase(const Place& step, const Place& base, BaseRecord& record) {
  record.relative.clear();
  const Place absolute = base.Absolute();
  const Place beside = step.Absolute().parent();
  const auto root = RealPath(beside);
  const auto real = RealPath(absolute);
  if (root && real && real->parent_path() == *root) {
    record.path = real->filename().string();
    return;
  }
  // If the step is reached by a link in this root, the link is one of the
  // root's names.
  const bool is_linked_in = root && RealPath(absolute.parent()) == root;
  if (is_linked_in || absolute.parent().path() == beside.path()) {
    record.path = absolute.name();
    return;
  }
  record.path = real ? real->string() : absolute.path();
  if (!root || !real) return;
  record.relative = real->lexically_relative(*root / step.name()).string();
}

std::vector<Place> PlacesOfBase(const Place& step, const BaseRecord& record) {
  std::vector<Place> places;
  if (record.path.empty()) return places;
  const Place at = step.Absolute();
  std::vector<Place> steps = {at};
  if (const auto real = RealPath(at); real && real->string() != at.path()) {
    steps.emplace_back(real->string());
  }
  const bool is_beside = record.path.find('/') == std::string::npos;
  const std::string name = is_beside ? record.path : Place(record.path).name();
  if (!is_beside) AddPlace(Place(record.path), places);
  for (const Place& from : steps) {
    if (!record.relative.empty() && !from.is_remote()) {
      const fs::path base = fs::path(from.path()) / record.relative;
      AddPlace(Place(AbsolutePath(base.string())), places);
    }
    // A base that was elsewhere may since have been moved next to the step.
    AddPlace(from.parent() / name, places);
  }
  // The path may lead to the step itself, for example if the base had the same
  // number in another root. A step is never its own base.
  std::erase_if(places, [&](const Place& place) {
    return std::ranges::any_of(steps, [&](const Place& step) {
      return place.path() == step.path();
    });
  });
  return places;
}

bool IsSamePlace(const Place& a, const Place& b) {
  if (a.Absolute().path() == b.Absolute().path()) return true;
  if (a.is_remote() || b.is_remote()) return false;
  std::error_code error;
  return fs::equivalent(a.path(), b.path(), error) && !error;
}

Result<std::vector<BaseRecord>> BaseRecordsIn(const Place& directory) {
  std::vector<BaseRecord> records;
  const std::shared_ptr<Store> store = directory.OpenStore();
  HF_ASSIGN_OR_RETURN(const auto record, RecordInMetadata(*store));
  if (record) records.push_back(*record);
  const Result<ObjectInfo> info = store->Stat(kBaseFile);
  if (IsTakenByNobody(info.status())) return records;
  HF_RETURN_IF_ERROR(info.status());
  if (info->byte_count > kBaseFileBytesMax) return records;
  const Result<Bytes> text = store->Read(kBaseFile);
  if (IsTakenByNobody(text.status())) return records;
  HF_RETURN_IF_ERROR(text.status());
  const std::string path(text->view());
  if (!record || record->path != path) records.push_back({path, "", "", ""});
  return records;
}

Result<std::vector<BaseRecord>> BaseRecordsOfStep(const Place& step) {
  std::vector<BaseRecord> records;
  HF_ASSIGN_OR_RETURN(const std::vector<Place> places, StepAndItems(step));
  for (const Place& place : places) {
    HF_ASSIGN_OR_RETURN(const auto found, BaseRecordsIn(place));
    records.insert(records.end(), found.begin(), found.end());
  }
  return records;
}

bool HasResult(const Place& step, const std::string& id) {
  const auto places = StepAndItems(step);
  return places.ok() && std::ranges::any_of(*places, [&](const Place& place) {
           const auto documents = DocumentsIn(*place.OpenStore());
           if (!documents.ok()) return false;
           constexpr auto kText = RecordJson::value_t::string;
           const RecordJson* const delta =
               MemberOf(*documents, kDeltaKey, RecordJson::value_t::object);
           const RecordJson* const own =
               delta == nullptr ? nullptr : MemberOf(*delta, "id", kText);
           const RecordJson* const made =
               MemberOf(*documents, kResultIdKey, kText);
           return (own != nullptr && *own == id) ||
                  (made != nullptr && *made == id);
         });
}

Result<bool> IsBaseAt(const Place& place, const BaseRecord& record) {
  if (!record.id.empty() && HasResult(place, record.id)) return true;
  HF_ASSIGN_OR_RETURN(const std::string hash, ContentHash(place));
  return hash == record.content_hash;
}

Result<bool> IsBaseThere(const Place& step, const BaseRecord& record) {
  for (const Place& place : PlacesOfBase(step, record)) {
    HF_ASSIGN_OR_RETURN(const bool is_there, LeadsToAnything(place));
    if (!is_there) continue;
    if (!record.is_known()) return true;
    HF_ASSIGN_OR_RETURN(const bool is_base, IsBaseAt(place, record));
    if (is_base) return true;
  }
  return false;
}

std::vector<Place> PlacesThatHoldBase(const Place& step,
                                      const BaseRecord& record) {
  std::vector<Place> places = PlacesOfBase(step, record);
  if (!record.is_known()) return places;
  std::vector<Place> held;
  for (const Place& place : places) {
    const Result<bool> is_base = IsBaseAt(place, record);
    if (is_base.ok() && *is_base) held.push_back(place);
  }
  return held.empty() ? places : held;
}

}  // namespace holdfast
