// The messages of a process group as bytes.
//
//   arrival    rank -> 0   where the rank is, and its value or its failure
//   waiting    0 -> rank   rank 0 has come, and waits for others
//   answer     0 -> rank   the values it asked for
//   failure    0 -> rank   why it has none: the call is over
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
  Status failure;       // of this rank; ok: none
  bool leaves = false;  // with its failure, and wants no answer
};
struct WaitingFrame {
  uint64_t milliseconds = 0;  // that rank 0 waits for others at the most
};
struct AnswerFrame {
  std::vector<std::string> values;
};
struct FailureFrame {
  Status status;                      // never ok
  std::vector<int64_t> failed_ranks;  // ascending; none: some did not come
  // The receiver had not come, and where the others were.
  bool was_missed = false;
  std::string phase;
  std::string file;
};
using Frame =
    std::variant<ArrivalFrame, WaitingFrame, AnswerFrame, FailureFrame>;

std::string EncodeFrame(const Frame& frame);
Result<Frame> DecodeFrame(std::string_view bytes);

}  // namespace holdfast
