// What a manager's options come to: Orbax's refusals, what read_only takes
// away, and the policies that the older options stand for.
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

SaveDecisionPolicy SavePolicyOf(const CheckpointManagerOptions& options);
PreservationPolicy PreservationPolicyOf(
    const CheckpointManagerOptions& options);
std::shared_ptr<const StepNameFormat> NameFormatOf(
    const CheckpointManagerOptions& options);

// True when processes could decide differently by themselves.
bool IsContinuous(const SaveDecisionPolicy& policy);

}  // namespace holdfast
