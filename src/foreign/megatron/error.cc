#include "foreign/megatron/error.h"

#include <algorithm>

#include "holdfast/megatron/megatron.h"

namespace holdfast::megatron {
namespace {

bool IsWord(std::string_view text, bool upper) {
  const auto fits = [&](char c) {
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
           (!upper && c >= 'a' && c <= 'z');
  };
  return !text.empty() && std::all_of(text.begin(), text.end(), fits);
}

}  // namespace

Status MakeError(StatusCode status_code, std::string_view code,
                 std::string_view python_class, std::string_view text) {
  std::string message(python_class);
  message.append("[").append(code).append("]: ").append(text);
  return Status(status_code, std::move(message));
}

std::optional<Error> ErrorOf(const Status& status) {
  if (status.ok()) return std::nullopt;
  const std::string_view message = status.message();
  const size_t open = message.find('[');
  const size_t close = message.find("]: ");
  if (open == message.npos || close == message.npos || close < open) {
    return std::nullopt;
  }
  const std::string_view python_class = message.substr(0, open);
  const std::string_view code = message.substr(open + 1, close - open - 1);
  if (!IsWord(python_class, false) || !IsWord(code, true)) return std::nullopt;
  return Error{std::string(code), std::string(python_class),
               std::string(message.substr(close + 3))};
}

std::string MegatronErrorCode(const Status& status) {
  const std::optional<Error> error = ErrorOf(status);
  return error ? error->code : std::string();
}

Status CheckpointingError(StatusCode status_code, std::string_view code,
                          std::string_view text) {
  return MakeError(status_code, code, "CheckpointingException", text);
}

Status WithNote(const Status& status, std::string_view note) {
  if (status.ok()) return status;
  return Status(status.code(), std::string(status.message()).append(note));
}

}  // namespace holdfast::megatron
