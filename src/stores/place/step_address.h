// Paths that say which step of a root is meant: `run@step=120`, `run@latest`,
// `run@2h ago`, `run@2026-11-01`, `run@2026-11-01T12:00`, `run@best:loss`
// (smallest), `run@best:max:accuracy` (largest).
//
// The text before the '@' is the root. The '@' is in the last part of the path,
// and never in the root of a URL; only the name of a metric may hold slashes.
// Times are UTC.
//
// Thread-safety: pure functions, but for CheckNamesNoStep, which may look.
// Units: nanoseconds since 1970-01-01 UTC. Errors: absent for anything but an
// address; InvalidArgument of CheckNamesNoStep.
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

  std::string root;  // "." where nothing stands before the '@'
  std::string text;  // what stands behind it
  Kind kind = Kind::kLatest;
  int64_t step = 0;     // kStep
  int64_t time_ns = 0;  // kTime: the newest step that was committed by then
  std::string metric;   // kBest
  bool is_largest = false;
};

// The forms of addresses, for messages.
inline constexpr std::string_view kStepAddressForms =
    "@step=N, @latest, @2h ago (s, m, h, d, w), @2026-11-01, "
    "@2026-11-01T12:00 (UTC), @best:METRIC (smallest) and @best:max:METRIC";

// `now_ns`: what "ago" counts from.
std::optional<StepAddress> ParseStepAddress(const std::string& path,
                                            int64_t now_ns);

// For whoever writes at `place`: InvalidArgument for a path with an address,
// unless something of exactly this name is there.
Status CheckNamesNoStep(const Place& place);

}  // namespace holdfast
