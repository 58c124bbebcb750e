// PyTreeCheckpointHandlerOptions, checked and with defaults filled in.
//
// Thread-safety: values. Units: bytes.
// Errors: InvalidArgument, as PyTreeCheckpointHandler::Make says.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "holdfast/orbax/pytree_checkpoint_handler.h"
#include "holdfast/status.h"

namespace holdfast {

struct PyTreeSettings {
  PyTreeCheckpointHandlerOptions options;  // registry and validator are set
  std::string aggregate_file;
  // If absent, the engine's default.
  std::optional<int64_t> save_bytes_max;
  std::optional<int64_t> restore_bytes_max;
  // The limit of AsyncSave's copy; absent means no limit.
  std::optional<int64_t> transfer_bytes_max;
  bool is_transfer_auto = false;
};

Result<PyTreeSettings> MakePyTreeSettings(
    PyTreeCheckpointHandlerOptions options);

// Returns the limit of a save that begins now. "auto" depends on the free
// memory.
std::optional<int64_t> TransferBytesMax(const PyTreeSettings& settings);

RunOptions RunWithin(std::optional<int64_t> memory_bytes);

}  // namespace holdfast
