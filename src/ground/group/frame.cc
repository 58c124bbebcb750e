#include "ground/group/frame.h"

#include <cstdint>
#include <utility>

#include "ground/base/string_coding.h"

namespace holdfast {
namespace {

constexpr char kVersion = 2;
enum Kind : uint8_t { kArrival = 0, kWaiting, kAnswer, kFailure };

void PutStatus(std::string& out, const Status& status) {
  out.push_back(static_cast<char>(status.code()));
  PutString(out, status.message());
}

bool ReadStatus(Cursor& cursor, Status& status) {
  uint8_t code = 0;
  std::string message;
  if (!cursor.ReadByte(code) ||
      code > static_cast<uint8_t>(StatusCode::kInternal) ||
      !ReadString(cursor, message)) {
    return false;
  }
  status = Status(static_cast<StatusCode>(code), std::move(message));
  return true;
}

bool ReadValues(Cursor& cursor, std::vector<std::string>& values) {
  uint64_t count = 0;
  // A value takes at least one byte, so a larger count is refused before memory
  // is allocated for it.
  if (!ReadVarint64(cursor, count) || count > cursor.remaining()) {
    return false;
  }
  values.resize(count);
  for (std::string& value : values) {
    if (!ReadString(cursor, value)) return false;
  }
  return true;
}

bool ReadFlag(Cursor& cursor, bool& flag) {
  uint8_t byte = 0;
  if (!cursor.ReadByte(byte) || byte > 1) return false;
  flag = byte == 1;
  return true;
}

bool ReadRanks(Cursor& cursor, std::vector<int64_t>& ranks) {
  uint64_t count = 0;
  // A rank takes at least one byte, as above.
  if (!ReadVarint64(cursor, count) || count > cursor.remaining()) {
    return false;
  }
  ranks.resize(count);
  for (int64_t& rank : ranks) {
    uint64_t number = 0;
    if (!ReadVarint64(cursor, number)) return false;
    rank = static_cast<int64_t>(number);
  }
  return true;
}

bool ReadFrame(Cursor& cursor, Frame& frame) {
  uint8_t version = 0;
  uint8_t kind = 0;
  if (!cursor.ReadByte(version) || version != kVersion ||
      !cursor.ReadByte(kind)) {
    return false;
  }
  switch (kind) {
    case kArrival: {
      ArrivalFrame& arrival = frame.emplace<ArrivalFrame>();
      return ReadString(cursor, arrival.phase) &&
             ReadString(cursor, arrival.file) &&
             ReadString(cursor, arrival.value) &&
             ReadStatus(cursor, arrival.failure) &&
             ReadFlag(cursor, arrival.leaves);
    }
    case kWaiting:
      return cursor.ReadU64Little(frame.emplace<WaitingFrame>().milliseconds);
    case kAnswer:
      return ReadValues(cursor, frame.emplace<AnswerFrame>().values);
    case kFailure: {
      FailureFrame& failure = frame.emplace<FailureFrame>();
      return ReadStatus(cursor, failure.status) && !failure.status.ok() &&
             ReadRanks(cursor, failure.failed_ranks) &&
             ReadFlag(cursor, failure.was_missed) &&
             ReadString(cursor, failure.phase) &&
             ReadString(cursor, failure.file);
    }
    default:
      return false;
  }
}

struct Encoder {
  std::string operator()(const ArrivalFrame& arrival) const {
    std::string out = Start(kArrival);
    PutString(out, arrival.phase);
    PutString(out, arrival.file);
    PutString(out, arrival.value);
    PutStatus(out, arrival.failure);
    out.push_back(arrival.leaves ? 1 : 0);
    return out;
  }
  std::string operator()(const WaitingFrame& waiting) const {
    std::string out = Start(kWaiting);
    PutU64Little(out, waiting.milliseconds);
    return out;
  }
  std::string operator()(const AnswerFrame& answer) const {
    std::string out = Start(kAnswer);
    PutVarint(out, answer.values.size());
    for (const std::string& value : answer.values) PutString(out, value);
    return out;
  }
  std::string operator()(const FailureFrame& failure) const {
    std::string out = Start(kFailure);
    PutStatus(out, failure.status);
    PutVarint(out, failure.failed_ranks.size());
    for (const int64_t rank : failure.failed_ranks) {
      PutVarint(out, static_cast<uint64_t>(rank));
    }
    out.push_back(failure.was_missed ? 1 : 0);
    PutString(out, failure.phase);
    PutString(out, failure.file);
    return out;
  }

  static std::string Start(Kind kind) {
    return {kVersion, static_cast<char>(kind)};
  }
};

}  // namespace

std::string EncodeFrame(const Frame& frame) {
  return std::visit(Encoder(), frame);
}

Result<Frame> DecodeFrame(std::string_view bytes) {
  Cursor cursor(bytes);
  Frame frame;
  if (!ReadFrame(cursor, frame) || cursor.remaining() != 0) {
    return DataLossError("a message of " + std::to_string(bytes.size()) +
                         " bytes that does not come from a process group");
  }
  return frame;
}

}  // namespace holdfast
