#include "engine/commit/place_check.h"

#include <algorithm>
#include <utility>

#include "engine/format/directory_names.h"
#include "ground/base/status_macros.h"
#include "stores/storage/path_parts.h"

namespace holdfast {
namespace {

bool IsAskedFor(std::string_view item, const OpenOptions& options) {
  return options.item.empty() || item == options.item ||
         item.starts_with(options.item + "/");
}

bool IsJsonItemFile(std::string_view name) {
  return std::find(std::begin(kJsonItemFiles), std::end(kJsonItemFiles),
                   name) != std::end(kJsonItemFiles);
}

bool IsFound(const FoundCheckpoint& place, std::string_view item_name) {
  return std::any_of(
      place.items.begin(), place.items.end(),
      [&](const ItemPlace& item) { return item.name == item_name; });
}

// Checks that no JSON document is missing. A directory whose only document was
// removed looks as if it had never been an item; only the list of files shows
// the loss.
Status CheckDocuments(const CheckedFiles& files, const OpenOptions& options,
                      const FoundCheckpoint& place) {
  Status gone;
  files.ForEachListed("", [&](const FileDigest& row) {
    const std::string_view item = ParentKey(row.path);
    if (!gone.ok() || item.empty() || !IsJsonItemFile(LastPart(row.path)) ||
        !IsAskedFor(item, options) || IsFound(place, item)) {
      return;
    }
    if (files.store().Stat(row.path).status().code() == StatusCode::kNotFound) {
      gone = files.CheckGone(row.path).WithContext("item " + std::string(item));
    }
  });
  return gone;
}

// Checks that no tree has lost its defining files. Such a tree also looks as if
// it had never been an item, but it has its own list.
Status CheckEmptiedItems(const CheckedFiles& files, const OpenOptions& options,
                         const FoundCheckpoint& place) {
  for (const ItemPlace& item : place.emptied_items) {
    if (!IsAskedFor(item.name, options)) continue;
    HF_ASSIGN_OR_RETURN(const CheckedFiles below,
                        files.Below(item.name, item.directory.OpenStore()));
    HF_RETURN_IF_ERROR(
        below.CheckGone(kTreeMetadataFile).WithContext("item " + item.name));
  }
  return Status();
}

Status GiveItemsTheirFiles(const CheckedFiles& files, FoundCheckpoint& place) {
  for (ItemPlace& item : place.items) {
    if (item.name.empty()) {
      item.checked = std::make_shared<const CheckedFiles>(files);
      continue;
    }
    HF_ASSIGN_OR_RETURN(CheckedFiles below,
                        files.Below(item.name, item.directory.OpenStore()));
    place.info.notes.insert(place.info.notes.end(), below.notes().begin(),
                            below.notes().end());
    item.checked = std::make_shared<const CheckedFiles>(std::move(below));
  }
  return Status();
}

}  // namespace

Status CheckFound(const OpenOptions& options, FoundCheckpoint& place) {
  if (!place.items.empty() && place.items[0].is_named_by_file) return Status();
  HF_ASSIGN_OR_RETURN(const CheckedFiles files,
                      CheckedFiles::OfItem(place.directory));
  return CheckFoundBy(files, options, place);
}

Status CheckFoundBy(const CheckedFiles& files, const OpenOptions& options,
                    FoundCheckpoint& place) {
  if (place.metadata_text) {
    HF_RETURN_IF_ERROR(
        files.Check(kCheckpointMetadataFile, place.metadata_text->view()));
  } else if (!files.store().Stat(kCheckpointMetadataFile).ok()) {
    HF_RETURN_IF_ERROR(files.CheckGone(kCheckpointMetadataFile));
  }  // otherwise it was not requested
  if (files.Lists(kV1MarkerFile)) {
    HF_RETURN_IF_ERROR(files.Read(kV1MarkerFile).status());
  }
  if (!place.items.empty() && !place.items[0].name.empty()) {
    Status gone = CheckDocuments(files, options, place);
    if (gone.ok()) gone = CheckEmptiedItems(files, options, place);
    if (!gone.ok() && !files.store().Stat(kDeletionRecordFile).ok())
      return gone;
  }
  place.info.notes = files.notes();
  return GiveItemsTheirFiles(files, place);
}

}  // namespace holdfast
