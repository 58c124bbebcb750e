// The description of a tensor in a pickle: dtype, storage, offset, sizes and
// strides. It ignores how a subclass uses these.
//
// Thread-safety: pure functions. Ownership: plain values; strings belong to the
// program.
// Units: elements, unless a name ends in _bytes; strides in bytes.
// Errors: DataLoss (not a tensor, or does not fit its storage), Unimplemented
// (a dtype or a view that is not supported). Messages say what is wrong.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "formats/pickle/program.h"
#include "holdfast/status.h"
#include "holdfast/tensor.h"

namespace holdfast::pickle {

struct StorageId {
  std::string_view key;
  int64_t byte_count = 0;
  // The dtype of the storage's elements. If the storage has no type, or one
  // that holdfast lacks, this is uint8, and `lacked` names the type
  // ("QInt8Storage").
  DType dtype = DType::kUint8;
  std::string_view lacked;
  int64_t element_bytes = 1;
  // In files from before torch 1.6, a storage may be a part of another storage.
  std::string_view view_of;
  int64_t view_offset_bytes = 0;
};

struct TensorParts {
  DType dtype = DType::kUint8;
  StorageId storage;
  int64_t offset_bytes = 0;  // of the first element, in the storage
  Shape shape;
  Shape strides;  // bytes
};

// Parses the id of a persistent object ("storage", type, key, location, count).
Result<StorageId> ParseStorageId(const Program& program, const Node& id);

// The call that makes a tensor from a storage: _rebuild_tensor, _v2 or _v3.
struct TensorCall {
  NameUse use = NameUse::kTensorV2;
  const std::vector<NodeIndex>* args = nullptr;  // the program's
  std::string_view want_dtype;  // torch's name; "": that of the elements
};
// Finds the call that yields the value's elements: its own call, or the call
// inside a parameter, a subclass, or a tensor with attributes, whose other
// parts are ignored. Returns nullopt if the value is not such a tensor.
std::optional<TensorCall> TensorCallOf(const Program& program,
                                       const Node& node);
// Parses a tensor. On success, every element is inside the storage.
Result<TensorParts> ParseTensor(const Program& program, const TensorCall& call);
// Parses a bare storage as a one-dimensional tensor. REQUIRES: a kPersistent.
Result<TensorParts> ParseStorage(const Program& program, const Node& node);

// Returns the reason why a value that is a tensor in torch cannot be a tensor
// here (quantized, or divided by other libraries); ok for anything else.
Status CheckHasElements(const Program& program, const Node& node);

// Parses a tuple, list or torch.Size of ints. Returns DataLoss for anything
// else.
Result<Shape> ParseInts(const Program& program, const Node& node);

}  // namespace holdfast::pickle
