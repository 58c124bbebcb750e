// Distinguishes foreign formats by names and first bytes.
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "engine/commit/known_formats.h"
#include "engine/commit/layout.h"
#include "engine/format/directory_names.h"
#include "foreign/open/open.h"
#include "foreign/safetensors/safetensors.h"
#include "foreign/safetensors/weight_index.h"
#include "foreign/torch/torch_checkpoint.h"
#include "ground/base/status_macros.h"
#include "ground/base/text.h"
#include "stores/place/directory_ops.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kBackendFile = "metadata.json";
constexpr std::string_view kMegatronCommonFile = "common.pt";
constexpr std::string_view kDcpFile = ".metadata";
constexpr uint64_t kBackendFileBytesMax = 1 << 20;
// This file is next to Megatron's `iter_…`. It contains a number, or "release".
constexpr std::string_view kTrackerFile = "latest_checkpointed_iteration.txt";
constexpr uint64_t kTrackerFileBytesMax = 64;

// Returns the format for the back end that Megatron's metadata.json names;
// kNone for any other file.
Result<ForeignFormat> FormatOfMegatron(const Place& directory) {
  const std::shared_ptr<Store> store = directory.OpenStore();
  HF_ASSIGN_OR_RETURN(const ObjectInfo info, store->Stat(kBackendFile));
  if (info.byte_count > kBackendFileBytesMax) return ForeignFormat::kNone;
  HF_ASSIGN_OR_RETURN(const Bytes text, store->Read(kBackendFile));
  const auto json = nlohmann::json::parse(text.view(), nullptr, false);
  if (!json.is_object()) return ForeignFormat::kNone;
  const auto backend = json.find("sharded_backend");
  if (backend == json.end() || !backend->is_string()) {
    return ForeignFormat::kNone;
  }
  if (*backend == "zarr") return ForeignFormat::kMegatronZarr;
  if (*backend == "torch_dist") return ForeignFormat::kTorchDist;
  return FailedPreconditionError((directory / kBackendFile).path() +
                                 ": a checkpoint of Megatron's backend \"" +
                                 backend->get<std::string>() +
                                 "\" (want zarr or torch_dist)");
}

bool Has(const std::vector<std::string>& names, std::string_view name) {
  return std::binary_search(names.begin(), names.end(), name);
}

// Returns whether the path has a NUL. Such a path is left to Orbax's rules,
// which refuse it, because the system would use only the part before the NUL.
bool HoldsNul(const Place& place) {
  return place.path().find('\0') != std::string::npos;
}

// Returns whether the path leads to a file, also through symbolic links.
Result<bool> LeadsToFile(const Place& place) {
  if (place.is_remote()) {
    HF_ASSIGN_OR_RETURN(const PathKind kind, GetPathKind(place));
    return kind == PathKind::kFile;
  }
  std::error_code error;
  return fs::is_regular_file(place.path(), error);
}

Result<bool> HasFile(const Place& directory,
                     const std::vector<std::string>& names,
                     std::string_view name) {
  if (!Has(names, name)) return false;
  return LeadsToFile(directory / name);
}

Result<ForeignFormat> FormatOfDirectory(const Place& directory) {
  HF_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                      ListDirectory(directory));
  HF_ASSIGN_OR_RETURN(const bool has_backend,
                      HasFile(directory, names, kBackendFile));
  if (has_backend) {
    HF_ASSIGN_OR_RETURN(const ForeignFormat format,
                        FormatOfMegatron(directory));
    if (format != ForeignFormat::kNone) return format;
  }
  // If there is a common state, opening fails, because another format might
  // read the arrays and silently omit the rest.
  HF_ASSIGN_OR_RETURN(const bool has_common,
                      HasFile(directory, names, kMegatronCommonFile));
  if (has_common) {
    return DataLossError((directory / kBackendFile).path() + ": it is " +
                         (has_backend ? "damaged" : "missing") + ", and " +
                         std::string(kMegatronCommonFile) +
                         " says that this is Megatron's checkpoint");
  }
  HF_ASSIGN_OR_RETURN(const bool is_dcp, HasFile(directory, names, kDcpFile));
  if (is_dcp) return ForeignFormat::kDcp;
  const std::string lone = TextOfSign("dcp-without-metadata", directory, names);
  if (!lone.empty()) return DataLossError(directory.path() + ": " + lone);
  for (const std::string_view mark :
       {kCheckpointMetadataFile, kShardingFile, kCommitMarkerFile,
        std::string_view("manifest.ocdbt")}) {
    if (Has(names, mark)) return ForeignFormat::kNone;
  }
  // If the directory has a model in both formats, safetensors is read, because
  // it records more.
  for (const auto& [suffix, format] :
       {std::pair(kSafetensorsSuffix, ForeignFormat::kSafetensors),
        std::pair(kSafetensorsIndexSuffix, ForeignFormat::kSafetensors),
        std::pair(kTorchIndexSuffix, ForeignFormat::kTorchFile)}) {
    for (const std::string& name : names) {
      if (!name.ends_with(suffix)) continue;
      HF_ASSIGN_OR_RETURN(const bool is_file, LeadsToFile(directory / name));
      // In a view, the target of a link may be missing. Opening reports which
      // target.
      if (is_file || Has(names, kDigestFile)) return format;
    }
  }
  for (const std::string& name : TorchWeightsIn(names)) {
    HF_ASSIGN_OR_RETURN(const bool is_file, LeadsToFile(directory / name));
    if (is_file) return ForeignFormat::kTorchFile;
  }
  return ForeignFormat::kNone;
}

// Returns the format that the name identifies; kNone if it identifies none.
ForeignFormat FormatOfName(std::string_view name) {
  if (name.ends_with(kSafetensorsSuffix)) return ForeignFormat::kSafetensors;
  if (name.ends_with(".npz")) return ForeignFormat::kNpz;
  for (const std::string_view suffix : {".pt", ".pth", ".ckpt"}) {
    if (name.ends_with(suffix)) return ForeignFormat::kTorchFile;
  }
  return ForeignFormat::kNone;
}

ForeignFormat FormatOfRow(const KnownFormat& row) {
  for (const ForeignFormat format :
       {ForeignFormat::kSafetensors, ForeignFormat::kNpz,
        ForeignFormat::kTorchFile}) {
    if (row.id == ForeignFormatName(format)) return format;
  }
  return ForeignFormat::kNone;
}

// Recognizes a file by its contents, because its name may be wrong. For a file
// on a server, nothing is read if the name is enough.
Result<ForeignFormat> FormatOfFile(const Place& place) {
  const std::string name = place.name();
  if (name == "manifest.ocdbt" || name == ".zarray" || name == "zarr.json") {
    return ForeignFormat::kNone;
  }
  if (name.ends_with(kSafetensorsIndexSuffix)) {
    return ForeignFormat::kSafetensors;
  }
  if (name.ends_with(kTorchIndexSuffix)) return ForeignFormat::kTorchFile;
  if (name == kDcpFile) return FormatOfDirectory(place.parent());
  if (name == kBackendFile) {
    return FormatOfMegatron(place.parent());
  }
  const ForeignFormat named = FormatOfName(name);
  Place real = place;
  if (place.is_remote()) {
    if (named != ForeignFormat::kNone) return named;
  } else {
    std::error_code error;
    real = Place(fs::canonical(place.path(), error).string());
    if (error) return ForeignFormat::kNone;
  }
  HF_ASSIGN_OR_RETURN(
      const FileStart start,
      StartOfFile(*real.parent().OpenStore(), real.name(), name));
  const KnownFormat* const row = FormatOfStart(start);
  return row != nullptr && row->is_sure ? FormatOfRow(*row) : named;
}

std::string IterationDirectory(int64_t iteration) {
  std::string digits = std::to_string(iteration);
  if (digits.size() < 7) digits.insert(0, 7 - digits.size(), '0');
  return "iter_" + digits;
}

// Returns the name of the directory that the tracker file names.
Result<std::string> TrackedDirectory(const Place& root) {
  const std::shared_ptr<Store> store = root.OpenStore();
  HF_ASSIGN_OR_RETURN(const ObjectInfo info, store->Stat(kTrackerFile));
  const std::string file = (root / kTrackerFile).path();
  if (info.byte_count > kTrackerFileBytesMax) {
    return DataLossError(file + ": got " + std::to_string(info.byte_count) +
                         " bytes, want the number of an iteration");
  }
  HF_ASSIGN_OR_RETURN(const Bytes bytes, store->Read(kTrackerFile));
  std::string_view text = bytes.view();
  while (!text.empty() &&
         std::isspace(static_cast<unsigned char>(text.back()))) {
    text.remove_suffix(1);
  }
  if (text == "release") return std::string(text);
  const auto iteration = ParseNumber<int64_t>(text);
  if (iteration && *iteration >= 0) return IterationDirectory(*iteration);
  return DataLossError(file +
                       ": want the number of an iteration, or \"release\"");
}

}  // namespace

std::string_view ForeignFormatName(ForeignFormat format) {
  switch (format) {
    case ForeignFormat::kNone:
      return "";
    case ForeignFormat::kSafetensors:
      return "safetensors";
    case ForeignFormat::kNpz:
      return "npz";
    case ForeignFormat::kTorchFile:
      return "torch";
    case ForeignFormat::kDcp:
      return "dcp";
    case ForeignFormat::kTorchDist:
      return "torch-dist";
    case ForeignFormat::kMegatronZarr:
      return "megatron-zarr";
  }
  return "";
}

Result<ForeignFormat> FindForeignFormat(const Place& place) {
  if (HoldsNul(place)) return ForeignFormat::kNone;
  // An Orbax item costs only this request.
  HF_ASSIGN_OR_RETURN(const bool is_item,
                      LeadsToFile(place / kTreeMetadataFile));
  if (is_item) return ForeignFormat::kNone;
  HF_ASSIGN_OR_RETURN(const bool is_directory, LeadsToDirectory(place));
  if (is_directory) return FormatOfDirectory(place);
  HF_ASSIGN_OR_RETURN(const bool is_file, LeadsToFile(place));
  return is_file ? FormatOfFile(place) : ForeignFormat::kNone;
}

Result<ForeignPlace> FindForeignPlace(const Place& place,
                                      const OpenOptions& options) {
  ForeignPlace found{ForeignFormat::kNone, place, options};
  HF_ASSIGN_OR_RETURN(found.format, FindForeignFormat(place));
  if (found.format != ForeignFormat::kNone || HoldsNul(place)) return found;
  HF_ASSIGN_OR_RETURN(const bool is_root, LeadsToFile(place / kTrackerFile));
  if (!is_root) return found;
  std::string name;
  if (options.step) {
    name = IterationDirectory(*options.step);
  } else {
    HF_ASSIGN_OR_RETURN(name, TrackedDirectory(place));
  }
  const Place step = place / name;
  HF_ASSIGN_OR_RETURN(const ForeignFormat format, FindForeignFormat(step));
  // Any other directory may match Orbax's rules.
  if (format == ForeignFormat::kNone) return found;
  found = {format, step, options};
  found.options.step.reset();
  return found;
}

}  // namespace holdfast
