// Which process of MultiprocessingOptions writes what is not sharded.
//
// Thread-safety: pure. Ownership: borrows the group. Errors: none.
#pragma once

#include "holdfast/orbax/pytree_checkpoint_handler.h"
#include "holdfast/process_group.h"

namespace holdfast {

// Each one, where each is for itself.
inline bool IsPrimaryHost(const MultiprocessingOptions& options) {
  if (options.group == nullptr || options.group->size() == 1) return true;
  return !options.primary_host ||
         *options.primary_host == options.group->rank();
}

}  // namespace holdfast
