#include "checkpoint/restore/stored_extents.h"

namespace holdfast {

Result<LeafExtents> ExtentsOf(const Checkpoint& checkpoint, size_t leaf) {
  if (const auto* stored = dynamic_cast<const StoredExtents*>(&checkpoint)) {
    return stored->ExtentsOf(leaf);
  }
  LeafExtents none;
  none.why_not = "the format " + checkpoint.info().format +
                 " does not say where its elements lie";
  return none;
}

}  // namespace holdfast
