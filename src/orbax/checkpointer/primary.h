// Decides which process of MultiprocessingOptions writes unsharded data.
//
// Thread-safety: pure. Ownership: borrows the group. Errors: none.
#pragma once

#include "holdfast/orbax/pytree_checkpoint_handler.h"
#include "holdfast/process_group.h"

namespace holdfast {

// Returns true on every process if each process saves for itself.
inline bool IsPrimaryHost(const MultiprocessingOptions& options) {
  if (options.group == nullptr || options.group->size() == 1) return true;
  return !options.primary_host ||
         *options.primary_host == options.group->rank();
}

}  // namespace holdfast
