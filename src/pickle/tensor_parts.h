// What a pickle says about a tensor: dtype, storage, offset, sizes, strides.
//
// Thread-safety: pure functions. Ownership: plain values; texts of the program.
// Units: elements, unless a name ends in _bytes; strides in bytes.
// Errors: DataLoss (does not fit its storage, or is no tensor), Unimplemented
// (a dtype or a view that is not read), each saying what.
#pragma once

#include <cstdint>
#include <string_view>

#include "holdfast/status.h"
#include "holdfast/tensor.h"
#include "pickle/program.h"

namespace holdfast::pickle {

struct StorageId {
  std::string_view key;
  int64_t byte_count = 0;
  // The dtype of the storage's elements; uint8 when it has no type.
  DType dtype = DType::kUint8;
  // Files before torch 1.6: a storage may be a part of another one.
  std::string_view view_of;
  int64_t view_offset_bytes = 0;
};

struct TensorParts {
  DType dtype = DType::kUint8;
  StorageId storage;
  int64_t offset_bytes = 0;  // of its first element in the storage
  Shape shape;
  Shape strides;  // bytes
};

// The id of a persistent object ("storage", type, key, location, count).
Result<StorageId> ParseStorageId(const Program& program, const Node& id);

// REQUIRES: a kObject whose callee is one of _rebuild_tensor, _v2 and _v3.
// Every element lies inside the storage.
Result<TensorParts> ParseTensor(const Program& program, const Node& node);

// The tensor inside _rebuild_parameter and _rebuild_from_type_v2, or the node
// itself. Null when there is none.
const Node* TensorNode(const Program& program, const Node& node);

// A tuple, list, or torch.Size of ints. DataLoss when it is none.
Result<Shape> ParseInts(const Program& program, const Node& node);

}  // namespace holdfast::pickle
