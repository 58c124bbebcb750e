// The description of a tensor in a pickle: dtype, storage, offset, sizes,
// strides. Not what a subclass makes of them.
//
// Thread-safety: pure functions. Ownership: plain values; texts of the program.
// Units: elements, unless a name ends in _bytes; strides in bytes.
// Errors: DataLoss (does not fit its storage, or is not a tensor),
// Unimplemented (a dtype or a view that is not read), each saying what.
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
  // The dtype of the storage's elements; uint8 when it has no type, or one that
  // holdfast lacks, which `lacked` names ("QInt8Storage").
  DType dtype = DType::kUint8;
  std::string_view lacked;
  int64_t element_bytes = 1;
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

// The call that makes a tensor of a storage: _rebuild_tensor, _v2 or _v3.
struct TensorCall {
  NameUse use = NameUse::kTensorV2;
  const std::vector<NodeIndex>* args = nullptr;  // the program's
  std::string_view want_dtype;  // of torch; "": that of the elements
};
// The call by which the value's elements come: its own, or that inside a
// parameter, a subclass, or a tensor with attributes, whose other parts are
// left out. Nullopt when the value is not such a tensor.
std::optional<TensorCall> TensorCallOf(const Program& program,
                                       const Node& node);
// Every element lies inside the storage.
Result<TensorParts> ParseTensor(const Program& program, const TensorCall& call);
// A bare storage, as a tensor of one axis. REQUIRES: a kPersistent.
Result<TensorParts> ParseStorage(const Program& program, const Node& node);

// Why a value that is a tensor to torch cannot be one here (quantized, or cut
// by others); ok of anything else.
Status CheckHasElements(const Program& program, const Node& node);

// A tuple, list, or torch.Size of ints. DataLoss when it is not.
Result<Shape> ParseInts(const Program& program, const Node& node);

}  // namespace holdfast::pickle
