// The manifest: the config, the newest versions, and references to version tree
// nodes that hold the older ones.
//
// Thread-safety: values and pure functions. Units: bytes; nanoseconds since
// 1970-01-01 UTC. Errors: DataLoss or InvalidArgument, as in TensorStore.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "formats/ocdbt/format/config.h"
#include "formats/ocdbt/format/data_file_table.h"
#include "formats/ocdbt/format/envelope.h"
#include "formats/ocdbt/format/version_tree.h"
#include "ground/base/bytes.h"
#include "holdfast/status.h"

namespace holdfast::ocdbt {

struct Manifest {
  Config config;
  DataFileTable files;
  // Increasing generations; empty only if the config's kind is kNumbered.
  std::vector<Version> versions;
  // Increasing generations, decreasing heights, older than `versions`.
  std::vector<VersionNodeReference> version_nodes;
};

// The generations [first, last] that the version tree node of one height may
// hold, for a given newest generation of a manifest.
struct VersionNodeSlot {
  int height = 0;
  uint64_t first_generation = 0;
  uint64_t last_generation = 0;
};
// Returns the slots of all heights, lowest first.
std::vector<VersionNodeSlot> VersionNodeSlots(uint64_t newest_generation,
                                              int arity_log2);

// Paths in the result start with `directory` (empty, or ending in '/').
Result<Manifest> DecodeManifest(const Bytes& object, std::string_view directory,
                                const DecodeLimits& limits = {});

// Encodes the body only; SealEnvelope makes the object. Base paths are written
// unchanged, so they must not start with the directory.
Bytes EncodeManifestBody(const Manifest& manifest);

}  // namespace holdfast::ocdbt
