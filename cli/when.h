// Values of options that several verbs take.
#pragma once

#include <cstdint>

namespace holdfast::cli {

// When to use a feature: kAuto decides by the terminal or environment.
enum class When : uint8_t { kAuto, kAlways, kNever };

enum class SortKey : uint8_t {
  kCheckpoint,
  kName,
  kSize,
  // Only for stats.
  kMean,
  kStd,
  kL2,
  kAbsMax,
  kZeros,
};

}  // namespace holdfast::cli
