#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <map>
#include <string>

#include "bindings.h"
#include "blocking.h"
#include "errors.h"
#include "group.h"
#include "holdfast/tools/fingerprint.h"
#include "tree_builder.h"
#include "tree_output.h"

namespace nb = nanobind;

namespace holdfast::python {
namespace {

using TextsByName = std::map<std::string, std::string>;

nb::dict BindingFingerprints(const BuiltTree& tree) {
  const auto found = RunForResult<TextsByName>(
      {}, nb::none(),
      [&](const RunOptions& run) { return FingerprintsOf(tree.tree, run); });
  nb::dict texts;
  for (const auto& [name, text] : found) {
    texts[ToPythonText(name)] = ToPythonText(text);
  }
  return texts;
}

// Returns (box_count, replica_count, compared_count).
nb::tuple BindingCheckReplicas(const BuiltTree& tree, Group* group) {
  const auto report = RunInGroup<ReplicaReport>(
      group, {}, nb::none(), [&](const RunOptions& run) {
        return CompareReplicas(ProcessGroupOf(group), tree.tree, run);
      });
  Check(report.Check());
  return nb::make_tuple(report.box_count, report.replica_count,
                        report.compared_count);
}

}  // namespace

void BindFingerprints(nb::module_& module) {
  module.def("fingerprints", &BindingFingerprints, nb::arg("tree"));
  module.def("check_replicas", &BindingCheckReplicas, nb::arg("tree"),
             nb::kw_only(), nb::arg("group").none() = nb::none());
}

}  // namespace holdfast::python
