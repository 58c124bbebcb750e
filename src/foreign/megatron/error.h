// Makes errors with Megatron's messages.
//
// Thread-safety: pure functions.
#pragma once

#include <string_view>

#include "holdfast/megatron/megatron.h"

namespace holdfast::megatron {

// Makes an error of the class CheckpointingException.
Status CheckpointingError(StatusCode status_code, std::string_view code,
                          std::string_view text);

// Returns the status with `note` after its message.
Status WithNote(const Status& status, std::string_view note);

}  // namespace holdfast::megatron
