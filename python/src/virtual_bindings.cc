#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "arguments.h"
#include "bindings.h"
#include "blocking.h"
#include "errors.h"
#include "gil.h"
#include "holdfast/tools/virtual_files.h"
#include "tree_output.h"

namespace nb = nanobind;

namespace holdfast::python {
namespace {

std::unique_ptr<VirtualFiles> OpenVirtual(nb::handle path,
                                          std::optional<int64_t> step,
                                          const std::string& item,
                                          uint64_t kept_bytes_max) {
  VirtualFilesOptions options;
  options.open.step = step;
  options.open.item = item;
  options.open.stored_sizes = false;
  options.kept_bytes_max = kept_bytes_max;
  const std::string from = PathOf(path);
  return RunForResult<std::unique_ptr<VirtualFiles>>(
      {}, nb::none(),
      [&](const RunOptions&) { return VirtualFiles::Open(from, options); });
}

nb::tuple EntryOf(const VirtualEntry& entry) {
  return nb::make_tuple(ToPythonText(entry.name), entry.is_directory,
                        entry.byte_count);
}

// Does not use RunBlocking, which would start a thread for each read to poll
// signals, because many threads read concurrently (dask, zarr's event loop).
nb::bytes ReadVirtual(const VirtualFiles& files, const std::string& name,
                      uint64_t offset, uint64_t byte_count) {
  const auto entry = [&] {
    const GilRelease released;
    return files.Stat(name);
  }();
  Check(entry.status());
  // Do not allocate more memory than the file has bytes.
  const uint64_t left =
      offset < entry->byte_count ? entry->byte_count - offset : 0;
  const uint64_t count = std::min(byte_count, left);
  nb::bytes bytes =
      nb::steal<nb::bytes>(PyBytes_FromStringAndSize(nullptr, count));
  if (!bytes.is_valid()) throw nb::python_error();
  char* data = PyBytes_AsString(bytes.ptr());
  const Status read = [&] {
    const GilRelease released;
    return files.ReadInto(name, offset, {data, count});
  }();
  Check(read);
  return bytes;
}

}  // namespace

void BindVirtualFiles(nb::module_& module) {
  nb::class_<VirtualFiles>(module, "VirtualFiles")
      .def_static("open", &OpenVirtual, nb::arg("path"), nb::kw_only(),
                  nb::arg("step") = nb::none(), nb::arg("item") = "",
                  nb::arg("kept_bytes_max") = uint64_t{256} << 20)
      .def(
          "stat",
          [](const VirtualFiles& files, const std::string& name) {
            const auto entry = [&] {
              const GilRelease released;
              return files.Stat(name);
            }();
            Check(entry.status());
            return EntryOf(*entry);
          },
          nb::arg("name"))
      .def(
          "list",
          [](const VirtualFiles& files, const std::string& name) {
            const auto entries = [&] {
              const GilRelease released;
              return files.List(name);
            }();
            Check(entries.status());
            nb::list list;
            for (const VirtualEntry& entry : *entries) {
              list.append(EntryOf(entry));
            }
            return list;
          },
          nb::arg("directory"))
      .def("read", &ReadVirtual, nb::arg("name"), nb::arg("offset"),
           nb::arg("byte_count"))
      .def(
          "tag",
          [](const VirtualFiles& files, const std::string& name) {
            return files.Tag(name);
          },
          nb::arg("name"))
      .def("is_current", &VirtualFiles::IsCurrent)
      .def("path", [](const VirtualFiles& files) {
        return ToPythonText(files.checkpoint().info().path);
      });
}

}  // namespace holdfast::python
