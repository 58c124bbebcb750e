// The message for "decoded to the wrong number of bytes", worded like
// TensorStore's.
// Thread-safety: pure. Units: bytes. Errors: returns DataLoss.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "holdfast/status.h"

namespace holdfast {

// Returns the error. REQUIRES: got != want. `where` names the codec or array.
inline Status DecodedSizeError(std::string_view where, uint64_t want,
                               uint64_t got) {
  std::string message(where);
  if (got < want) {
    message += ": Not enough data: expected at least " + std::to_string(want) +
               " or " + std::to_string(want - got) + " more; at byte " +
               std::to_string(got);
  } else {
    message += ": End of data expected; remaining length: " +
               std::to_string(got - want) + "; at byte " + std::to_string(want);
  }
  return DataLossError(std::move(message));
}

}  // namespace holdfast
