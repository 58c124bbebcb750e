// Pickles and torch.save files, which are read without running any of their
// code.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <string>
#include <string_view>
#include <utility>

#include "bindings.h"
#include "errors.h"
#include "gil.h"
#include "holdfast/tools/torch_file.h"
#include "pickle_objects.h"

namespace nb = nanobind;

namespace holdfast::python {
namespace {

std::string_view ViewOfBytes(const nb::bytes& data) {
  return {data.c_str(), data.size()};
}

template <typename Fn>
PickleValue WithoutGil(Fn&& read) {
  Result<PickleValue> value = [&] {
    const GilRelease release;
    return read();
  }();
  return Check(std::move(value));
}

}  // namespace

void BindTorchFile(nb::module_& module) {
  module.def(
      "read_torch_file",
      [](const nb::bytes& data, const nb::object& tensor) {
        return ToPython(
            WithoutGil([&] { return ReadTorchFile(ViewOfBytes(data)); }),
            tensor);
      },
      nb::arg("data"), nb::arg("tensor") = nb::none());
  module.def(
      "read_pickle",
      [](const nb::bytes& data) {
        return ToPython(
            WithoutGil([&] { return ReadPickle(ViewOfBytes(data)); }),
            nb::none());
      },
      nb::arg("data"));
  module.def(
      "write_torch_file",
      [](const nb::object& value, const nb::object& tensor) {
        const std::string bytes =
            Check(WriteTorchFile(FromPython(value, tensor)));
        return nb::bytes(bytes.data(), bytes.size());
      },
      nb::arg("value").none(), nb::arg("tensor") = nb::none());
  module.def(
      "torch_file_json",
      [](const nb::bytes& data) {
        return PickleValueToJson(
            WithoutGil([&] { return ReadTorchFile(ViewOfBytes(data)); }));
      },
      nb::arg("data"));
}

}  // namespace holdfast::python
