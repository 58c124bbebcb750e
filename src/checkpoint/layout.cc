#include "checkpoint/layout.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "base/status_macros.h"
#include "checkpoint/format/checkpoint_metadata.h"
#include "checkpoint/format/directory_names.h"
#include "checkpoint/format/json_text.h"
#include "checkpoint/unfinished.h"
#include "storage/directory_ops.h"
#include "storage/file_store.h"
#include "tree/utf8.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;

bool HasFile(const std::string& directory, std::string_view name) {
  const Result<PathKind> kind =
      GetPathKind(directory + "/" + std::string(name));
  return kind.ok() && *kind == PathKind::kFile;
}

bool IsDirectory(const std::string& path) {
  const Result<PathKind> kind = GetPathKind(path);
  return kind.ok() && *kind == PathKind::kDirectory;
}

// Steps may be links to directories elsewhere; items may not.
bool LeadsToDirectory(const std::string& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

bool HasZarrMetadata(const std::string& directory) {
  return HasFile(directory, ".zarray") || HasFile(directory, "zarr.json");
}

Result<std::vector<std::string>> Subdirectories(const std::string& directory) {
  HF_ASSIGN_OR_RETURN(std::vector<std::string> names, ListDirectory(directory));
  std::erase_if(names, [&](const std::string& name) {
    return !IsDirectory(directory + "/" + name);
  });
  return names;
}

// The document of a JSON item, by the names Orbax's handlers give it; "" when
// there is none.
std::string JsonFileOf(const std::string& directory) {
  for (const char* name : {"metadata", "data.json", "metrics"}) {
    if (HasFile(directory, name)) return name;
  }
  return "";
}

bool HasOrbaxMarks(const std::string& directory) {
  return HasFile(directory, kCheckpointMetadataFile) ||
         HasFile(directory, kShardingFile) ||
         HasFile(directory, kCommitMarkerFile);
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
  const fs::path file(path);
  ItemPlace item;
  item.directory = file.parent_path().string();
  Place place;
  place.info.path = item.directory;
  if (file.filename() == "manifest.ocdbt") {
    item.kind = ItemKind::kOcdbt;
    place.info.format = "ocdbt";
  } else if (file.filename() == ".zarray" || file.filename() == "zarr.json") {
    item.kind = ItemKind::kZarr;
    place.info.format = file.filename() == ".zarray" ? "zarr" : "zarr3";
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
                    int depth_left, std::vector<ItemPlace>& items) {
  HF_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                      Subdirectories(directory));
  for (const std::string& name : names) {
    if (IsTemporaryName(name)) continue;
    const std::string child = directory + "/" + name;
    HF_ASSIGN_OR_RETURN(ItemPlace item, ClassifyItem(child));
    item.name = prefix.empty() ? name : prefix + "/" + name;
    if (item.kind != ItemKind::kUnknown) {
      items.push_back(std::move(item));
    } else if (depth_left > 0) {
      HF_RETURN_IF_ERROR(CollectItems(child, item.name, depth_left - 1, items));
    }
  }
  return Status();
}

Status ReadCheckpointMetadata(const std::string& directory,
                              CheckpointInfo& info) {
  if (!HasFile(directory, kCheckpointMetadataFile)) return Status();
  FileStore store(directory);
  HF_ASSIGN_OR_RETURN(const Bytes text, store.Read(kCheckpointMetadataFile));
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

std::string FormatOfItem(const ItemPlace& item) {
  if (item.kind == ItemKind::kOcdbt) return "ocdbt";
  if (item.kind != ItemKind::kZarr) return "orbax";
  if (HasFile(item.directory, "zarr.json")) return "zarr3";
  if (HasFile(item.directory, ".zarray")) return "zarr";
  const Result<std::vector<std::string>> names = Subdirectories(item.directory);
  if (names.ok()) {
    for (const std::string& name : *names) {
      if (HasFile(item.directory + "/" + name, "zarr.json")) return "zarr3";
    }
  }
  return "zarr";
}

bool IsV1Root(const std::string& directory) {
  return HasFile(directory, kV1MarkerFile);
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
                                const OpenOptions& options) {
  Place place;
  place.info.path = path;
  place.info.step = StepOfName(fs::path(path).filename().string());
  HF_RETURN_IF_ERROR(ReadCheckpointMetadata(path, place.info));
  HF_ASSIGN_OR_RETURN(ItemPlace self, ClassifyItem(path, options));
  if (self.kind != ItemKind::kUnknown) {
    place.info.format = FormatOfItem(self);
    place.items.push_back(std::move(self));
  } else {
    HF_RETURN_IF_ERROR(CollectItems(path, "", 2, place.items));
    place.info.format = IsV1Root(path) ? "orbax-v1" : "orbax";
    HF_RETURN_IF_ERROR(SelectItem(options, place));
  }
  if (place.items.empty()) return NoCheckpointError(path);
  RememberItems(place);
  return place;
}

// Step directories of `root`, newest first; empty when it is no manager root.
Result<std::vector<std::pair<int64_t, std::string>>> StepsOf(
    const std::string& root) {
  HF_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                      ListDirectory(root));
  std::vector<std::pair<int64_t, std::string>> steps;
  for (const std::string& name : names) {
    const std::optional<int64_t> step = StepOfName(name);
    if (step && !IsTemporaryName(name) && LeadsToDirectory(root + "/" + name)) {
      steps.emplace_back(*step, name);
    }
  }
  std::sort(steps.rbegin(), steps.rend());
  return steps;
}

Result<Place> PlaceOfManagerRoot(
    const std::string& root,
    const std::vector<std::pair<int64_t, std::string>>& steps,
    const OpenOptions& options) {
  for (const auto& [step, name] : steps) {
    if (options.step && *options.step != step) continue;
    if (!IsFinished(root + "/" + name, options.commit_mode)) {
      if (options.step) return IncompleteError(root + "/" + name);
      continue;
    }
    Result<Place> place = PlaceOfStepOrItem(root + "/" + name, options);
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

std::string AbsolutePath(const std::string& path) {
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error);
  std::string text =
      (error ? fs::path(path) : absolute).lexically_normal().string();
  while (text.size() > 1 && text.back() == '/') text.pop_back();
  return text;
}

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

Result<ItemPlace> ClassifyItem(const std::string& directory,
                               const OpenOptions& options) {
  ItemPlace item;
  item.directory = directory;
  if (HasFile(directory, kTreeMetadataFile) ||
      HasFile(directory, options.aggregate_filename)) {
    item.kind = ItemKind::kPytree;
    return item;
  }
  const bool has_manifest = HasFile(directory, "manifest.ocdbt");
  const bool has_marks = HasOrbaxMarks(directory);
  if (has_manifest && has_marks) return MissingTreeMetadataError(directory);
  if (has_manifest) {
    item.kind = ItemKind::kOcdbt;
    return item;
  }
  item.json_file = JsonFileOf(directory);
  if (!item.json_file.empty()) {
    item.kind = ItemKind::kJson;
    return item;
  }
  HF_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                      Subdirectories(directory));
  const bool has_arrays =
      HasZarrMetadata(directory) ||
      std::any_of(names.begin(), names.end(), [&](const std::string& name) {
        const std::string below = directory + "/" + name;
        // An item whose whole tree is one array is an item all the same.
        return HasZarrMetadata(below) && !HasFile(below, kTreeMetadataFile);
      });
  if (!has_arrays) return item;
  // ArrayCheckpointHandler's item of one array never had `_METADATA`.
  const bool is_array_item = names == std::vector<std::string>{"checkpoint"};
  if (has_marks && !is_array_item) return MissingTreeMetadataError(directory);
  item.kind = ItemKind::kZarr;
  return item;
}

Result<Place> FindPlace(const std::string& path, const OpenOptions& options) {
  if (path.empty() || path.find('\0') != std::string::npos) {
    return InvalidArgumentError("checkpoint path is empty or holds a NUL byte");
  }
  const std::string absolute = AbsolutePath(path);
  HF_ASSIGN_OR_RETURN(const PathKind kind, GetPathKind(absolute));
  if (kind == PathKind::kMissing) {
    return NotFoundError("Checkpoint at " + absolute + " not found.");
  }
  if (!LeadsToDirectory(absolute)) return PlaceOfFile(absolute);
  if (IsTemporaryName(fs::path(absolute).filename().string())) {
    return IncompleteError(absolute);
  }
  // A root has steps and none of the marks of a checkpoint itself.
  const bool has_marks = HasFile(absolute, kCheckpointMetadataFile) ||
                         HasFile(absolute, kTreeMetadataFile) ||
                         IsV1Root(absolute);
  if (!has_marks) {
    HF_ASSIGN_OR_RETURN(const auto steps, StepsOf(absolute));
    HF_ASSIGN_OR_RETURN(const ItemPlace self, ClassifyItem(absolute, options));
    if (!steps.empty() && self.kind == ItemKind::kUnknown) {
      return PlaceOfManagerRoot(absolute, steps, options);
    }
  }
  if (options.step) {
    return InvalidArgumentError("a step was asked for, but " + absolute +
                                " is not a directory of steps");
  }
  if (!IsFinished(absolute, options.commit_mode)) {
    return IncompleteError(absolute);
  }
  return PlaceOfStepOrItem(absolute, options);
}

}  // namespace holdfast
