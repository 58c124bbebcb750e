#include "device_arrays.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <mutex>
#include <string>
#include <utility>

#include "arguments.h"
#include "bindings.h"
#include "errors.h"
#include "gil.h"
#include "holdfast/detail/host_memory.h"
#include "numpy_arrays.h"

namespace nb = nanobind;

namespace holdfast::python {
namespace {

// Keeps Python objects for C++ code that releases them on any thread.
std::shared_ptr<const void> Keep(nb::object object) {
  auto* const kept = object.release().ptr();
  return {kept, [](PyObject* held) {
            if (IsPythonEnding()) return;  // the process frees it
            const GilAcquire acquire;
            Py_DECREF(held);
          }};
}

DeviceArray DescriptionOf(const DeviceArrayObject& array, uint64_t address) {
  DeviceArray described;
  described.dtype = array.dtype;
  described.shape = array.shape;
  described.strides = array.strides;
  described.address = address + static_cast<uint64_t>(array.offset_bytes);
  described.stream = array.stream;
  described.owner = Keep(array.owner);
  return described;
}

// Reads an array whose address or validity only Python knows.
class LateReader final : public ArrayReader {
 public:
  explicit LateReader(const DeviceArrayObject& array)
      : array_(new DeviceArrayObject(array)) {}
  ~LateReader() override {
    if (IsPythonEnding()) return;
    const GilAcquire acquire;
    delete array_;
  }

  Status Read(const Shape& origin, const ArrayView& target) const override {
    std::call_once(begun_, [this] { Begin(); });
    if (!status_.ok()) return status_;
    const Status read = reader_->Read(origin, target);
    // An array that was deleted meanwhile explains a failed copy best.
    const Status valid = CheckValid();
    return valid.ok() ? read : valid;
  }
  bool is_live() const override { return true; }

 private:
  void Begin() const {
    const GilAcquire acquire;
    status_ = Caught([this] {
      const nb::object address = nb::isinstance<nb::int_>(array_->address)
                                     ? array_->address
                                     : array_->address();
      reader_ = Check(MakeDeviceReader(
          DescriptionOf(*array_, nb::cast<uint64_t>(address))));
    });
  }

  Status CheckValid() const {
    if (array_->check.is_none()) return Status();
    const GilAcquire acquire;
    return Caught([this] { array_->check(); });
  }

  template <typename Call>
  static Status Caught(const Call& call) {
    try {
      call();
      return Status();
    } catch (const StatusError& error) {
      return error.status();
    } catch (nb::python_error& error) {
      return StatusOf(error.value());
    } catch (const std::exception& error) {  // of a conversion
      return InternalError("DeviceArray: " + std::string(error.what()));
    }
  }

  DeviceArrayObject* const array_;  // deleted with the GIL
  mutable std::once_flag begun_;
  mutable Status status_;
  mutable std::shared_ptr<const ArrayReader> reader_;
};

void InitDeviceArray(DeviceArrayObject* self, nb::handle shape,
                     nb::handle dtype, nb::object address, nb::handle strides,
                     uint64_t stream, nb::object owner, nb::object check) {
  DeviceArrayObject array;
  array.shape = ShapeOf(shape, "DeviceArray: shape");
  const std::optional<DType> stored = DTypeOfDescr(dtype);
  if (!stored) {
    ThrowValueError(std::string("DeviceArray: dtype ") +
                    nb::str(dtype).c_str() +
                    " cannot be stored in a checkpoint");
  }
  array.dtype = *stored;
  array.strides = strides.is_none()
                      ? ContiguousStrides(array.shape, DTypeBytes(*stored))
                      : ShapeOf(strides, "DeviceArray: strides");
  if (array.strides.size() != array.shape.size()) {
    ThrowValueError("DeviceArray: " + std::to_string(array.strides.size()) +
                    " strides for " + std::to_string(array.shape.size()) +
                    " dimensions");
  }
  array.address = std::move(address);
  array.stream = stream;
  array.owner = std::move(owner);
  array.check = std::move(check);
  new (self) DeviceArrayObject(std::move(array));
}

// Returns the box at `origin` with extents `shape`.
DeviceArrayObject PartOf(const DeviceArrayObject& array, nb::handle origin,
                         nb::handle shape) {
  const Shape from = ShapeOf(origin, "DeviceArray: origin");
  DeviceArrayObject part = array;
  part.shape = ShapeOf(shape, "DeviceArray: shape");
  bool is_inside =
      from.size() == array.shape.size() && part.shape.size() == from.size();
  for (size_t i = 0; is_inside && i < from.size(); ++i) {
    is_inside = from[i] >= 0 && part.shape[i] >= 0 &&
                part.shape[i] <= array.shape[i] - from[i];
    part.offset_bytes += from[i] * array.strides[i];
  }
  if (!is_inside) {
    ThrowValueError("DeviceArray: a part of shape " +
                    ShapeToString(part.shape) + " at " + ShapeToString(from) +
                    " is not inside " + ShapeToString(array.shape));
  }
  return part;
}

}  // namespace

DeviceArray TargetOf(const DeviceArrayObject& array) {
  if (!nb::isinstance<nb::int_>(array.address)) {
    ThrowValueError("DeviceArray: want an address to read to, got a function");
  }
  return DescriptionOf(array, nb::cast<uint64_t>(array.address));
}

std::shared_ptr<const ArrayReader> ReaderOf(const DeviceArrayObject& array) {
  const bool is_known = nb::isinstance<nb::int_>(array.address);
  if (!is_known || !array.check.is_none()) {
    return std::make_shared<LateReader>(array);
  }
  return Check(MakeDeviceReader(
      DescriptionOf(array, nb::cast<uint64_t>(array.address))));
}

void BindDeviceArrays(nb::module_& module) {
  nb::class_<DeviceArrayObject>(module, "DeviceArray")
      .def("__init__", &InitDeviceArray, nb::arg("shape"), nb::arg("dtype"),
           nb::arg("address"), nb::kw_only(), nb::arg("strides") = nb::none(),
           nb::arg("stream") = 0, nb::arg("owner") = nb::none(),
           nb::arg("check") = nb::none())
      .def("part", &PartOf, nb::arg("origin"), nb::arg("shape"))
      .def_prop_ro("shape", [](const DeviceArrayObject& self) {
        return ToTuple(self.shape);
      });
  module.def("set_nvrtc_path", &SetNvrtcPath, nb::arg("path"));
  module.def("device_problem",
             [] { return std::string(CheckDeviceDriver().message()); });
  module.def("available_host_bytes", [] { return AvailableHostMemoryBytes(); });
}

}  // namespace holdfast::python
