// Which values of a program hold something that is refused, and whether
// somebody has told of all that is.
//
// A pickle that was made to act must not pass as data: whatever it names that
// is not run is told of with the value that holds it, or else refused with the
// whole.
// Thread-safety: one thread. Ownership: borrows the program. Time and memory
// are linear in it, and nothing where nothing is refused. Errors: none.
#pragma once

#include <vector>

#include "formats/pickle/program.h"
#include "holdfast/status.h"

namespace holdfast::pickle {

class RefusedParts {
 public:
  explicit RefusedParts(const Program& program);

  // Why the node cannot be made: the first refusal in it; ok: it has none.
  Status Below(NodeIndex node) const;
  // All that is refused in the node is told of.
  void Tell(NodeIndex node) { Mark(node, told_); }

  // Refusals that the root holds and of which nobody was told, each once.
  std::vector<Status> Untold() const;
  // One that is not in the root at all: made, and thrown away; ok: none.
  Status Hidden() const;

 private:
  void Mark(NodeIndex node, std::vector<bool>& marks) const;

  const Program& program_;
  std::vector<uint32_t> refusals_;  // by node: 1 + its first; empty: none
  std::vector<bool> told_;
  std::vector<bool> in_root_;
};

}  // namespace holdfast::pickle
