#include "checkpoint/layout.h"

#include <algorithm>
#include <charconv>

#include "base/status_macros.h"
#include "checkpoint/format/checkpoint_metadata.h"
#include "checkpoint/format/directory_names.h"
#include "checkpoint/format/json_text.h"
#include "checkpoint/unfinished.h"
#include "place/directory_ops.h"
#include "place/open_store.h"
#include "tree/utf8.h"

namespace holdfast {
namespace {

// Looks for names. What could not be looked at is not there for the moment, and
// `trouble` has the first reason: nobody may conclude anything without asking.
struct Sight {
  Status trouble;

  bool HasKind(const std::string& path, PathKind wanted) {
    const Result<PathKind> kind = GetPathKind(path);
    if (!kind.ok()) Note(kind.status());
    return kind.ok() && *kind == wanted;
  }
  bool HasFile(const std::string& directory, std::string_view name) {
    return HasKind(directory + "/" + std::string(name), PathKind::kFile);
  }
  bool IsDirectory(const std::string& path) {
    return HasKind(path, PathKind::kDirectory);
  }
  // Steps may be links to directories elsewhere; items may not.
  bool LeadsToDirectory(const std::string& path) {
    const Result<bool> leads = holdfast::LeadsToDirectory(path);
    if (!leads.ok()) Note(leads.status());
    return leads.ok() && *leads;
  }
  void Note(const Status& status) {
    if (trouble.ok()) trouble = status;
  }
};

bool HasZarrMetadata(const std::string& directory, Sight& sight) {
  return sight.HasFile(directory, ".zarray") ||
         sight.HasFile(directory, "zarr.json");
}

Result<std::vector<std::string>> Subdirectories(const std::string& directory,
                                                Sight& sight) {
  HF_ASSIGN_OR_RETURN(std::vector<std::string> names, ListDirectory(directory));
  std::erase_if(names, [&](const std::string& name) {
    return !sight.IsDirectory(directory + "/" + name);
  });
  return names;
}

// The document of a JSON item, by the names Orbax's handlers give it; "" when
// there is none.
std::string JsonFileOf(const std::string& directory, Sight& sight) {
  for (const char* name : {"metadata", "data.json", "metrics"}) {
    if (sight.HasFile(directory, name)) return name;
  }
  return "";
}

bool HasOrbaxMarks(const std::string& directory, Sight& sight) {
  return sight.HasFile(directory, kCheckpointMetadataFile) ||
         sight.HasFile(directory, kShardingFile) ||
         sight.HasFile(directory, kCommitMarkerFile);
}

Status MissingTreeMetadataError(const std::string& directory) {
  return NotFoundError(
      "Metadata file (named _METADATA) does not exist at " + directory +
      ": the structure of the tree cannot be known; the arrays themselves can "
      "be read by giving the path of the manifest.ocdbt, .zarray or zarr.json "
      "file (got no _METADATA and no msgpack file `checkpoint`, want one)");
}

Status NoCheckpointError(const std::string& path) {
  return NotFoundError(
      "No structure could be identified for the checkpoint at " + path +
      ": looked for _METADATA, checkpoint, manifest.ocdbt, .zarray, zarr.json, "
      "item directories holding them, and step directories");
}

// A file stands for the bare arrays beside it.
Result<Place> PlaceOfFile(const std::string& path) {
  const std::string file = FileNameOf(path);
  ItemPlace item;
  item.directory = ParentDirectory(path);
  Place place;
  place.info.path = item.directory;
  if (file == "manifest.ocdbt") {
    item.kind = ItemKind::kOcdbt;
    place.info.format = "ocdbt";
  } else if (file == ".zarray" || file == "zarr.json") {
    item.kind = ItemKind::kZarr;
    place.info.format = file == ".zarray" ? "zarr" : "zarr3";
  } else {
    return NotFoundError("Checkpoint at " + path +
                         " is a file: want a directory, or a manifest.ocdbt, "
                         ".zarray or zarr.json file");
  }
  place.info.items[""] = "";
  place.items.push_back(std::move(item));
  return place;
}

// Items below `directory`; a composite may hold composites (random keys).
Status CollectItems(const std::string& directory, const std::string& prefix,
                    int depth_left, std::vector<ItemPlace>& items,
                    Sight& sight) {
  HF_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                      Subdirectories(directory, sight));
  for (const std::string& name : names) {
    if (IsTemporaryName(name)) continue;
    const std::string child = directory + "/" + name;
    HF_ASSIGN_OR_RETURN(ItemPlace item, ClassifyItem(child));
    item.name = prefix.empty() ? name : prefix + "/" + name;
    if (item.kind != ItemKind::kUnknown) {
      items.push_back(std::move(item));
    } else if (depth_left > 0) {
      HF_RETURN_IF_ERROR(
          CollectItems(child, item.name, depth_left - 1, items, sight));
    }
  }
  return Status();
}

Status ReadCheckpointMetadata(const std::string& directory,
                              CheckpointInfo& info, Sight& sight) {
  if (!sight.HasFile(directory, kCheckpointMetadataFile)) return Status();
  const std::shared_ptr<Store> store = StoreAt(directory);
  HF_ASSIGN_OR_RETURN(const Bytes text, store->Read(kCheckpointMetadataFile));
  if (IsValidUtf8(text.view())) info.checkpoint_metadata = text.ToString();
  Result<CheckpointMetadata> metadata = ParseCheckpointMetadata(text.view());
  // As Orbax: a damaged file hides the metadata, not the tensors. Verify
  // reports it.
  if (!metadata.ok()) return Status();
  info.init_timestamp_ns = metadata->init_timestamp_nsecs;
  info.commit_timestamp_ns = metadata->commit_timestamp_nsecs;
  if (!metadata->custom_metadata.is_null() &&
      !metadata->custom_metadata.empty()) {
    info.custom_metadata = PythonJsonText(metadata->custom_metadata);
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
      if (sight.HasFile(item.directory + "/" + name, "zarr.json")) {
        return "zarr3";
      }
    }
  }
  return "zarr";
}

bool IsV1Root(const std::string& directory, Sight& sight) {
  return sight.HasFile(directory, kV1MarkerFile);
}

Status SelectItem(const OpenOptions& options, Place& place) {
  if (options.item.empty()) return Status();
  std::erase_if(place.items, [&](const ItemPlace& item) {
    return item.name != options.item &&
           !item.name.starts_with(options.item + "/");
  });
  if (!place.items.empty()) return Status();
  return NotFoundError("Item \"" + options.item +
                       "\" was not found in the checkpoint at " +
                       place.info.path);
}

void RememberItems(Place& place) {
  for (const ItemPlace& item : place.items) {
    place.info.items[item.name] = item.name;
  }
}

Result<Place> PlaceOfStepOrItem(const std::string& path,
                                const OpenOptions& options, Sight& sight) {
  Place place;
  place.info.path = path;
  place.info.step = StepOfName(FileNameOf(path));
  HF_RETURN_IF_ERROR(ReadCheckpointMetadata(path, place.info, sight));
  HF_ASSIGN_OR_RETURN(ItemPlace self, ClassifyItem(path, options));
  if (self.kind != ItemKind::kUnknown) {
    place.info.format = FormatOfItem(self, sight);
    place.items.push_back(std::move(self));
  } else {
    HF_RETURN_IF_ERROR(CollectItems(path, "", 2, place.items, sight));
    place.info.format = IsV1Root(path, sight) ? "orbax-v1" : "orbax";
    HF_RETURN_IF_ERROR(SelectItem(options, place));
  }
  if (place.items.empty()) return NoCheckpointError(path);
  RememberItems(place);
  return place;
}

// Step directories of `root`, newest first; empty when it is no manager root.
Result<std::vector<std::pair<int64_t, std::string>>> StepsOf(
    const std::string& root, Sight& sight) {
  HF_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                      ListDirectory(root));
  std::vector<std::pair<int64_t, std::string>> steps;
  for (const std::string& name : names) {
    const std::optional<int64_t> step = StepOfName(name);
    if (step && !IsTemporaryName(name) &&
        sight.LeadsToDirectory(root + "/" + name)) {
      steps.emplace_back(*step, name);
    }
  }
  std::sort(steps.rbegin(), steps.rend());
  return steps;
}

Result<Place> PlaceOfManagerRoot(
    const std::string& root,
    const std::vector<std::pair<int64_t, std::string>>& steps,
    const OpenOptions& options, Sight& sight) {
  for (const auto& [step, name] : steps) {
    if (options.step && *options.step != step) continue;
    if (!IsFinishedStep(root + "/" + name, options.commit_mode)) {
      if (options.step) return IncompleteError(root + "/" + name);
      continue;
    }
    Result<Place> place = PlaceOfStepOrItem(root + "/" + name, options, sight);
    // An older step may do when no particular one was asked for.
    if (!place.ok() && !options.step &&
        place.status().code() == StatusCode::kNotFound) {
      continue;
    }
    return place;
  }
  if (options.step) {
    return NotFoundError("No step " + std::to_string(*options.step) +
                         " in the checkpoints at " + root);
  }
  return NoCheckpointError(root);
}

}  // namespace

std::optional<int64_t> StepOfName(std::string_view name) {
  const size_t last_separator = name.rfind('_');
  const std::string_view digits = last_separator == std::string_view::npos
                                      ? name
                                      : name.substr(last_separator + 1);
  int64_t step = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, step);
  if (digits.empty() || error != std::errc() || stop != end || step < 0) {
    return std::nullopt;
  }
  return step;
}

namespace {

Result<ItemPlace> Classify(const std::string& directory,
                           const OpenOptions& options, Sight& sight) {
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
  const bool has_arrays =
      HasZarrMetadata(directory, sight) ||
      std::any_of(names.begin(), names.end(), [&](const std::string& name) {
        const std::string below = directory + "/" + name;
        // An item whose whole tree is one array is an item all the same.
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

Result<Place> Find(const std::string& path, const OpenOptions& options,
                   Sight& sight) {
  if (path.empty() || path.find('\0') != std::string::npos) {
    return InvalidArgumentError("checkpoint path is empty or holds a NUL byte");
  }
  const std::string absolute = AbsolutePath(path);
  HF_ASSIGN_OR_RETURN(const PathKind kind, GetPathKind(absolute));
  if (kind == PathKind::kMissing) {
    return NotFoundError("Checkpoint at " + absolute + " not found.");
  }
  if (!sight.LeadsToDirectory(absolute)) return PlaceOfFile(absolute);
  if (IsTemporaryName(FileNameOf(absolute))) {
    return IncompleteError(absolute);
  }
  // A root has steps and none of the marks of a checkpoint itself.
  const bool has_marks = sight.HasFile(absolute, kCheckpointMetadataFile) ||
                         sight.HasFile(absolute, kTreeMetadataFile) ||
                         IsV1Root(absolute, sight);
  if (!has_marks) {
    HF_ASSIGN_OR_RETURN(const auto steps, StepsOf(absolute, sight));
    HF_ASSIGN_OR_RETURN(const ItemPlace self, ClassifyItem(absolute, options));
    if (!steps.empty() && self.kind == ItemKind::kUnknown) {
      return PlaceOfManagerRoot(absolute, steps, options, sight);
    }
  }
  if (options.step) {
    return InvalidArgumentError("a step was asked for, but " + absolute +
                                " is not a directory of steps");
  }
  if (!IsFinished(absolute, options.commit_mode)) {
    return IncompleteError(absolute);
  }
  return PlaceOfStepOrItem(absolute, options, sight);
}

}  // namespace

Result<ItemPlace> ClassifyItem(const std::string& directory,
                               const OpenOptions& options) {
  Sight sight;
  Result<ItemPlace> item = Classify(directory, options, sight);
  HF_RETURN_IF_ERROR(sight.trouble);
  return item;
}

Result<Place> FindPlace(const std::string& path, const OpenOptions& options) {
  Sight sight;
  Result<Place> place = Find(path, options, sight);
  HF_RETURN_IF_ERROR(sight.trouble);
  return place;
}

}  // namespace holdfast
