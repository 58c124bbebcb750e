#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>

#include "bindings.h"
#include "holdfast/tools/metrics.h"
#include "holdfast/tools/prove.h"

namespace holdfast::python {

void BindMetrics(nanobind::module_& module) {
  module.def("metrics", &GetMetrics);
  module.def("metrics_text", &MetricsText);
  module.def("crash_mark", [](const std::string& text) { CrashMark(text); });
}

}  // namespace holdfast::python
