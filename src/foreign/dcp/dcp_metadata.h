// The `.metadata` file of torch.distributed.checkpoint, as plain structs.
//
// The file is a pickle. It is read without running anything, and written so
// that torch loads it.
//
// Thread-safety: pure functions. Units: elements, bytes.
// Errors, with the name of the leaf: DataLoss (not such a pickle, parts that
// contradict each other, paths that lead out of the directory); Unimplemented
// (records that an extension such as a compressor transformed).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ground/tensor/box.h"
#include "holdfast/status.h"
#include "holdfast/tensor.h"
#include "holdfast/tree.h"

namespace holdfast {

inline constexpr std::string_view kDcpMetadataFile = ".metadata";

// The place of the record of one chunk, or of one object.
struct DcpRecord {
  std::string file;  // relative path in the directory
  uint64_t offset = 0;
  uint64_t byte_count = 0;
};

struct DcpChunk {
  Box box;
  DcpRecord record;
};

struct DcpEntry {
  std::string name;  // torch calls it fqn
  // The keys of its path in the state dict; empty if the file does not record
  // them.
  std::vector<std::string> key;
  std::vector<KeyKind> key_kinds;
  bool is_object = false;
  DcpRecord record;  // objects

  std::string torch_dtype;     // tensors: "torch.float32"
  std::optional<DType> dtype;  // if holdfast supports it
  Shape shape;
  std::vector<DcpChunk> chunks;
  // Megatron: the real shape. `shape` is then the grid of shards followed by
  // the number of elements of one shard.
  std::optional<Shape> flattened_shape;
};

struct DcpMetadata {
  std::vector<DcpEntry> entries;  // in the order of the file
  std::string checkpoint_id;      // for writing: the checkpoint's final path
};

Result<DcpMetadata> ParseDcpMetadata(std::string_view pickle);

// Returns the bytes of `.metadata`. With `with_mcore`, they are like
// Megatron's.
// REQUIRES: torch has the dtypes.
Result<std::string> DcpMetadataBytes(const DcpMetadata& metadata,
                                     bool with_mcore);

}  // namespace holdfast
