// The messages of a process group as bytes.
//
//   arrival    rank -> 0   what the rank has reached, and its value or failure
//   waiting    0 -> rank   rank 0 has arrived, and waits for others
//   answer     0 -> rank   the values that the rank asked for
//   failure    0 -> rank   why there are no values: the call is over
//
// Format: u8 version, u8 kind, then counts as varints, and strings as a varint
// length and bytes.
// Thread-safety: pure functions.
// Errors: DataLoss for bytes that are not a message; decoding never allocates
// more than the bytes hold.
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
  Status failure;       // of this rank; ok if it did not fail
  bool leaves = false;  // sent with a failure; wants no answer
};
struct WaitingFrame {
  uint64_t milliseconds = 0;  // rank 0 waits this long at most
};
struct AnswerFrame {
  std::vector<std::string> values;
};
struct FailureFrame {
  Status status;                      // never ok
  std::vector<int64_t> failed_ranks;  // ascending; empty: some did not arrive
  // The receiver had not arrived; `phase` and `file` say where the others were.
  bool was_missed = false;
  std::string phase;
  std::string file;
};
using Frame =
    std::variant<ArrivalFrame, WaitingFrame, AnswerFrame, FailureFrame>;

std::string EncodeFrame(const Frame& frame);
Result<Frame> DecodeFrame(std::string_view bytes);

}  // namespace holdfast
