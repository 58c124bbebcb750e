// `_sharding`: how each jax.Array of an item was laid out over devices.
//
// Compact JSON with sorted members, from the URL-safe base64 (padded) of the
// parameter name to a string that contains JSON, kept here as text.
// Source: orbax-checkpoint 0.12.8, written through TensorStore's json driver.
// Thread-safety: pure functions.
// Errors: DataLoss with the byte offset.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "holdfast/status.h"

namespace holdfast {

// Parameter name -> sharding JSON.
using ShardingFile = std::map<std::string, std::string, std::less<>>;

// REQUIRES: UTF-8 values.
std::string SerializeShardingFile(const ShardingFile& shardings);
// Returns DataLoss for a name that occurs twice.
Result<ShardingFile> ParseShardingFile(std::string_view text);

}  // namespace holdfast
