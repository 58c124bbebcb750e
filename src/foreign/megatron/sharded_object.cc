
#include "foreign/megatron/python_text.h"
#include "ground/base/status_macros.h"
#include "ground/base/text.h"
#include "holdfast/megatron/megatron.h"

namespace holdfast::megatron {
namespace {

Status BadName(std::string_view python_class, std::string_view what,
               std::string_view unique_key) {
  return MakeError(StatusCode::kInvalidArgument, "BAD_OBJECT_NAME",
                   python_class,
                   std::string(what) + ": " + PythonRepr(unique_key) +
                       " is not <key>/shard_<offset>_<shape>");
}

std::vector<std::string_view> SplitText(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t at = 0;;) {
    const size_t end = text.find(separator, at);
    parts.push_back(text.substr(at, end - at));
    if (end == text.npos) return parts;
    at = end + 1;
  }
}

Result<Shape> ParseNumbers(std::string_view text, std::string_view unique_key) {
  Shape numbers;
  for (const std::string_view part : SplitText(text, '.')) {
    const auto number = ParseNumber<int64_t>(part);
    if (!number) {
      return BadName(
          "ValueError",
          "invalid literal for int() with base 10: " + PythonRepr(part),
          unique_key);
    }
    numbers.push_back(*number);
  }
  return numbers;
}

std::string TooMany(size_t got, int want) {
  return got > static_cast<size_t>(want)
             ? "too many values to unpack (expected " + std::to_string(want) +
                   ")"
             : "not enough values to unpack (expected " + std::to_string(want) +
                   ", got " + std::to_string(got) + ")";
}

}  // namespace

std::string ShardedObject::UniqueKey() const {
  return key + "/shard_" + JoinDots(global_offset) + "_" +
         JoinDots(global_shape);
}

std::string ShardedObject::ToString() const {
  return "ShardedObject(" + PythonRepr(UniqueKey()) + ")";
}

Result<ShardedObject> ShardedObject::EmptyFromUniqueKey(
    std::string_view unique_key, const ReplicaId& replica_id) {
  const auto parts = SplitText(unique_key, '/');
  if (parts.size() != 2) {
    return BadName("ValueError", TooMany(parts.size(), 2), unique_key);
  }
  const auto words = SplitText(parts[1], '_');
  if (words.size() != 3) {
    return BadName("ValueError", TooMany(words.size(), 3), unique_key);
  }
  if (words[0] != "shard") {
    return BadName("AssertionError", "no shard", unique_key);
  }
  ShardedObject object;
  object.key = std::string(parts[0]);
  object.replica_id = replica_id;
  HF_ASSIGN_OR_RETURN(object.global_offset, ParseNumbers(words[1], unique_key));
  HF_ASSIGN_OR_RETURN(object.global_shape, ParseNumbers(words[2], unique_key));
  if (object.global_shape.size() + 1 == object.global_offset.size()) {
    object.global_shape.push_back(-1);  // cut off by releases before 0.8
  }
  if (object.global_shape.size() != object.global_offset.size()) {
    return BadName("AssertionError", "offset and shape differ in length",
                   unique_key);
  }
  return object;
}

}  // namespace holdfast::megatron
