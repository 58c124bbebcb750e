#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>

#include "bindings.h"
#include "holdfast/tools/metrics.h"

namespace holdfast::python {

void BindMetrics(nanobind::module_& module) {
  module.def("metrics", &GetMetrics);
  module.def("metrics_text", &MetricsText);
}

}  // namespace holdfast::python
