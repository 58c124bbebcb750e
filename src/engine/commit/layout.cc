#include "engine/commit/layout.h"

#include <algorithm>

#include "engine/commit/known_formats.h"
#include "engine/commit/place_check.h"
#include "engine/commit/unfinished.h"
#include "engine/format/checkpoint_metadata.h"
#include "engine/format/directory_names.h"
#include "ground/base/status_macros.h"
#include "ground/base/text.h"
#include "ground/base/utf8.h"
#include "ground/json/text.h"
#include "stores/place/directory_ops.h"

namespace holdfast {
namespace {

// Looks up names. A name whose lookup failed counts as absent for the moment,
// and `trouble` keeps the first failure: the caller must check it before
// drawing conclusions.
struct Sight {
  Status trouble;
  std::string id;  // PlaceId of the last checkpoint found, from before the look

  bool HasKind(const Place& place, PathKind wanted) {
    const Result<PathKind> kind = GetPathKind(place);
    if (!kind.ok()) Note(kind.status());
    return kind.ok() && *kind == wanted;
  }
  bool HasFile(const Place& directory, std::string_view name) {
    return HasKind(directory / name, PathKind::kFile);
  }
  bool IsDirectory(const Place& place) {
    return HasKind(place, PathKind::kDirectory);
  }
  // Returns true for links to directories, too: steps may be links, but items
  // may not.
  bool LeadsToDirectory(const Place& place) {
    const Result<bool> leads = holdfast::LeadsToDirectory(place);
    if (!leads.ok()) Note(leads.status());
    return leads.ok() && *leads;
  }
  void Note(const Status& status) {
    if (trouble.ok()) trouble = status;
  }
};

bool HasZarrMetadata(const Place& directory, Sight& sight) {
  return sight.HasFile(directory, ".zarray") ||
         sight.HasFile(directory, "zarr.json");
}

Result<std::vector<std::string>> Subdirectories(const Place& directory,
                                                Sight& sight) {
  HF_ASSIGN_OR_RETURN(std::vector<std::string> names, ListDirectory(directory));
  std::erase_if(names, [&](const std::string& name) {
    return !sight.IsDirectory(directory / name);
  });
  return names;
}

// Returns the name of the item's JSON document; "" if the item has no such
// document.
std::string JsonFileOf(const Place& directory, Sight& sight) {
  for (const std::string_view name : kJsonItemFiles) {
    if (sight.HasFile(directory, name)) return std::string(name);
  }
  return "";
}

bool HasOrbaxMarks(const Place& directory, Sight& sight) {
  return sight.HasFile(directory, kCheckpointMetadataFile) ||
         sight.HasFile(directory, kShardingFile) ||
         sight.HasFile(directory, kCommitMarkerFile);
}

Status MissingTreeMetadataError(const Place& directory) {
  return NotFoundError(
      "Metadata file (named _METADATA) does not exist at " + directory.path() +
      ": the structure of the tree cannot be known; the arrays themselves can "
      "be read by giving the path of the manifest.ocdbt, .zarray or zarr.json "
      "file (got no _METADATA and no msgpack file `checkpoint`, want one)");
}

Status NoCheckpointError(const Place& place) {
  return NotFoundError(
      "No structure could be identified for the checkpoint at " + place.path() +
      ": " + WhatDirectoryIs(place));
}

// Returns the error for one step of a root, for which other kinds of checkpoint
// are not tried.
Status NothingThereError(const Place& step) {
  return NotFoundError(
      "No structure could be identified for the checkpoint at " + step.path());
}

// Returns the checkpoint for a path that names a file of bare arrays. It
// consists of all arrays next to the file.
Result<FoundCheckpoint> PlaceOfFile(const Place& at) {
  const std::string file = at.name();
  ItemPlace item;
  item.directory = at.parent();
  FoundCheckpoint place;
  place.directory = item.directory;
  place.info.path = item.directory.path();
  if (file == "manifest.ocdbt") {
    item.kind = ItemKind::kOcdbt;
    place.info.format = "ocdbt";
  } else if (file == ".zarray" || file == "zarr.json") {
    item.kind = ItemKind::kZarr;
    place.info.format = file == ".zarray" ? "zarr" : "zarr3";
  } else {
    return NotFoundError("Checkpoint at " + at.path() +
                         " cannot be read: " + WhatFileIs(at));
  }
  item.is_named_by_file = true;
  place.info.items[""] = "";
  place.items.push_back(std::move(item));
  return place;
}

// Collects the items below `directory`; a composite may hold composites (random
// keys).
Status CollectItems(const Place& directory, const std::string& prefix,
                    int depth_left, FoundCheckpoint& place, Sight& sight) {
  HF_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                      Subdirectories(directory, sight));
  for (const std::string& name : names) {
    if (IsTemporaryName(name)) continue;
    const Place child = directory / name;
    HF_ASSIGN_OR_RETURN(ItemPlace item, ClassifyItem(child));
    item.name = prefix.empty() ? name : prefix + "/" + name;
    if (item.kind != ItemKind::kUnknown) {
      place.items.push_back(std::move(item));
    } else if (sight.HasFile(child, kDigestFile)) {
      place.emptied_items.push_back(std::move(item));
    } else if (depth_left > 0) {
      HF_RETURN_IF_ERROR(
          CollectItems(child, item.name, depth_left - 1, place, sight));
    }
  }
  return Status();
}

// Fills in the contents of `_CHECKPOINT_METADATA`, and returns the items that
// it lists.
Result<CompositeHandlers> ReadCheckpointMetadata(FoundCheckpoint& place,
                                                 Sight& sight) {
  CheckpointInfo& info = place.info;
  CompositeHandlers items;
  if (!sight.HasFile(place.directory, kCheckpointMetadataFile)) return items;
  const std::shared_ptr<Store> store = place.directory.OpenStore();
  HF_ASSIGN_OR_RETURN(place.metadata_text,
                      store->Read(kCheckpointMetadataFile));
  const std::string_view text = place.metadata_text->view();
  if (IsValidUtf8(text)) info.checkpoint_metadata = text;
  Result<CheckpointMetadata> metadata = ParseCheckpointMetadata(text);
  // As in Orbax: a damaged file hides the metadata, not the tensors. Verify
  // reports it.
  if (!metadata.ok()) return items;
  if (const auto* handlers =
          std::get_if<CompositeHandlers>(&metadata->item_handlers)) {
    items = *handlers;
  }
  info.init_timestamp_ns = metadata->init_timestamp_nsecs;
  info.commit_timestamp_ns = metadata->commit_timestamp_nsecs;
  if (!metadata->custom_metadata.is_null() &&
      !metadata->custom_metadata.empty()) {
    info.custom_metadata = PythonJsonText(metadata->custom_metadata);
  }
  return items;
}

bool IsCommitMarker(const std::string& name) {
  return name == kCommitMarkerFile;
}

// Returns true for Orbax's own handlers, which write files for every item. A
// user's handler may write none.
bool AlwaysWrites(const std::optional<std::string>& handler) {
  return handler && handler->starts_with("orbax.");
}

// Returns true for the handlers of trees. They wrote `_METADATA` long before
// checkpoints listed handlers.
bool AlwaysDescribesTree(const std::optional<std::string>& handler) {
  return handler && handler->starts_with("orbax.") &&
         (handler->ends_with("PyTreeCheckpointHandler") ||
          handler->ends_with("PyTreeHandler") ||
          handler->ends_with("StandardCheckpointHandler"));
}

bool LacksTree(const Place& directory, const OpenOptions& options,
               Sight& sight) {
  return !sight.HasFile(directory, kTreeMetadataFile) &&
         !sight.HasFile(directory, options.aggregate_filename);
}

// For a checkpoint of items, returns DataLoss if the directory of a listed item
// is missing or empty, and NotFound for a tree whose structure is missing.
Status CheckItemsAreThere(const Place& directory,
                          const CompositeHandlers& items,
                          const OpenOptions& options, Sight& sight) {
  for (const auto& [name, handler] : items) {
    if (!options.item.empty() && options.item != name) continue;
    // A name in the file need not be a valid directory name.
    if (!CheckKey(name).ok()) continue;
    const Result<PathKind> kind = GetPathKind(directory / name);
    if (!kind.ok()) sight.Note(kind.status());
    bool is_gone = kind.ok() && *kind == PathKind::kMissing;
    if (kind.ok() && *kind == PathKind::kDirectory && AlwaysWrites(handler)) {
      const auto entries = ListDirectory(directory / name);
      is_gone = entries.ok() && std::ranges::all_of(*entries, IsCommitMarker);
    }
    if (is_gone && !sight.HasFile(directory, kDeletionRecordFile)) {
      return MissingItemError(directory.path(), name);
    }
    if (AlwaysDescribesTree(handler) && kind.ok() &&
        *kind == PathKind::kDirectory &&
        LacksTree(directory / name, options, sight)) {
      return MissingTreeMetadataError(directory / name);
    }
  }
  return Status();
}

std::string FormatOfItem(const ItemPlace& item, Sight& sight) {
  if (item.kind == ItemKind::kOcdbt) return "ocdbt";
  if (item.kind != ItemKind::kZarr) return "orbax";
  if (sight.HasFile(item.directory, "zarr.json")) return "zarr3";
  if (sight.HasFile(item.directory, ".zarray")) return "zarr";
  const Result<std::vector<std::string>> names =
      Subdirectories(item.directory, sight);
  if (!names.ok()) sight.Note(names.status());
  if (names.ok()) {
    for (const std::string& name : *names) {
      if (sight.HasFile(item.directory / name, "zarr.json")) {
        return "zarr3";
      }
    }
  }
  return "zarr";
}

bool IsV1Root(const Place& directory, Sight& sight) {
  return sight.HasFile(directory, kV1MarkerFile);
}

void RememberItems(FoundCheckpoint& place) {
  place.info.items.clear();
  for (const ItemPlace& item : place.items) {
    place.info.items[item.name] = item.name;
  }
}

// Returns "it has the items "metrics", "state"" or the like.
std::string ItemsText(const std::vector<ItemPlace>& items) {
  constexpr size_t kNamesShownMax = 8;
  if (items.size() == 1 && items[0].name.empty()) {
    return "it is one item, which has no name";
  }
  std::string text = items.size() == 1 ? "it has the item" : "it has the items";
  for (size_t i = 0; i < std::min(items.size(), kNamesShownMax); ++i) {
    text += (i == 0 ? " \"" : ", \"") + items[i].name + '"';
  }
  if (items.size() > kNamesShownMax) text += ", ...";
  return text;
}

// Keeps only the requested item. A checkpoint that is a single item has no
// named items.
Status SelectItem(const OpenOptions& options, FoundCheckpoint& place) {
  if (options.item.empty()) return Status();
  const std::string there = ItemsText(place.items);
  std::erase_if(place.items, [&](const ItemPlace& item) {
    return item.name != options.item &&
           !item.name.starts_with(options.item + "/");
  });
  RememberItems(place);
  if (!place.items.empty()) return Status();
  HF_RETURN_IF_ERROR(place.damage);
  return ItemNotFoundError(options.item, place.info.path, there);
}

// Finds all items, whichever is requested; there may be none.
Result<FoundCheckpoint> LookAtStepOrItem(const Place& at,
                                         const OpenOptions& options,
                                         Sight& sight) {
  FoundCheckpoint place;
  place.directory = at;
  place.info.path = at.path();
  place.info.step = StepOfName(at.name());
  HF_ASSIGN_OR_RETURN(ItemPlace self, ClassifyItem(at, options));
  CompositeHandlers items;
  const bool is_item = self.kind != ItemKind::kUnknown;
  const bool goes_without = is_item && options.leaves_only && at.is_remote();
  if (!goes_without) {
    HF_ASSIGN_OR_RETURN(items, ReadCheckpointMetadata(place, sight));
  }
  if (is_item) {
    place.info.format = FormatOfItem(self, sight);
    place.items.push_back(std::move(self));
  } else {
    place.damage = CheckItemsAreThere(at, items, options, sight);
    HF_RETURN_IF_ERROR(CollectItems(at, "", 2, place, sight));
    place.info.format = IsV1Root(at, sight) ? "orbax-v1" : "orbax";
    if (place.items.empty()) HF_RETURN_IF_ERROR(place.damage);
  }
  RememberItems(place);
  return place;
}

// Like LookAtStepOrItem, but returns Unavailable if another checkpoint replaced
// this one during the look, so that the result could mix both.
Result<FoundCheckpoint> PlaceOfStepOrItem(const Place& at,
                                          const OpenOptions& options,
                                          Sight& sight) {
  const std::string id = PlaceId(at);
  Result<FoundCheckpoint> place = LookAtStepOrItem(at, options, sight);
  const Status status = place.ok() ? place->damage : place.status();
  const bool is_gone = !id.empty() && PlaceId(at).empty();
  if (!status.ok() && (!is_gone || status.code() == StatusCode::kDataLoss)) {
    HF_RETURN_IF_ERROR(CheckSamePlace(at, id));
  }
  if (place.ok()) sight.id = id;
  return place;
}

using NamedStep = std::pair<int64_t, std::string>;

// Returns the step directories of `root`, newest first; empty when it is not a
// manager root.
Result<std::vector<NamedStep>> StepsOf(const Place& root, Sight& sight) {
  HF_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                      ListBroughtBack(root));
  std::vector<NamedStep> steps;
  for (const std::string& name : names) {
    const std::optional<int64_t> step = StepOfName(name);
    const bool is_step = step && !IsTemporaryName(name) &&
                         !ParseProcessDirectory(name) &&
                         sight.LeadsToDirectory(root / name);
    if (is_step) {
      steps.emplace_back(*step, name);
    }
  }
  std::sort(steps.rbegin(), steps.rend());
  return steps;
}

// Returns true for a step directory that a save has completed, judging by its
// files.
bool SaysCommitted(const Place& directory, Sight& sight) {
  return HasOrbaxMarks(directory, sight) || IsV1Root(directory, sight) ||
         sight.HasFile(directory, kDigestFile);
}

// Returns true when a step that cannot be opened was once complete.
bool IsDamage(const Place& directory, const Status& status, Sight& sight) {
  return status.code() == StatusCode::kDataLoss ||
         (status.code() == StatusCode::kNotFound &&
          SaysCommitted(directory, sight));
}

Result<FoundCheckpoint> SelectedPlace(const Place& at,
                                      const OpenOptions& options,
                                      Sight& sight) {
  HF_ASSIGN_OR_RETURN(FoundCheckpoint place,
                      PlaceOfStepOrItem(at, options, sight));
  if (place.items.empty()) return NoCheckpointError(at);
  HF_RETURN_IF_ERROR(SelectItem(options, place));
  return place;
}

Result<FoundCheckpoint> PlaceOfStep(const Place& root, int64_t step,
                                    const std::vector<NamedStep>& steps,
                                    const OpenOptions& options, Sight& sight) {
  for (const auto& [number, name] : steps) {
    if (number != step) continue;
    if (!IsFinishedStep(root / name, options.commit_mode)) {
      return IncompleteError(root / name);
    }
    return SelectedPlace(root / name, options, sight);
  }
  return NotFoundError("No step " + std::to_string(step) +
                       " in the checkpoints at " + root.path());
}

// Finds the newest step. Skips directories that never held a checkpoint.
Result<FoundCheckpoint> PlaceOfNewestStep(const Place& root,
                                          const std::vector<NamedStep>& steps,
                                          const OpenOptions& options,
                                          Sight& sight) {
  const NamedStep* damaged = nullptr;
  Status why;
  Status without_item;  // from the newest complete step without the item
  for (const NamedStep& step : steps) {
    const Place at = root / step.second;
    if (!IsFinishedStep(at, options.commit_mode)) continue;
    Result<FoundCheckpoint> place = PlaceOfStepOrItem(at, options, sight);
    Status status = place.ok() ? place->damage : place.status();
    if (status.ok() && place->items.empty()) status = NothingThereError(at);
    if (status.ok()) {
      // A step that never had the requested item is not damaged.
      const Status selected = SelectItem(options, *place);
      if (!selected.ok()) {
        if (without_item.ok()) without_item = selected;
        continue;
      }
      // A damaged newer step is an error: silently reading an older step would
      // lose work.
      if (damaged == nullptr) return place;
      return DamagedStepError(root.path(), damaged->first, why, step.first);
    }
    const bool is_damage = IsDamage(at, status, sight);
    if (!is_damage && status.code() != StatusCode::kNotFound) return status;
    if (!is_damage || damaged != nullptr) continue;
    damaged = &step;
    why = status;
  }
  if (damaged == nullptr) {
    return without_item.ok() ? NoCheckpointError(root) : without_item;
  }
  return DamagedStepError(root.path(), damaged->first, why, std::nullopt);
}

}  // namespace

std::optional<int64_t> StepOfName(std::string_view name) {
  const size_t last_separator = name.rfind('_');
  const std::string_view digits = last_separator == std::string_view::npos
                                      ? name
                                      : name.substr(last_separator + 1);
  const auto step = ParseNumber<int64_t>(digits);
  return step && *step >= 0 ? step : std::nullopt;
}

namespace {

Result<ItemPlace> Classify(const Place& directory, const OpenOptions& options,
                           Sight& sight) {
  ItemPlace item;
  item.directory = directory;
  if (sight.HasFile(directory, kTreeMetadataFile) ||
      sight.HasFile(directory, options.aggregate_filename)) {
    item.kind = ItemKind::kPytree;
    return item;
  }
  const bool has_manifest = sight.HasFile(directory, "manifest.ocdbt");
  const bool has_marks = HasOrbaxMarks(directory, sight);
  if (has_manifest && has_marks) return MissingTreeMetadataError(directory);
  if (has_manifest) {
    item.kind = ItemKind::kOcdbt;
    return item;
  }
  item.json_file = JsonFileOf(directory, sight);
  if (!item.json_file.empty()) {
    item.kind = ItemKind::kJson;
    return item;
  }
  HF_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                      Subdirectories(directory, sight));
  // If the item has a list of checksums, that list shows what is missing.
  if (!sight.HasFile(directory, kDigestFile)) {
    HF_RETURN_IF_ERROR(CheckPartsAreMerged(directory, names));
  }
  const bool has_arrays =
      HasZarrMetadata(directory, sight) ||
      std::any_of(names.begin(), names.end(), [&](const std::string& name) {
        const Place below = directory / name;
        // An item whose whole tree is one array is still an item.
        return HasZarrMetadata(below, sight) &&
               !sight.HasFile(below, kTreeMetadataFile);
      });
  if (!has_arrays) return item;
  // ArrayCheckpointHandler's item of one array never had `_METADATA`.
  const bool is_array_item = names == std::vector<std::string>{"checkpoint"};
  if (has_marks && !is_array_item) return MissingTreeMetadataError(directory);
  item.kind = ItemKind::kZarr;
  return item;
}

// Returns the steps of a root. Empty if the directory is itself a checkpoint: a
// root has none of a checkpoint's marks.
Result<std::vector<NamedStep>> StepsOfRoot(const Place& directory,
                                           const OpenOptions& options,
                                           Sight& sight) {
  const bool has_marks = sight.HasFile(directory, kCheckpointMetadataFile) ||
                         sight.HasFile(directory, kTreeMetadataFile) ||
                         IsV1Root(directory, sight);
  if (has_marks) return std::vector<NamedStep>();
  HF_ASSIGN_OR_RETURN(auto steps, StepsOf(directory, sight));
  HF_ASSIGN_OR_RETURN(const ItemPlace self, ClassifyItem(directory, options));
  if (self.kind != ItemKind::kUnknown) steps.clear();
  return steps;
}

Result<FoundCheckpoint> Find(const Place& place, const OpenOptions& options,
                             Sight& sight) {
  if (place.path().empty() || place.path().find('\0') != std::string::npos) {
    return InvalidArgumentError("checkpoint path is empty or holds a NUL byte");
  }
  HF_ASSIGN_OR_RETURN(const Place absolute, PresentPlace(place.Absolute()));
  HF_ASSIGN_OR_RETURN(const PathKind kind, GetPathKind(absolute));
  if (kind == PathKind::kMissing) {
    return NotFoundError("Checkpoint at " + absolute.path() + " not found.");
  }
  if (kind == PathKind::kSymlink && !IsThere(absolute)) {
    return NotFoundError("Checkpoint at " + absolute.path() +
                         " not found: " + WhatFileIs(absolute));
  }
  if (!sight.LeadsToDirectory(absolute)) {
    sight.id = PlaceId(absolute.parent());
    HF_ASSIGN_OR_RETURN(FoundCheckpoint place, PlaceOfFile(absolute));
    HF_RETURN_IF_ERROR(SelectItem(options, place));
    return place;
  }
  if (IsTemporaryName(absolute.name())) {
    return IncompleteError(absolute);
  }
  HF_ASSIGN_OR_RETURN(const auto steps, StepsOfRoot(absolute, options, sight));
  if (!steps.empty()) {
    return options.step
               ? PlaceOfStep(absolute, *options.step, steps, options, sight)
               : PlaceOfNewestStep(absolute, steps, options, sight);
  }
  if (options.step) {
    return InvalidArgumentError("a step was asked for, but " + absolute.path() +
                                " is not a directory of steps");
  }
  if (!IsFinished(absolute, options.commit_mode)) {
    return IncompleteError(absolute);
  }
  return SelectedPlace(absolute, options, sight);
}

}  // namespace

std::string PlaceId(const Place& place) {
  return place.is_remote() ? "" : local::DirectoryId(place.path());
}

Status CheckSamePlace(const Place& place, const std::string& id) {
  const std::string now = PlaceId(place);
  if (now == id) return Status();
  return UnavailableError("read " + place.path() + ": " +
                          (now.empty()
                               ? "it was removed or got another name"
                               : "another checkpoint has taken its place") +
                          " since it was opened; open it again");
}

Status ItemNotFoundError(const std::string& item, const std::string& path,
                         const std::string& there) {
  return NotFoundError("Item \"" + item +
                       "\" was not found in the checkpoint at " + path + ": " +
                       there);
}

Status MissingItemError(const std::string& directory, const std::string& name) {
  return DataLossError("item \"" + name + "\" of " + directory +
                       " is gone: " + std::string(kCheckpointMetadataFile) +
                       " says that the checkpoint was saved with it; name the "
                       "items to read if the others are enough");
}

// A damaged newest step is an error, since silently reading an older step would
// lose work.
Status DamagedStepError(const std::string& root, int64_t damaged_step,
                        const Status& why, std::optional<int64_t> whole_step) {
  std::string message =
      "step " + std::to_string(damaged_step) + " of " + root +
      " was committed and is damaged: " + std::string(why.message());
  if (whole_step) {
    const std::string number = std::to_string(*whole_step);
    message += "; the newest step that is whole is " + number +
               ", which is read when step " + number + " is asked for";
  } else {
    message += "; no other step is whole";
  }
  return DataLossError(std::move(message));
}

bool IsDamagedStep(const Place& directory, const Status& status) {
  Sight sight;
  return IsDamage(directory, status, sight);
}

Result<bool> IsManagerRoot(const Place& place) {
  Sight sight;
  if (!sight.LeadsToDirectory(place)) return false;
  HF_ASSIGN_OR_RETURN(const auto steps, StepsOfRoot(place, {}, sight));
  const bool holds_any =
      std::any_of(steps.begin(), steps.end(), [&](const NamedStep& step) {
        const Place directory = place / step.second;
        if (SaysCommitted(directory, sight)) return true;
        const auto found = PlaceOfStepOrItem(directory, {}, sight);
        return found.ok() && !found->items.empty();
      });
  HF_RETURN_IF_ERROR(sight.trouble);
  return holds_any;
}

Result<ItemPlace> ClassifyItem(const Place& directory,
                               const OpenOptions& options) {
  Sight sight;
  Result<ItemPlace> item = Classify(directory, options, sight);
  HF_RETURN_IF_ERROR(sight.trouble);
  return item;
}

Result<FoundCheckpoint> FindCheckpoint(const Place& at,
                                       const OpenOptions& options) {
  std::string id;
  return FindCheckpointAndId(at, options, id);
}

Result<FoundCheckpoint> FindCheckpointAndId(const Place& at,
                                            const OpenOptions& options,
                                            std::string& id) {
  Sight sight;
  Result<FoundCheckpoint> place = Find(at, options, sight);
  // Errors about files that were moved away in the meantime mean nothing.
  const bool has_moved = place.status().code() == StatusCode::kUnavailable;
  if (!has_moved) HF_RETURN_IF_ERROR(sight.trouble);
  id = sight.id;
  return place;
}

}  // namespace holdfast
