#include <nanobind/nanobind.h>

#include <string>

#include "arguments.h"
#include "bindings.h"
#include "blocking.h"
#include "holdfast/detail/aggregate_handlers.h"
#include "tree_builder.h"
#include "tree_output.h"

namespace nb = nanobind;

namespace holdfast::python {
namespace {

// Replaces references by the strings that represent them in the file.
void SpellReferences(Tree& tree) {
  if (tree.is_leaf()) {
    if (tree.leaf_kind() == LeafKind::kReference) {
      tree = Tree("PLACEHOLDER://" + tree.text());
    }
    return;
  }
  for (size_t i = 0; i < tree.size(); ++i) {
    SpellReferences(tree.mutable_child(i));
  }
}

void WriteAggregate(nb::handle path, const BuiltTree& tree) {
  const std::string destination = PathOf(path);
  RunBlocking({}, nb::none(), [&](const RunOptions&) {
    return MsgpackHandler().Serialize(destination, tree.tree);
  });
}

nb::object ReadAggregate(nb::handle path) {
  const std::string source = PathOf(path);
  Tree tree = RunForResult<Tree>({}, nb::none(), [&](const RunOptions&) {
    return MsgpackHandler().Deserialize(source);
  });
  SpellReferences(tree);
  return ToPython(tree);
}

}  // namespace

void BindAggregate(nb::module_& module) {
  module.def("write_aggregate", &WriteAggregate, nb::arg("path"),
             nb::arg("tree"));
  module.def("read_aggregate", &ReadAggregate, nb::arg("path"));
}

}  // namespace holdfast::python
