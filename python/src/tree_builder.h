// Builds a holdfast::Tree from a Python pytree.
//
// Thread-safety: needs the GIL, which it releases while copying. Ownership: a
// BuiltTree refers to every array that its tree borrows.
// Errors: StatusError (InvalidArgument naming the leaf), or nb::python_error
// from `adapt` and from keys' own methods.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <string>
#include <vector>

#include "holdfast/tree.h"

namespace holdfast::python {

struct BuiltTree {
  Tree tree;
  std::vector<nanobind::object> borrowed;
  uint64_t leaf_count = 0;
  uint64_t byte_count = 0;
  uint64_t copied_bytes = 0;
  // For SaveOptions::item_documents: facts about the item that its leaves do
  // not hold, as a JSON object; or empty.
  std::string item_documents;
};

struct BuildOptions {
  nanobind::object adapt;
  bool snapshot = false;
  bool strings = true;
  // If true, integer keys stay integers. If false, every key becomes its str(),
  // as in Orbax.
  bool int_keys = false;
};

BuiltTree BuildTree(nanobind::handle tree, const BuildOptions& options);

}  // namespace holdfast::python
