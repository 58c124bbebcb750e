// The configuration of a database: the first part of a manifest's body, fixed
// when the database is created.
//
// Thread-safety: values and pure functions. Units: in the names.
// Errors: DataLoss or InvalidArgument for values out of range.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "formats/ocdbt/format/body_reader.h"
#include "formats/ocdbt/format/body_writer.h"
#include "formats/ocdbt/format/envelope.h"
#include "holdfast/status.h"

namespace holdfast::ocdbt {

enum class ManifestKind : uint8_t {
  kSingle = 0,
  // manifest.ocdbt has only the config; the state is in manifest.<generation>.
  kNumbered = 1,
};

using Uuid = std::array<uint8_t, 16>;

struct Config {
  Uuid uuid{};
  ManifestKind manifest_kind = ManifestKind::kSingle;
  // The next two are for writers; readers must not rely on them.
  uint32_t max_inline_value_bytes = 100;
  uint32_t max_decoded_node_bytes = 8388608;  // 0: no limit
  uint8_t version_tree_arity_log2 = 4;        // 1 ... 16
  Compression compression;

  bool operator==(const Config&) const = default;
};

// Returns 32 lowercase hex digits.
std::string UuidText(const Uuid& uuid);

Result<Config> ReadConfig(BodyReader& reader);
// Reads the arity, which version tree nodes repeat.
Status ReadArityLog2(BodyReader& reader, uint8_t& arity_log2);

inline constexpr uint64_t kConfigBytesMax = 16 + 1 + 5 + 5 + 1 + 5 + 4;
void WriteConfig(const Config& config, BodyWriter& writer);

// Returns ok if the configs agree in everything but the manifest kind.
// Otherwise returns FailedPrecondition with the name of the first member that
// differs.
Status CheckSameConfig(const Config& expected, const Config& received);

}  // namespace holdfast::ocdbt
