// Checks a manager's options for combinations that Orbax refuses, and makes the
// names of steps. checkpoint_manager.h has the other functions.
//
// Thread-safety: pure functions. Errors: InvalidArgument with Orbax's messages.
#pragma once

#include <string>

#include "holdfast/orbax/checkpoint_manager.h"

namespace holdfast {

// Checks the options and fills in defaults. `directory` must be absolute.
Result<CheckpointManagerOptions> ResolveOptions(
    const std::string& directory, CheckpointManagerOptions options);
Status CheckItems(const ManagerItems& items);

std::shared_ptr<const StepNameFormat> NameFormatOf(
    const CheckpointManagerOptions& options);

// Returns true if processes that decide separately could decide differently.
bool IsContinuous(const SaveDecisionPolicy& policy);

}  // namespace holdfast
