// The meaning of a manager's options: Orbax's refusals, and the names of steps;
// checkpoint_manager.h has the rest.
//
// Thread-safety: pure functions. Errors: InvalidArgument with Orbax's texts.
#pragma once

#include <string>

#include "holdfast/orbax/checkpoint_manager.h"

namespace holdfast {

// `directory` is absolute.
Result<CheckpointManagerOptions> ResolveOptions(
    const std::string& directory, CheckpointManagerOptions options);
Status CheckItems(const ManagerItems& items);

std::shared_ptr<const StepNameFormat> NameFormatOf(
    const CheckpointManagerOptions& options);

// True when processes could decide differently by themselves.
bool IsContinuous(const SaveDecisionPolicy& policy);

}  // namespace holdfast
