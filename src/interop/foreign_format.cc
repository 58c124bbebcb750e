// Telling foreign formats apart by names and first bytes.
#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/coding.h"
#include "base/status_macros.h"
#include "checkpoint/format/directory_names.h"
#include "checkpoint/layout.h"
#include "interop/open.h"
#include "interop/safetensors.h"
#include "interop/safetensors_header.h"
#include "place/directory_ops.h"
#include "storage/file_store.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kBackendFile = "metadata.json";
constexpr std::string_view kDcpFile = ".metadata";
constexpr uint64_t kBackendFileBytesMax = 1 << 20;
// Beside Megatron's `iter_…`; has a number, or "release".
constexpr std::string_view kTrackerFile = "latest_checkpointed_iteration.txt";
constexpr uint64_t kTrackerFileBytesMax = 64;

// By the word that Megatron's metadata.json has for what wrote the tensors;
// kNone when it is no such file.
Result<ForeignFormat> FormatOfMegatron(const std::string& directory) {
  FileStore store(directory);
  HF_ASSIGN_OR_RETURN(const ObjectInfo info, store.Stat(kBackendFile));
  if (info.byte_count > kBackendFileBytesMax) return ForeignFormat::kNone;
  HF_ASSIGN_OR_RETURN(const Bytes text, store.Read(kBackendFile));
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

bool IsRegularFile(const std::string& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

Result<ForeignFormat> FormatOfDirectory(const std::string& directory) {
  HF_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                      ListDirectory(directory));
  const auto has_file = [&](std::string_view name) {
    return Has(names, name) &&
           IsRegularFile(directory + "/" + std::string(name));
  };
  if (has_file(kBackendFile)) {
    HF_ASSIGN_OR_RETURN(const ForeignFormat format,
                        FormatOfMegatron(directory));
    if (format != ForeignFormat::kNone) return format;
  }
  if (has_file(kDcpFile)) return ForeignFormat::kDcp;
  for (const std::string_view mark :
       {kCheckpointMetadataFile, kShardingFile, kCommitMarkerFile,
        std::string_view("manifest.ocdbt")}) {
    if (Has(names, mark)) return ForeignFormat::kNone;
  }
  const bool has_safetensors =
      std::any_of(names.begin(), names.end(), [&](const std::string& name) {
        return (name.ends_with(kSafetensorsSuffix) ||
                name.ends_with(kSafetensorsIndexSuffix)) &&
               IsRegularFile(directory + "/" + name);
      });
  return has_safetensors ? ForeignFormat::kSafetensors : ForeignFormat::kNone;
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
  const fs::path file(path);
  const std::string name = file.filename().string();
  if (name == "manifest.ocdbt" || name == ".zarray" || name == "zarr.json") {
    return ForeignFormat::kNone;
  }
  if (path.ends_with(kSafetensorsSuffix) ||
      path.ends_with(kSafetensorsIndexSuffix)) {
    return ForeignFormat::kSafetensors;
  }
  if (name == kDcpFile) return FormatOfDirectory(file.parent_path().string());
  if (name == kBackendFile) {
    return FormatOfMegatron(file.parent_path().string());
  }
  if (path.ends_with(".npz")) return ForeignFormat::kNpz;
  std::error_code error;
  const fs::path real = fs::canonical(file, error);
  if (error) return ForeignFormat::kNone;
  FileStore store(real.parent_path().string());
  const std::string key = real.filename().string();
  HF_ASSIGN_OR_RETURN(const ObjectInfo info, store.Stat(key));
  HF_ASSIGN_OR_RETURN(
      const Bytes start,
      store.Read(key, {0, std::min<uint64_t>(info.byte_count,
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
  FileStore store(root);
  HF_ASSIGN_OR_RETURN(const ObjectInfo info, store.Stat(kTrackerFile));
  const std::string file = root + "/" + std::string(kTrackerFile);
  if (info.byte_count > kTrackerFileBytesMax) {
    return DataLossError(file + ": got " + std::to_string(info.byte_count) +
                         " bytes, want the number of an iteration");
  }
  HF_ASSIGN_OR_RETURN(const Bytes bytes, store.Read(kTrackerFile));
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
  if (IsRegularFile(path + "/" + std::string(kTreeMetadataFile))) {
    return ForeignFormat::kNone;
  }
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_directory(status)) return FormatOfDirectory(path);
  if (fs::is_regular_file(status)) return FormatOfFile(path);
  return ForeignFormat::kNone;
}

Result<ForeignPlace> FindForeignPlace(const std::string& path,
                                      const OpenOptions& options) {
  ForeignPlace place{ForeignFormat::kNone, path, options};
  HF_ASSIGN_OR_RETURN(place.format, FindForeignFormat(path));
  if (place.format != ForeignFormat::kNone ||
      !IsRegularFile(path + "/" + std::string(kTrackerFile))) {
    return place;
  }
  std::string name;
  if (options.step) {
    name = IterationDirectory(*options.step);
  } else {
    HF_ASSIGN_OR_RETURN(name, TrackedDirectory(path));
  }
  const std::string step_path = path + "/" + name;
  HF_ASSIGN_OR_RETURN(const ForeignFormat format, FindForeignFormat(step_path));
  // Whatever else it is, Orbax's rules may know.
  if (format == ForeignFormat::kNone) return place;
  place = {format, step_path, options};
  place.options.step.reset();
  return place;
}

}  // namespace holdfast
