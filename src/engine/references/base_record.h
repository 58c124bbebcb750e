// How a delta names the step that it was made from: by what that step is, and
// by where it was.
//
// Its content decides (`id`, `content_hash`); where it was (`path`, `relative`)
// only says where to look first, since roots are moved, mounted elsewhere and
// reached through links. Links are resolved when a record is written.
// doc/deltas.md has the format. A delta has its record twice: in the item's
// custom metadata under kDeltaKey, which is the truth, and only the path in the
// file kBaseFile, by which a directory shows without being parsed that it
// refers to another.
//
// Thread-safety: values, pure functions; those of places read directories.
// Errors: DataLoss for a record that no delta has.
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
  // A name beside the step, or an absolute path or URL.
  std::string path;
  // From the step's directory to a base that is not beside it; else empty.
  std::string relative;
  // ContentHash of the base when the delta was made.
  std::string content_hash;
  // DeltaInfo::id of the base where it is a delta, or was one; else empty.
  std::string id;

  // False for a record of kBaseFile, which only says where the base is.
  bool is_known() const { return !content_hash.empty() || !id.empty(); }
};

nlohmann::ordered_json BaseRecordToJson(const BaseRecord& record);
Result<BaseRecord> ParseBaseRecord(const nlohmann::ordered_json& document);

// Fills in where `base` is, for the step that will be at `step`.
void NameBase(const Place& step, const Place& base, BaseRecord& record);

// Where the base of the step at `step` may be, the likeliest first. A step that
// a link leads to has neighbours in two directories.
std::vector<Place> PlacesOfBase(const Place& step, const BaseRecord& record);

// Whether both lead to one directory or file, by whatever names.
bool IsSamePlace(const Place& a, const Place& b);

// The records in the directory of a step or of an item: of its metadata, and of
// kBaseFile where that says something else or the metadata cannot be read.
// Empty for what is not a delta. Errors: those of reading.
Result<std::vector<BaseRecord>> BaseRecordsIn(const Place& directory);
// The records of a step: in its directory and in those of its items.
Result<std::vector<BaseRecord>> BaseRecordsOfStep(const Place& step);
// Whether the result of this id is what the step, or one of its items, holds.
bool HasResult(const Place& step, const std::string& id);
// Whether what is at `place` is the base that the record means. REQUIRES: it
// is_known.
Result<bool> IsBaseAt(const Place& place, const BaseRecord& record);
// The places of PlacesOfBase that hold the base; all of them where none is
// known to.
std::vector<Place> PlacesThatHoldBase(const Place& step,
                                      const BaseRecord& record);
// Whether the base is at one of the places where it may be, and is the one that
// the record means.
Result<bool> IsBaseThere(const Place& step, const BaseRecord& record);

}  // namespace holdfast
