// A Checkpoint as `_engine.Checkpoint`.
//
// Thread-safety: needs the GIL. Ownership: shares the checkpoint.
// Errors: StatusError (OutOfRange).
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <string>

#include "errors.h"
#include "holdfast/checkpoint.h"

namespace holdfast::python {

struct PythonCheckpoint {
  std::shared_ptr<const Checkpoint> checkpoint;
  nanobind::object leaves;  // a list, cached on first use

  const LeafInfo& Leaf(size_t leaf) const {
    if (leaf >= checkpoint->leaves().size()) {
      throw StatusError(
          OutOfRangeError("leaf " + std::to_string(leaf) + " of " +
                          std::to_string(checkpoint->leaves().size())));
    }
    return checkpoint->leaves()[leaf];
  }
};

}  // namespace holdfast::python
