// Open and Load of any format.
#include "interop/open.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/no_throw.h"
#include "base/status_macros.h"
#include "checkpoint/layout.h"
#include "checkpoint/opened_checkpoint.h"
#include "checkpoint/run.h"
#include "interop/dcp.h"
#include "interop/load_leaves.h"
#include "interop/npz.h"
#include "interop/safetensors.h"
#include "interop/tree_sidecar.h"
#include "megatron/open.h"
#include "storage/file_store.h"

namespace holdfast {
namespace {

// What a sidecar may be at most; it is read whole.
constexpr uint64_t kSidecarBytesMax = uint64_t{1} << 30;

Status CheckForeignOptions(const std::string& path,
                           const OpenOptions& options) {
  if (options.step) {
    return InvalidArgumentError("a step was asked for, but " + path +
                                " is not a directory of steps");
  }
  if (options.item.empty()) return Status();
  return NotFoundError("Item \"" + options.item +
                       "\" was not found in the checkpoint at " + path);
}

// A file stands for the checkpoint that it is the head of.
std::string DirectoryOf(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return path;
  return std::filesystem::path(path).parent_path().string();
}

// The text of the sidecar in an Orbax item's custom_metadata; empty: none.
Result<std::string> OrbaxSidecar(const CheckpointInfo& info) {
  if (info.item_custom_metadata.find(kSidecarKey) == std::string::npos) {
    return std::string();
  }
  const auto metadata =
      nlohmann::ordered_json::parse(info.item_custom_metadata, nullptr, false);
  if (!metadata.is_object()) return std::string();
  const auto sidecar = metadata.find(kSidecarKey);
  if (sidecar == metadata.end()) return std::string();
  if (sidecar->is_string()) return sidecar->get<std::string>();
  return sidecar->dump(-1, ' ', false,
                       nlohmann::ordered_json::error_handler_t::replace);
}

Result<std::unique_ptr<Checkpoint>> OpenOrbax(const std::string& path,
                                              const OpenOptions& options) {
  HF_ASSIGN_OR_RETURN(std::unique_ptr<Checkpoint> checkpoint,
                      OpenCheckpoint(path, options));
  if (!options.use_sidecar) return checkpoint;
  HF_ASSIGN_OR_RETURN(const std::string text, OrbaxSidecar(checkpoint->info()));
  if (text.empty()) return checkpoint;
  Result<TreeSidecar> sidecar = ParseSidecar(text);
  if (!sidecar.ok()) return sidecar.status().WithContext(path);
  return WithSidecar(std::move(checkpoint), *sidecar);
}

// Orbax's checkpoints are restored chunk by chunk, unless a sidecar says that
// some leaves are not what they seem.
Result<LoadResult> LoadOrbax(const std::string& path,
                             const LoadOptions& options) {
  Stopwatch watch;
  HF_ASSIGN_OR_RETURN(
      const auto opened,
      OpenedCheckpoint::Open(path, options.open, ItemDetail::kForLoading));
  if (options.open.use_sidecar) {
    HF_ASSIGN_OR_RETURN(const std::string text, OrbaxSidecar(opened->info()));
    if (!text.empty()) {
      HF_ASSIGN_OR_RETURN(const auto seen, OpenOrbax(path, options.open));
      return LoadLeaves(*seen, options);
    }
  }
  const double open_seconds = watch.Lap();
  HF_ASSIGN_OR_RETURN(LoadResult result, LoadCheckpoint(*opened, options));
  result.stats.plan_seconds += open_seconds;
  result.stats.total_seconds += open_seconds;
  return result;
}

Result<LoadResult> LoadAny(const std::string& path,
                           const LoadOptions& options) {
  const std::string absolute = AbsolutePath(path);
  HF_ASSIGN_OR_RETURN(ForeignPlace place,
                      FindForeignPlace(absolute, options.open));
  if (place.format == ForeignFormat::kNone) return LoadOrbax(path, options);
  place.options.stored_sizes = false;
  HF_ASSIGN_OR_RETURN(const auto checkpoint,
                      OpenForeign(place.format, place.path, place.options,
                                  options.open.use_sidecar));
  return LoadLeaves(*checkpoint, options);
}

}  // namespace

Result<std::unique_ptr<Checkpoint>> WithSidecarFile(
    std::unique_ptr<Checkpoint> base, const std::string& directory) {
  FileStore store(directory);
  const Result<ObjectInfo> info = store.Stat(kSidecarFile);
  if (!info.ok()) {
    if (info.status().code() == StatusCode::kNotFound) return base;
    return info.status();
  }
  const std::string file = directory + "/" + std::string(kSidecarFile);
  if (info->byte_count > kSidecarBytesMax) {
    return DataLossError(file + ": a tree of " +
                         std::to_string(info->byte_count) + " bytes");
  }
  HF_ASSIGN_OR_RETURN(const Bytes text, store.Read(kSidecarFile));
  Result<TreeSidecar> sidecar = ParseSidecar(text.view());
  if (!sidecar.ok()) return sidecar.status().WithContext(file);
  return WithSidecar(std::move(base), *sidecar);
}

Result<std::unique_ptr<Checkpoint>> OpenForeign(ForeignFormat format,
                                                const std::string& path,
                                                const OpenOptions& options,
                                                bool use_sidecar) {
  HF_RETURN_IF_ERROR(CheckForeignOptions(path, options));
  switch (format) {
    case ForeignFormat::kSafetensors:
      return OpenSafetensors(path, use_sidecar);
    case ForeignFormat::kNpz:
      return OpenNpz(path, use_sidecar);
    case ForeignFormat::kDcp:
    case ForeignFormat::kTorchDist: {
      OpenOptions dcp = options;
      dcp.use_sidecar = use_sidecar;
      return OpenDcp(DirectoryOf(path), dcp);
    }
    case ForeignFormat::kMegatronZarr: {
      const std::string directory = DirectoryOf(path);
      HF_ASSIGN_OR_RETURN(std::unique_ptr<Checkpoint> checkpoint,
                          megatron::OpenMegatronZarr(directory, options));
      if (!use_sidecar) return checkpoint;
      return WithSidecarFile(std::move(checkpoint), directory);
    }
    case ForeignFormat::kNone:
      break;
  }
  return InternalError("OpenForeign of no foreign format");
}

Result<std::unique_ptr<Checkpoint>> Open(const std::string& path,
                                         const OpenOptions& options) {
  return CatchBadAlloc([&]() -> Result<std::unique_ptr<Checkpoint>> {
    const std::string absolute = AbsolutePath(path);
    HF_ASSIGN_OR_RETURN(const ForeignPlace place,
                        FindForeignPlace(absolute, options));
    if (place.format == ForeignFormat::kNone) return OpenOrbax(path, options);
    return OpenForeign(place.format, place.path, place.options,
                       options.use_sidecar);
  });
}

Result<LoadResult> Load(const std::string& path, const LoadOptions& options) {
  return CatchBadAlloc([&] { return LoadAny(path, options); });
}

}  // namespace holdfast
