// Determines the compression of a handler's arrays.
#include <cstdlib>

#include "ground/base/status_macros.h"
#include "holdfast/orbax/pytree_checkpoint_handler.h"

namespace holdfast {
namespace {

constexpr const char* kVariable = "HOLDFAST_COMPRESSION";

// Returns the compression that the environment sets; zstd if it sets none.
Result<Compression> DefaultCompression() {
  const char* const name = std::getenv(kVariable);
  if (name == nullptr || *name == '\0') return Compression::kZstd;
  if (const auto compression = CompressionFromName(name)) return *compression;
  return InvalidArgumentError(std::string(kVariable) +
                              ": not a compression (got \"" + name +
                              "\", want planes, zstd, fast or none)");
}

}  // namespace

Status SetHandlerCompression(bool use_compression,
                             std::optional<Compression> compression,
                             SaveOptions& options) {
  options.compression = Compression::kNone;
  if (use_compression) {
    HF_ASSIGN_OR_RETURN(
        options.compression,
        compression ? Result<Compression>(*compression) : DefaultCompression());
  }
  const bool has_orbax_shapes = options.compression == Compression::kZstd ||
                                options.compression == Compression::kNone;
  options.chunk_bytes = has_orbax_shapes ? 0 : SaveOptions().chunk_bytes;
  return Status();
}

}  // namespace holdfast
