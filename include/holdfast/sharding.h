// Shardings: which box of an array each device holds, as JAX defines it and the
// file `_sharding` records it.
//
//   NamedSharding rows{{.axis_names = {"data", "model"}, .shape = {4, 2}},
//                      {{"data"}}};
//   auto shards = ShardBoxes(rows, {8, 6});  // 8 devices, 2 rows each
//
// Thread-safety: values and pure functions. Units: elements.
// Errors: InvalidArgument, with JAX's messages, for a spec that does not fit
// (an axis that the mesh lacks, an axis used twice, an extent that is not
// divisible by the number of devices) and for PositionalSharding, which JAX has
// dropped; DataLoss for malformed text; Unimplemented for other types, which
// Orbax does not restore either.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "holdfast/export.h"
#include "holdfast/status.h"
#include "holdfast/tensor.h"

namespace holdfast HOLDFAST_EXPORT {

// A grid of devices with named axes.
struct Mesh {
  std::vector<std::string> axis_names;
  Shape shape;                          // one extent per axis
  std::vector<int64_t> device_ids;      // in C order; empty: 0, 1, 2, ...
  std::vector<std::string> axis_types;  // "Auto", ...; empty: all "Auto"

  bool operator==(const Mesh&) const = default;
};

// One entry per dimension: the mesh axes that cut it, outermost first. A
// dimension with no axes, or past the end, is not cut.
using PartitionSpec = std::vector<std::vector<std::string>>;

struct NamedSharding {
  Mesh mesh;
  PartitionSpec spec;

  bool operator==(const NamedSharding&) const = default;
};

struct SingleDeviceSharding {
  // The device's own string; "TFRT_CPU_0" is the older name of "cpu:0".
  std::string device_str = "cpu:0";

  bool operator==(const SingleDeviceSharding&) const = default;
};

using Sharding = std::variant<SingleDeviceSharding, NamedSharding>;

// The part of an array that one device holds.
struct DeviceShard {
  int64_t device_id = 0;
  int64_t replica_id = 0;  // 0 for the first device with this box
  Shape origin;
  Shape shape;

  bool operator==(const DeviceShard&) const = default;
};

// Returns one shard per device, in the mesh's order. A single device's id is
// the number at the end of its name.
Result<std::vector<DeviceShard>> ShardBoxes(const Sharding& sharding,
                                            const Shape& array_shape);

// Returns the text of an entry in `_sharding`, byte for byte as Orbax writes
// it. REQUIRES: ShardBoxes accepts the sharding, or ShardingFromJson returned
// it.
std::string ShardingToJson(const Sharding& sharding);
// Parses such an entry in any version of the format; old versions have no axis
// types and no devices.
// Source: orbax-checkpoint 0.12.8, _src/metadata/sharding.py.
Result<Sharding> ShardingFromJson(std::string_view text);

}  // namespace holdfast
