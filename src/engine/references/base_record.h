// How a delta identifies the step that it was made from: by its content, and by
// its location.
//
// The content is decisive (`id`, `content_hash`); the location (`path`,
// `relative`) only says where to look first, since roots are moved, mounted
// elsewhere and reached through links. Links are resolved when a record is
// written. doc/deltas.md has the format. A delta has its record twice: in the
// item's custom metadata under kDeltaKey, which is authoritative, and, only
// with the path, in the file kBaseFile, which shows without any parsing that
// the directory refers to another one.
//
// Thread-safety: values and pure functions; functions on places read
// directories.
// Errors: DataLoss for an invalid record.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "engine/format/own_documents.h"
#include "holdfast/status.h"
#include "stores/place/place.h"

namespace holdfast {

struct BaseRecord {
  // The name of a step in the same root, or an absolute path or URL.
  std::string path;
  // The path from the step's directory to a base elsewhere; otherwise empty.
  std::string relative;
  // ContentHash of the base when the delta was made.
  std::string content_hash;
  // DeltaInfo::id of the base if it is, or was, a delta; otherwise empty.
  std::string id;

  // Returns false for a record from kBaseFile, which has only the location.
  bool is_known() const { return !content_hash.empty() || !id.empty(); }
};

nlohmann::ordered_json BaseRecordToJson(const BaseRecord& record);
Result<BaseRecord> ParseBaseRecord(const nlohmann::ordered_json& document);

// Records the location of `base`, as seen from the step that will be at `step`.
void NameBase(const Place& step, const Place& base, BaseRecord& record);

// Returns where the base of the step at `step` may be, the likeliest place
// first. If a link leads to the step, the directories of both the link and its
// target are searched.
std::vector<Place> PlacesOfBase(const Place& step, const BaseRecord& record);

// Returns whether both paths lead to the same directory or file.
bool IsSamePlace(const Place& a, const Place& b);

// Returns the records in the directory of a step or item: the one in its
// metadata, and the one in kBaseFile if that differs or the metadata cannot be
// read. Returns none if the directory is not a delta. Errors: read errors.
Result<std::vector<BaseRecord>> BaseRecordsIn(const Place& directory);
// Returns the records of a step: those in its directory and in its items'
// directories.
Result<std::vector<BaseRecord>> BaseRecordsOfStep(const Place& step);
// Returns whether the step, or one of its items, has the content with this id:
// it is the delta of this id, or a whole step that was made from that delta.
bool HasResult(const Place& step, const std::string& id);
// Returns whether `place` holds the base that the record identifies. REQUIRES:
// record.is_known().
Result<bool> IsBaseAt(const Place& place, const BaseRecord& record);
// Returns the places of PlacesOfBase that hold the base. If none is known to
// hold it, returns all of them.
std::vector<Place> PlacesThatHoldBase(const Place& step,
                                      const BaseRecord& record);
// Returns whether one of the places of PlacesOfBase holds the base that the
// record identifies.
Result<bool> IsBaseThere(const Place& step, const BaseRecord& record);

}  // namespace holdfast
