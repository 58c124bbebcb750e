// The messages of a process group as bytes.
//
//   arrival    rank -> 0   where the rank is, and its value
//   waiting    0 -> rank   rank 0 has come, and waits for others
//   answer     0 -> rank   the values it asked for
//   failure    0 -> rank   why there are none
//
// Format: u8 version, u8 kind, then counts as varints and strings as a varint
// length and bytes.
// Thread-safety: pure functions.
// Errors: DataLoss for bytes that are not a message; nothing is allocated that
// the bytes do not hold.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "holdfast/status.h"

namespace holdfast {

struct ArrivalFrame {
  std::string phase;
  std::string file;
  std::string value;
};
struct WaitingFrame {
  uint64_t milliseconds = 0;  // that rank 0 waits for others at the most
};
struct AnswerFrame {
  std::vector<std::string> values;
};
struct FailureFrame {
  Status status;  // never ok
};
using Frame =
    std::variant<ArrivalFrame, WaitingFrame, AnswerFrame, FailureFrame>;

std::string EncodeFrame(const Frame& frame);
Result<Frame> DecodeFrame(std::string_view bytes);

// A status as a value that ranks exchange; ok is empty.
std::string EncodeStatus(const Status& status);
// False: not a status. `status` may come back ok.
[[nodiscard]] bool DecodeStatus(std::string_view bytes, Status& status);

}  // namespace holdfast
