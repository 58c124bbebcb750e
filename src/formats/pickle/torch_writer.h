// Files of torch.save around pickles that others made: a tensor whose elements
// are written later, and one value put into a list or taken out of it.
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

// torch.save(tensor), without its elements: head, elements in C order, tail.
struct TensorFilePlan {
  DType dtype = DType::kUint8;
  Shape shape;
  std::string head;
  uint64_t data_bytes = 0;
  uint64_t tail_bytes = 0;

  uint64_t byte_count() const { return head.size() + data_bytes + tail_bytes; }
};

// InvalidArgument for a dtype that torch does not have.
Result<TensorFilePlan> PlanTensorFile(DType dtype, const Shape& shape);
// The bytes that follow the elements, whose CRC-32 is known by then.
std::string TensorFileTail(const TensorFilePlan& plan, uint32_t crc32);

// Makes torch.save([x]) of torch.save(x), and back; storages are copied as they
// are. Everything in the file is kept, also what holdfast could not write
// itself.
Result<std::string> WrapInList(std::string_view torch_file);
Result<std::string> UnwrapFromList(std::string_view torch_file);

// A pickle of protocol 2. InvalidArgument when there are tensors in the value.
Result<std::string> PickleOf(const PickleValue& value);

}  // namespace holdfast::pickle
