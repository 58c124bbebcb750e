// Paths that name a step of a root: `run@step=120`, `run@latest`, `run@2h ago`,
// `run@2026-11-01`, `run@2026-11-01T12:00`, `run@best:loss` (smallest),
// `run@best:max:accuracy` (largest).
//
// The text before the '@' is the root. The '@' is in the last component of the
// path, and never in a URL's root. After it, only a metric's name may contain
// slashes. Times are UTC.
//
// Thread-safety: pure functions, except CheckNamesNoStep, which may do I/O.
// Units: nanoseconds since 1970-01-01 UTC. Errors: ParseStepAddress returns
// nullopt for anything that is not an address; CheckNamesNoStep returns
// InvalidArgument.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "holdfast/status.h"
#include "stores/place/place.h"

namespace holdfast {

struct StepAddress {
  enum class Kind : uint8_t { kStep, kLatest, kTime, kBest };

  std::string root;  // "." if nothing precedes the '@'
  std::string text;  // the text after the '@'
  Kind kind = Kind::kLatest;
  int64_t step = 0;     // kStep
  int64_t time_ns = 0;  // kTime: the newest step that was committed by then
  std::string metric;   // kBest
  bool is_largest = false;
};

// The forms of addresses, for messages.
inline constexpr std::string_view kStepAddressForms =
    "@step=N, @latest, @2h ago (s, m, h, d, w), @2026-11-01, "
    "@2026-11-01T12:00 (UTC), @best:METRIC (smallest; also @best:min:METRIC) "
    "and @best:max:METRIC";

// Parses an address; nullopt if `path` has no valid address. "ago" counts from
// `now_ns`.
std::optional<StepAddress> ParseStepAddress(const std::string& path,
                                            int64_t now_ns);

// Returns InvalidArgument if `place` is a step address, unless an entry with
// exactly this name exists. Called before writing at `place`.
Status CheckNamesNoStep(const Place& place);

}  // namespace holdfast
