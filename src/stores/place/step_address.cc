#include "stores/place/step_address.h"

#include <utility>

#include "ground/base/status_macros.h"
#include "ground/base/text.h"
#include "stores/http/http_date.h"
#include "stores/place/directory_ops.h"

namespace holdfast {
namespace {

constexpr std::string_view kStepForm = "step=";
constexpr std::string_view kBestForm = "best:";
constexpr std::string_view kMaxForm = "max:";
constexpr std::string_view kMinForm = "min:";
constexpr std::string_view kAgo = " ago";

bool TakePrefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// Returns the number of seconds in a unit 's', 'm', 'h', 'd' or 'w'; 0 for any
// other unit.
int64_t SecondsOfUnit(char unit) {
  switch (unit) {
    case 's':
      return 1;
    case 'm':
      return 60;
    case 'h':
      return 60 * 60;
    case 'd':
      return 24 * 60 * 60;
    case 'w':
      return 7 * 24 * 60 * 60;
    default:
      return 0;
  }
}

// Parses "2h ago" or "1.5d ago" into nanoseconds since 1970.
std::optional<int64_t> TimeAgo(std::string_view text, int64_t now_ns) {
  if (!text.ends_with(kAgo)) return std::nullopt;
  text.remove_suffix(kAgo.size());
  if (text.empty()) return std::nullopt;
  const int64_t unit_seconds = SecondsOfUnit(text.back());
  text.remove_suffix(1);
  const auto count = ParseNumber<double>(text);
  // Times before 1970 become 0, since no step is that old.
  const double now_seconds = static_cast<double>(now_ns) / 1e9;
  if (unit_seconds == 0 || !count || !(*count >= 0)) return std::nullopt;
  const double ago_seconds = *count * static_cast<double>(unit_seconds);
  if (!(ago_seconds <= now_seconds)) return 0;
  return now_ns - static_cast<int64_t>(ago_seconds * 1e9);
}

// Parses "2026-11-01", "2026-11-01T12:00", and everything that ParseIsoTime
// accepts.
std::optional<int64_t> TimeOfDate(std::string_view text) {
  constexpr size_t kDateSize = 10, kMinutesSize = 16;
  std::string whole(text);
  if (whole.size() == kDateSize) {
    whole += "T00:00:00";
  } else if (whole.size() >= kMinutesSize &&
             (whole.size() == kMinutesSize || whole[kMinutesSize] != ':')) {
    whole.insert(kMinutesSize, ":00");
  }
  return ParseIsoTime(whole);
}

std::optional<StepAddress> ParseForm(std::string_view text, int64_t now_ns) {
  StepAddress address;
  address.text = text;
  if (text == "latest") return address;
  if (TakePrefix(text, kStepForm)) {
    const auto step = ParseNumber<int64_t>(text);
    if (!step || *step < 0) return std::nullopt;
    address.kind = StepAddress::Kind::kStep;
    address.step = *step;
    return address;
  }
  if (TakePrefix(text, kBestForm)) {
    address.kind = StepAddress::Kind::kBest;
    address.is_largest = TakePrefix(text, kMaxForm);
    if (!address.is_largest) TakePrefix(text, kMinForm);
    address.metric = text;
    if (text.empty()) return std::nullopt;
    return address;
  }
  auto time_ns = TimeAgo(text, now_ns);
  if (!time_ns) time_ns = TimeOfDate(text);
  if (!time_ns) return std::nullopt;
  address.kind = StepAddress::Kind::kTime;
  address.time_ns = *time_ns;
  return address;
}

}  // namespace

std::optional<StepAddress> ParseStepAddress(const std::string& path,
                                            int64_t now_ns) {
  size_t at = UrlRoot(path).size();
  while ((at = path.find('@', at)) != std::string::npos) {
    const std::string_view text = std::string_view(path).substr(at + 1);
    // Text after an earlier '@' may contain slashes; ParseForm allows them only
    // in a metric's name.
    if (auto address = ParseForm(text, now_ns)) {
      address->root = at == 0 ? "." : path.substr(0, at);
      return address;
    }
    ++at;
  }
  return std::nullopt;
}

Status CheckNamesNoStep(const Place& place) {
  const auto address = ParseStepAddress(place.path(), 0);
  if (!address) return Status();
  HF_ASSIGN_OR_RETURN(const bool is_there, LeadsToAnything(place));
  if (is_there) return Status();
  return InvalidArgumentError("write " + place.path() + ": \"@" +
                              address->text + "\" names a step to be read of " +
                              address->root +
                              "; nothing is written there: give the path "
                              "itself");
}

}  // namespace holdfast
