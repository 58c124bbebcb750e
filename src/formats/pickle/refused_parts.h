// Finds the values of a program that contain something refused, and records
// which refusals have been reported.
//
// A pickle that was made to run code must not pass as data. So each thing that
// the pickle names and may not run is either reported with the value that holds
// it, or makes the reader refuse the complete pickle.
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

  // Returns the first refusal in the node, because of which the node must not
  // be used; ok if nothing in the node is refused.
  Status Below(NodeIndex node) const;
  // Marks all refusals in the node as reported.
  void Tell(NodeIndex node) { Mark(node, told_); }

  // Returns the refusals in the root that were not reported, each once.
  std::vector<Status> Untold() const;
  // Returns a refusal that is not in the root, because its value was made and
  // thrown away; ok if there is no such refusal.
  Status Hidden() const;

 private:
  void Mark(NodeIndex node, std::vector<bool>& marks) const;

  const Program& program_;
  // By node: 1 + the index of its first refusal, or 0. Empty if nothing is
  // refused.
  std::vector<uint32_t> refusals_;
  std::vector<bool> told_;
  std::vector<bool> in_root_;
};

}  // namespace holdfast::pickle
