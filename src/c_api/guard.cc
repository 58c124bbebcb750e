#include "c_api/guard.h"

#include "holdfast/version.h"

namespace holdfast {
namespace {

thread_local Status last_error;

[[maybe_unused]] const Status& thrown_made_at_start = ThrownError();

}  // namespace

holdfast_code Remember(const Status& status) noexcept {
  if (!status.ok()) last_error = status;
  return static_cast<holdfast_code>(status.code());
}

const Status& ThrownError() noexcept {
  static const auto* const status =
      new Status(InternalError("an exception of an unknown type"));
  return *status;
}

}  // namespace holdfast

// The messages below are literals or std::strings, which end with a zero byte.

const char* holdfast_version(void) { return holdfast::Version().data(); }

const char* holdfast_code_name(holdfast_code code) {
  return holdfast::StatusCodeName(static_cast<holdfast::StatusCode>(code))
      .data();
}

const char* holdfast_last_error(void) {
  return holdfast::last_error.ok() ? "" : holdfast::last_error.message().data();
}

holdfast_code holdfast_last_error_code(void) {
  return static_cast<holdfast_code>(holdfast::last_error.code());
}
