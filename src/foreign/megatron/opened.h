// Code shared by opening and verifying a Megatron zarr checkpoint.
//
// Thread-safety: pure functions of the file system.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "foreign/megatron/zarr_array.h"
#include "holdfast/checkpoint.h"
#include "holdfast/megatron/zarr.h"

namespace holdfast::megatron {

struct OpenedLeaf {
  LeafInfo info;
  ArrayState array;                     // of arrays
  std::optional<ShardedObject> object;  // of objects; nullopt: common.pt
};

// The contents of a checkpoint's directory, including keys with '/'.
struct CheckpointFiles {
  std::vector<std::string> arrays;       // keys
  ObjectMetadata objects;                // by unique_key
  std::vector<std::string> locks;        // "<key>.sync"
  std::vector<std::string> bad_objects;  // files without a valid object's name
  std::vector<std::string> bad_names;    // directories that are not UTF-8
  bool has_common = false;
};
Result<CheckpointFiles> ListCheckpoint(const Place& place);

// Reads `config`. Returns ok if it is that of a zarr checkpoint of version 1.
Status CheckIsMegatronZarr(const Place& place, CheckpointingConfig* config);

// Returns the status without Megatron's class and code.
Status PlainStatus(const Status& status);

}  // namespace holdfast::megatron
