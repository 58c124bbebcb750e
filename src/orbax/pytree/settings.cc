#include "orbax/pytree/settings.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "engine/format/directory_names.h"
#include "ground/base/status_macros.h"

namespace holdfast {
namespace {

constexpr double kBytesPerGb = 1e9;
constexpr double kGbMax = 9e9;  // in bytes it fits int64

Result<int64_t> BytesOfGb(double gb) {
  // The comparison is false for NaN, which is refused too.
  if (!(gb * kBytesPerGb >= 1)) {
    const double bytes = std::max(-kGbMax, gb) * kBytesPerGb;
    return InvalidArgumentError(
        "Must provide positive `concurrent_bytes`. Found: " +
        std::to_string(gb != gb ? 0 : static_cast<int64_t>(bytes)));
  }
  return static_cast<int64_t>(std::min(gb, kGbMax) * kBytesPerGb);
}

Result<std::optional<int64_t>> OptionalBytesOfGb(std::optional<double> gb) {
  if (!gb) return std::optional<int64_t>();
  HF_ASSIGN_OR_RETURN(const int64_t bytes, BytesOfGb(*gb));
  return std::optional<int64_t>(bytes);
}

Status SetTransferBound(PyTreeSettings& settings) {
  const auto& bound = settings.options.save_device_host_concurrent_gb;
  if (!bound) return Status();
  if (const double* gb = std::get_if<double>(&*bound)) {
    HF_ASSIGN_OR_RETURN(settings.transfer_bytes_max, BytesOfGb(*gb));
    return Status();
  }
  const std::string& word = std::get<std::string>(*bound);
  if (word != "auto") {
    return InvalidArgumentError(
        "save_device_host_concurrent_gb must be a number or \"auto\" (got \"" +
        word + "\")");
  }
  const auto& limits = settings.options.memory_limit_options;
  if (!limits || !limits->max_transfer_concurrent_gb) {
    return InvalidArgumentError(
        "max_save_device_host_concurrent_bytes must be provided if "
        "save_device_host_concurrent_bytes is \"auto\"");
  }
  settings.is_transfer_auto = true;
  HF_ASSIGN_OR_RETURN(settings.transfer_bytes_max,
                      BytesOfGb(*limits->max_transfer_concurrent_gb));
  return Status();
}

Status CheckProcesses(const MultiprocessingOptions& options) {
  const int64_t count = options.group == nullptr ? 1 : options.group->size();
  const int64_t rank = options.group == nullptr ? 0 : options.group->rank();
  const std::string whose =
      count == 1 ? "this process is the only one"
                 : "there are " + std::to_string(count) + " processes";
  const std::optional<int> primary = options.primary_host;
  if (primary && (*primary < 0 || *primary >= count)) {
    return InvalidArgumentError(
        "multiprocessing_options.primary_host: " + whose + " (got " +
        std::to_string(*primary) + ", want " +
        (count == 1 ? "0" : "0 to " + std::to_string(count - 1)) + " or none)");
  }
  const auto& active = options.active_processes;
  if (!active) return Status();
  if (!active->contains(rank)) {
    return InvalidArgumentError("multiprocessing_options.active_processes: " +
                                whose + ", and this one is not among them " +
                                "(want " + std::to_string(rank) + ")");
  }
  if (*active->begin() < 0 || *active->rbegin() >= count ||
      (primary && !active->contains(*primary))) {
    return InvalidArgumentError(
        "multiprocessing_options.active_processes: " + whose +
        "; want some of them, and the primary host among them");
  }
  return Status();
}

}  // namespace

Result<PyTreeSettings> MakePyTreeSettings(
    PyTreeCheckpointHandlerOptions options) {
  PyTreeSettings settings;
  settings.options = std::move(options);
  PyTreeCheckpointHandlerOptions& given = settings.options;
  HF_RETURN_IF_ERROR(CheckProcesses(given.multiprocessing_options));
  HF_ASSIGN_OR_RETURN(settings.save_bytes_max,
                      OptionalBytesOfGb(given.save_concurrent_gb));
  HF_ASSIGN_OR_RETURN(settings.restore_bytes_max,
                      OptionalBytesOfGb(given.restore_concurrent_gb));
  HF_RETURN_IF_ERROR(SetTransferBound(settings));
  settings.aggregate_file =
      given.aggregate_filename.value_or(std::string(kAggregateFile));
  if (given.type_handler_registry == nullptr) {
    given.type_handler_registry = GlobalTypeHandlerRegistry();
  }
  if (!given.array_metadata_validator) {
    given.array_metadata_validator =
        [](const ArrayMetadatasByProcess& metadatas) {
          return ValidateAllArrayMetadatas(metadatas);
        };
  }
  return settings;
}

std::optional<int64_t> TransferBytesMax(const PyTreeSettings& settings) {
  if (!settings.is_transfer_auto) return settings.transfer_bytes_max;
  const int64_t free_bytes =
      int64_t{sysconf(_SC_AVPHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  return std::min(*settings.transfer_bytes_max, free_bytes);
}

RunOptions RunWithin(std::optional<int64_t> memory_bytes) {
  RunOptions run;
  if (memory_bytes) run.memory_bytes = *memory_bytes;
  return run;
}

}  // namespace holdfast
