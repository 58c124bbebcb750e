// Writes torch.save files: for a tensor whose elements are written later, and
// for the value of an existing file that is put into a list or taken out of
// one.
//
// Thread-safety: pure functions. Units: bytes.
// Errors: as torch_file.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "holdfast/status.h"
#include "holdfast/tensor.h"
#include "holdfast/tools/torch_file.h"

namespace holdfast::pickle {

// torch.save(tensor) without the elements: head, elements in C order, tail.
struct TensorFilePlan {
  DType dtype = DType::kUint8;
  Shape shape;
  std::string head;
  uint64_t data_bytes = 0;
  uint64_t tail_bytes = 0;

  uint64_t byte_count() const { return head.size() + data_bytes + tail_bytes; }
};

// Returns InvalidArgument for a dtype that torch does not have.
Result<TensorFilePlan> PlanTensorFile(DType dtype, const Shape& shape);
// Returns the bytes after the elements, once the CRC-32 of the elements is
// known.
std::string TensorFileTail(const TensorFilePlan& plan, uint32_t crc32);

// Turn torch.save(x) into torch.save([x]), and back. Storages are copied
// unchanged. Everything in the file is kept, even what holdfast could not write
// itself.
Result<std::string> WrapInList(std::string_view torch_file);
Result<std::string> UnwrapFromList(std::string_view torch_file);

// Returns a pickle of protocol 2, or InvalidArgument if the value holds
// tensors.
Result<std::string> PickleOf(const PickleValue& value);

}  // namespace holdfast::pickle
