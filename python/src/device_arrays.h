// DeviceArray: an array in the memory of a device, as Python describes it: by
// address, dtype, shape and strides.
//
// The address may be a function, for arrays that are not computed yet; it is
// called without arguments when the first element is needed. `check`, unless
// None, is called after each read of elements, and raises if the elements were
// not valid any more.
//
// Thread-safety: needs the GIL, except for readers, which acquire it.
// Ownership: refers to `owner`, which keeps the memory. Units: bytes for
// strides. Errors: those of holdfast/device.h; what the functions raise.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>

#include "holdfast/device.h"

namespace holdfast::python {

struct DeviceArrayObject {
  DType dtype = DType::kUint8;
  Shape shape;
  Shape strides;
  nanobind::object address;  // an int, or a function that returns it
  int64_t offset_bytes = 0;  // from the address to the first element
  uint64_t stream = 0;
  nanobind::object owner;
  nanobind::object check;  // a function, or None
};

// Returns the memory for elements that are read from a checkpoint.
// InvalidArgument if its address is a function.
DeviceArray TargetOf(const DeviceArrayObject& array);

// Returns a reader of the array's elements. REQUIRES: it has elements.
std::shared_ptr<const ArrayReader> ReaderOf(const DeviceArrayObject& array);

}  // namespace holdfast::python
