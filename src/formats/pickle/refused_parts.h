// Finds the values of a program that contain something refused, and records
// which refusals have been reported.
//
// A pickle that was made to run code must not pass as data: everything it names
// and may not run is either reported with the value that holds it, or makes the
// complete pickle refused.
// Thread-safety: one thread. Ownership: borrows the program. Time and memory
// are linear in the program, and zero if nothing is refused. Errors: none.
#pragma once

#include <vector>

#include "formats/pickle/program.h"
#include "holdfast/status.h"

namespace holdfast::pickle {

class RefusedParts {
 public:
  explicit RefusedParts(const Program& program);

  // Returns the first refusal in the node, which prevents its use; ok if
  // nothing in it is refused.
  Status Below(NodeIndex node) const;
  // Marks all refusals in the node as reported.
  void Tell(NodeIndex node) { Mark(node, told_); }

  // The refusals in the root that were not reported, each once.
  std::vector<Status> Untold() const;
  // A refusal that is not in the root, because its value was made and thrown
  // away; ok if there is no such refusal.
  Status Hidden() const;

 private:
  void Mark(NodeIndex node, std::vector<bool>& marks) const;

  const Program& program_;
  std::vector<uint32_t> refusals_;  // by node: 1 + its first; empty: none
  std::vector<bool> told_;
  std::vector<bool> in_root_;
};

}  // namespace holdfast::pickle
