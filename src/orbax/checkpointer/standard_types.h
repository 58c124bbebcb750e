// The item types of Orbax, with the names that its releases record for them.
//
// Thread-safety: pure. Ownership: values.
// Errors: none; a handler that cannot be made with its defaults is a bug.
#pragma once

#include <vector>

#include "holdfast/orbax/checkpoint_handler.h"

namespace holdfast {

struct StandardType {
  CheckpointHandlerType handler;
  CheckpointArgsType save;
  CheckpointArgsType restore;
  // Another name for a type earlier in the list. Items recorded under this name
  // can be read, but its arguments do not select it.
  bool is_alias = false;
};

std::vector<StandardType> StandardTypes();

}  // namespace holdfast
