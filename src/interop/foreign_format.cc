// Telling foreign formats apart by names and first bytes.
#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/coding.h"
#include "base/status_macros.h"
#include "checkpoint/commit/layout.h"
#include "checkpoint/format/directory_names.h"
#include "interop/open.h"
#include "interop/safetensors.h"
#include "interop/safetensors_header.h"
#include "place/directory_ops.h"
#include "place/open_store.h"
#include "storage/url_path.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kBackendFile = "metadata.json";
constexpr std::string_view kMegatronCommonFile = "common.pt";
constexpr std::string_view kDcpFile = ".metadata";
constexpr uint64_t kBackendFileBytesMax = 1 << 20;
// Beside Megatron's `iter_…`; has a number, or "release".
constexpr std::string_view kTrackerFile = "latest_checkpointed_iteration.txt";
constexpr uint64_t kTrackerFileBytesMax = 64;

// Decided by the name of the back end in Megatron's metadata.json; kNone for
// any other file.
Result<ForeignFormat> FormatOfMegatron(const std::string& directory) {
  const std::shared_ptr<Store> store = StoreAt(directory);
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
  return FailedPreconditionError(directory + "/" + std::string(kBackendFile) +
                                 ": a checkpoint of Megatron's backend \"" +
                                 backend->get<std::string>() +
                                 "\" (want zarr or torch_dist)");
}

bool Has(const std::vector<std::string>& names, std::string_view name) {
  return std::binary_search(names.begin(), names.end(), name);
}

// Symbolic links are followed.
Result<bool> LeadsToFile(const std::string& path) {
  if (IsUrl(path)) {
    HF_ASSIGN_OR_RETURN(const PathKind kind, GetPathKind(path));
    return kind == PathKind::kFile;
  }
  std::error_code error;
  return fs::is_regular_file(path, error);
}

Result<bool> HasFile(const std::string& directory,
                     const std::vector<std::string>& names,
                     std::string_view name) {
  if (!Has(names, name)) return false;
  return LeadsToFile(directory + "/" + std::string(name));
}

Result<ForeignFormat> FormatOfDirectory(const std::string& directory) {
  HF_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                      ListDirectory(directory));
  HF_ASSIGN_OR_RETURN(const bool has_backend,
                      HasFile(directory, names, kBackendFile));
  if (has_backend) {
    HF_ASSIGN_OR_RETURN(const ForeignFormat format,
                        FormatOfMegatron(directory));
    if (format != ForeignFormat::kNone) return format;
  }
  // Another format might read its arrays and silently leave out the rest.
  HF_ASSIGN_OR_RETURN(const bool has_common,
                      HasFile(directory, names, kMegatronCommonFile));
  if (has_common) {
    return DataLossError(directory + "/" + std::string(kBackendFile) +
                         ": it is " + (has_backend ? "damaged" : "missing") +
                         ", and " + std::string(kMegatronCommonFile) +
                         " says that this is Megatron's checkpoint");
  }
  HF_ASSIGN_OR_RETURN(const bool is_dcp, HasFile(directory, names, kDcpFile));
  if (is_dcp) return ForeignFormat::kDcp;
  for (const std::string_view mark :
       {kCheckpointMetadataFile, kShardingFile, kCommitMarkerFile,
        std::string_view("manifest.ocdbt")}) {
    if (Has(names, mark)) return ForeignFormat::kNone;
  }
  for (const std::string& name : names) {
    if (!name.ends_with(kSafetensorsSuffix) &&
        !name.ends_with(kSafetensorsIndexSuffix)) {
      continue;
    }
    HF_ASSIGN_OR_RETURN(const bool is_file,
                        LeadsToFile(directory + "/" + name));
    if (is_file) return ForeignFormat::kSafetensors;
  }
  return ForeignFormat::kNone;
}

// The first bytes are a plausible length, then a JSON object.
bool LooksLikeSafetensors(std::string_view start) {
  if (start.size() <= kSafetensorsLengthBytes) return false;
  Cursor cursor(start);
  uint64_t length = 0;
  (void)cursor.ReadU64Little(length);
  return length <= kSafetensorsHeaderBytesMax &&
         start[kSafetensorsLengthBytes] == '{';
}

Result<ForeignFormat> FormatOfFile(const std::string& path) {
  const std::string name = FileNameOf(path);
  if (name == "manifest.ocdbt" || name == ".zarray" || name == "zarr.json") {
    return ForeignFormat::kNone;
  }
  if (path.ends_with(kSafetensorsSuffix) ||
      path.ends_with(kSafetensorsIndexSuffix)) {
    return ForeignFormat::kSafetensors;
  }
  if (name == kDcpFile) return FormatOfDirectory(ParentDirectory(path));
  if (name == kBackendFile) {
    return FormatOfMegatron(ParentDirectory(path));
  }
  if (path.ends_with(".npz")) return ForeignFormat::kNpz;
  std::string real = path;
  if (!IsUrl(path)) {
    std::error_code error;
    real = fs::canonical(path, error).string();
    if (error) return ForeignFormat::kNone;
  }
  const std::shared_ptr<Store> store = StoreAt(ParentDirectory(real));
  const std::string key = FileNameOf(real);
  HF_ASSIGN_OR_RETURN(const ObjectInfo info, store->Stat(key));
  HF_ASSIGN_OR_RETURN(
      const Bytes start,
      store->Read(key, {0, std::min<uint64_t>(info.byte_count,
                                              kSafetensorsLengthBytes + 1)}));
  if (LooksLikeSafetensors(start.view())) return ForeignFormat::kSafetensors;
  if (start.view().starts_with("PK\x03\x04")) return ForeignFormat::kNpz;
  return ForeignFormat::kNone;
}

std::string IterationDirectory(int64_t iteration) {
  std::string digits = std::to_string(iteration);
  if (digits.size() < 7) digits.insert(0, 7 - digits.size(), '0');
  return "iter_" + digits;
}

// The directory that a tracker names.
Result<std::string> TrackedDirectory(const std::string& root) {
  const std::shared_ptr<Store> store = StoreAt(root);
  HF_ASSIGN_OR_RETURN(const ObjectInfo info, store->Stat(kTrackerFile));
  const std::string file = root + "/" + std::string(kTrackerFile);
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
  int64_t iteration = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), iteration);
  if (error != std::errc() || end != text.data() + text.size() ||
      iteration < 0) {
    return DataLossError(file +
                         ": want the number of an iteration, or \"release\"");
  }
  return IterationDirectory(iteration);
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
    case ForeignFormat::kDcp:
      return "dcp";
    case ForeignFormat::kTorchDist:
      return "torch-dist";
    case ForeignFormat::kMegatronZarr:
      return "megatron-zarr";
  }
  return "";
}

Result<ForeignFormat> FindForeignFormat(const std::string& path) {
  // The one look that an item of Orbax pays for.
  HF_ASSIGN_OR_RETURN(const bool is_item,
                      LeadsToFile(path + "/" + std::string(kTreeMetadataFile)));
  if (is_item) return ForeignFormat::kNone;
  HF_ASSIGN_OR_RETURN(const bool is_directory, LeadsToDirectory(path));
  if (is_directory) return FormatOfDirectory(path);
  HF_ASSIGN_OR_RETURN(const bool is_file, LeadsToFile(path));
  return is_file ? FormatOfFile(path) : ForeignFormat::kNone;
}

Result<ForeignPlace> FindForeignPlace(const std::string& path,
                                      const OpenOptions& options) {
  ForeignPlace place{ForeignFormat::kNone, path, options};
  HF_ASSIGN_OR_RETURN(place.format, FindForeignFormat(path));
  if (place.format != ForeignFormat::kNone) return place;
  HF_ASSIGN_OR_RETURN(const bool is_root,
                      LeadsToFile(path + "/" + std::string(kTrackerFile)));
  if (!is_root) return place;
  std::string name;
  if (options.step) {
    name = IterationDirectory(*options.step);
  } else {
    HF_ASSIGN_OR_RETURN(name, TrackedDirectory(path));
  }
  const std::string step_path = path + "/" + name;
  HF_ASSIGN_OR_RETURN(const ForeignFormat format, FindForeignFormat(step_path));
  // Orbax's rules may recognise any other directory.
  if (format == ForeignFormat::kNone) return place;
  place = {format, step_path, options};
  place.options.step.reset();
  return place;
}

}  // namespace holdfast
